#!/bin/bash
# An unmodified training script with device="cuda" and CPU bodies for eager operators: its output is that of
# the CPU to the last bit. Without the bodies it ends with one error that names kernel and way out.
set -eu
TB_TEST=softgpu.torch_eager_train
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
need_softgpu
in_folder
export OMP_NUM_THREADS=1 # a DataLoader that pins sets it for the threads of backward, and sums depend on it
script=$TB_SOURCE_DIR/tests/softgpu/torch/eager_train.py

expect 0 "$PYTHON" "$script" cpu mlp conv gpt lstm
cp out cpu
lines cpu 32
expect 0 softgpu run --eager -- "$PYTHON" "$script" cuda mlp conv gpt lstm
diff cpu out >&2 || fail "the device's output (>) is not the CPU's (<)"
lacks err "cannot run"
echo "eager training ok"

expect 1 softgpu run -- "$PYTHON" "$script" cuda conv
contains err "CUDNN_STATUS_NOT_INITIALIZED"
matches err "^softgpu: 'libcudnn[^']*' cannot run: .*torch.compile replaces it.*'softgpu run --eager' \(twinbit.eager\)"
[ "$(grep -c 'cannot run' err)" -eq 1 ] || fail "not one line that says what cannot run"
expect 1 softgpu run -- "$PYTHON" -c 'import torch; torch.zeros(4, device="cuda") + 1'
contains err "no kernel image is available for execution on the device"
matches err "^softgpu: kernel '_Z[A-Za-z0-9_]*' cannot run: .*'softgpu run --eager' \(twinbit.eager\)"
[ "$(grep -c 'cannot run' err)" -eq 1 ] || fail "not one line that says what cannot run"
echo "refusals ok"
