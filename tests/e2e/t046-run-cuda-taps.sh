# how the recorder gets at the calls of CUDA: taps, who else wants CUPTI, environment, pause
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_tool
[ -x "$TOOL" ] || skip "built without softgpu's CUPTI, or with a sanitizer"
LIB=$TB_BUILD_DIR/lib/twinbit
SOFTGPU=$TB_BUILD_DIR/softgpu/lib

run() { # run TRACE OPTIONS... -- CMD...
    local trace=$1
    shift
    expect 0 "$TWINBIT" run --device softgpu --force -o "$trace" "$@"
}

# each tap sees the same, and the job notices none of them
run shim.twinbit -- "$TOOL"
contains out "calls 0"
lines out 1
run cupti.twinbit --tap cupti -- "$TOOL"
run deferred.twinbit --tap cupti --enqueue deferred -- "$TOOL"
run none.twinbit --tap none -- "$TOOL"
"$TWINBIT" show shim.twinbit events >shim.events
lines shim.events 4 # three sets, one wait
for tap in cupti deferred; do
    "$TWINBIT" show $tap.twinbit events | diff shim.events - || fail "$tap saw other events than shim"
done
"$TWINBIT" show none.twinbit events >none.events
lines none.events 0
expect 0 "$TWINBIT" show deferred.twinbit env
contains out "cuda.tap=cupti"
contains out "cuda.enqueue=deferred"
contains out "cuda.slot=twinbit holds CUPTI's only slot"
expect 0 "$TWINBIT" diff shim.twinbit cupti.twinbit

# threads that start CUDA at once, children that do: no call is missed
for tap in shim cupti; do
    for mode in threads fork; do
        run many.twinbit --tap $tap -- "$TOOL" $mode
        "$TWINBIT" show many.twinbit events >many.events
        lines many.events 32
    done
done

# pushed ranges of NVTX, of the default domain, in all their forms
status=0
"$TWINBIT" run --device softgpu --force -o ranges.twinbit -- "$TOOL" ranges >out 2>err || status=$?
if [ $status -ne 77 ]; then # built with NVTX's headers
    contains out "depths 2 1 0 1"
    "$TWINBIT" show ranges.twinbit events >ranges.events
    lines ranges.events 8
    [ "$(grep -c 'plain:wïde.known' ranges.events)" -eq 4 ] || fail "ranges: $(cat ranges.events)"
    lacks ranges.events theirs
fi

# a profiler that was first keeps CUPTI, and is named; the job goes on
run early.twinbit --tap cupti -- "$TOOL" early
contains out "subscribe 0"
contains out "calls 3"
contains err "CUPTI's only slot is held by CUPTI for early bird: going on without recording CUDA; --tap shim"
expect 0 "$TWINBIT" show early.twinbit coverage
contains out "cuda-tap: cupti: CUPTI's only slot is held by"
# one that is later is refused; beside the shim it works
run late.twinbit --tap cupti -- "$TOOL" late
contains out "subscribe 39"
contains out "calls 0"
for mode in early late; do
    run beside.twinbit -- "$TOOL" $mode
    contains out "subscribe 0"
    contains out "calls 3"
    "$TWINBIT" show beside.twinbit events | diff shim.events - || fail "other events beside a profiler"
done

# an injection of the user's stays
SOFTGPU_LOG=0 CUDA_INJECTION64_PATH=/nowhere/tool.so run theirs.twinbit --tap cupti -- \
    sh -c "echo \$CUDA_INJECTION64_PATH; '$TOOL'"
contains out "/nowhere/tool.so"
contains err "CUDA_INJECTION64_PATH names '/nowhere/tool.so' already and stays: --tap shim is used"
"$TWINBIT" show theirs.twinbit events | diff shim.events - || fail "other events with the shim in its place"

# what a job gets; where it names the driver as a file it gets the shim
LD_LIBRARY_PATH=/one:/two NUMBA_CUDA_DRIVER=$SOFTGPU/libcuda.so.1 CUDA_PATH=/usr/local/cuda \
    run env.twinbit -- env
contains out "LD_LIBRARY_PATH=$LIB/shim:$SOFTGPU:/one:/two"
contains out "TWINBIT_CUDA_REAL=$SOFTGPU/libcuda.so.1"
contains out "TRITON_LIBCUDA_PATH=$LIB/shim"
contains out "NUMBA_CUDA_DRIVER=$LIB/shim/libcuda.so.1"
contains out "CUDA_PATH=/usr/local/cuda"
contains out "NVTX_INJECTION64_PATH=$LIB/libtwinbit_cuda.so"
lacks out CUDA_INJECTION64_PATH
SOFTGPU_TOOL_KERNELS=mine NVTX_INJECTION64_PATH=/nvtx.so run env.twinbit --tap cupti -- env
contains out "CUDA_INJECTION64_PATH=$LIB/libtwinbit_cuda.so"
contains out "NVTX_INJECTION64_PATH=/nvtx.so"
contains out "SOFTGPU_TOOL_KERNELS=mine,twinbit_fp_*"
lacks out "$LIB/shim"
# without a GPU nothing of it
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
    expect 0 env -u LD_LIBRARY_PATH "$TWINBIT" run --force -o env.twinbit -- env
    for name in LD_LIBRARY_PATH= TWINBIT_CUDA_REAL CUDA_INJECTION64_PATH TRITON_LIBCUDA_PATH NVTX_INJECTION64_PATH; do
        lacks out "$name"
    done
fi

# who finds another libcuda than the shim is not covered
run missed.twinbit -- env LD_PRELOAD="$LIB/libtwinbit.so" LD_LIBRARY_PATH="$SOFTGPU" "$TOOL" wait
expect 0 "$TWINBIT" show missed.twinbit coverage
contains out "it found libcuda without the shim before it"
# and it says so itself when it ends before anybody has looked
run short.twinbit -- env LD_PRELOAD="$LIB/libtwinbit.so" LD_LIBRARY_PATH="$SOFTGPU" "$TOOL"
expect 0 "$TWINBIT" show short.twinbit coverage
contains out "process: libcuda: used the driver without the library before it"

# patterns that no kernel fits are told, and a job without steps is searched all the same
run filtered.twinbit --kernel 'no_such*' -- "$TOOL"
contains err "no kernel matches --kernel"
expect 0 "$TWINBIT" bisect --device softgpu --pairs 1 -- "$TOOL"
contains err "the job marks no steps: all its events are looked at"

# SIGUSR2 to twinbit: a pause, and on again
run paused.twinbit -- sh -c "kill -USR2 \$PPID; sleep 0.5; '$TOOL'; kill -USR2 \$PPID; sleep 0.5; '$TOOL'"
contains err "recording pauses (SIGUSR2)"
contains err "recording goes on (SIGUSR2)"
"$TWINBIT" show paused.twinbit events >paused.events
lines paused.events 4
expect 0 "$TWINBIT" show paused.twinbit coverage
contains out "paused: all processes: by the user (SIGUSR2)"
