#!/bin/bash
# torch.profiler in a recorded job: its tables are what they are without twinbit, and all is recorded. With --tap cupti,
# too: Kineto asks for activity records and leaves CUPTI's slot alone; a tool that wants the slot is refused, and the
# trace says by whom.
set -eu
TB_TEST=recorder.torch_profiled
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
need_softgpu
need_module triton
need_program gcc # Triton compiles its launchers
[ -e "$TB_BUILD_DIR/softgpu/lib/libcupti.so.13" ] || skip "built without CUPTI's headers"
TWINBIT=$TB_BUILD_DIR/bin/twinbit
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export TRITON_CACHE_DIR=$folder/triton OMP_NUM_THREADS=1
job=$TB_SOURCE_DIR/tests/recorder/torch/profiled.py

expect 0 softgpu run -- "$PYTHON" "$job"
mv out alone
matches alone '^double_kernel DeviceType.CUDA 4 took time on the device$'
matches alone '^work DeviceType.CPU 1 took time on the device$'

# recorded NAME OPTION... - the profiler's complaints are none, the trace has each launch
recorded() {
    local name=$1
    shift
    expect 0 tb run --quiet --device softgpu -o "$name.twinbit" "$@" -- "$PYTHON" "$job"
    diff alone out >&2 || fail "$name: another table (>) than alone (<)"
    if grep -iE 'cupti|kineto|missing' err >&2; then
        fail "$name: the profiler complained"
    fi
    expect 0 tb show "$name.twinbit" events
    [ "$(grep -c '/double_kernel#' out)" -eq 20 ] || fail "$name: $(grep -c '/double_kernel#' out) launches instead of 20"
    expect 0 tb show "$name.twinbit" coverage
    lacks out "not covered"
    lacks out "unseen"
}

recorded shim
recorded again
expect 0 tb diff shim.twinbit again.twinbit
matches out '^IDENTICAL'
recorded inputs --level kernel --inputs
recorded cupti --tap cupti
recorded deferred --tap cupti --enqueue deferred

# with the slot taken by us
cat >slot.py <<'END'
import ctypes

import torch

torch.zeros(4, device="cuda")
cupti = ctypes.CDLL("libcupti.so.13")
handle = ctypes.c_void_p()
callback = ctypes.CFUNCTYPE(None)(lambda: None)
print("slot", cupti.cuptiSubscribe(ctypes.byref(handle), callback, None))
END
expect 0 tb run --quiet --device softgpu -o slot.shim.twinbit -- "$PYTHON" slot.py
contains out "slot 0"
expect 0 tb run --quiet --device softgpu --tap cupti -o slot.cupti.twinbit -- "$PYTHON" slot.py
matches out '^slot [1-9]'
expect 0 tb show slot.cupti.twinbit env
matches out "cuda.slot=twinbit holds CUPTI's only slot: .*--tap shim"
