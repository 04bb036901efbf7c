#!/bin/bash
# What the torch tap asks of the CUDA recorder about CUDA tensors, and what becomes of the answers: by a
# stand-in for the recorder that hashes in order with the stream it is given.
set -eu
TB_TEST=softgpu.torch_tap_asks
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch_tap/lib.sh"
need_softgpu
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

SOFTGPU_DEVICES=2 record asks.twinbit --tap none -- "$TESTS/asks.py"
cat out
lines out 10
expect 0 tb show --json asks.twinbit events
mv out events.json
expect 0 "$PYTHON" "$TESTS/asks_check.py" events.json
cat out
lines out 6
expect 0 tb show asks.twinbit coverage
matches out 'not covered +2x capture: |not covered +1x capture: '
matches out 'tensor: aten::clone: view beyond its storage'
lacks out 'unseen'
