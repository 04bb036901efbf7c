#!/bin/bash
# CUDA tensors, hashed on the device: values as the host has them, streams, a second device, pinned memory,
# a graph.
set -eu
TB_TEST=softgpu.torch_tap_real
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch_tap/lib.sh"
need_softgpu
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

SOFTGPU_DEVICES=2 record real.twinbit -- "$TESTS/real.py"
contains out ok
expect 0 tb show --json real.twinbit events
mv out events.json
expect 0 "$PYTHON" "$TESTS/real_check.py" events.json
cat out
lines out 5
expect 0 tb show real.twinbit coverage
matches out 'note +[12]x cuda: tensor: its stream is being captured into a graph$'
matches out 'note +1x graph: CUDAGraph.replay: .*as one launch'
lacks out 'not covered'
