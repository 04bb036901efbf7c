#!/bin/bash
# CUDA programs on softgpu with the shim before the driver, without twinbit: same output, same status.
#
# usage: programs.sh BUILD PROGRAM...
set -u
build=$1
shift
lib=$build/softgpu/lib
shim=$build/lib/twinbit/shim
command -v ldd >/dev/null || {
    echo "skipped: no ldd"
    exit 77
}
LD_LIBRARY_PATH=$shim:$lib ldd "$lib/libsoftgpu_rt.so" | grep -qF "$shim/libcuda.so.1" || {
    echo "the runtime does not find the shim"
    exit 1
}
status=0
for program in "$@"; do
    LD_LIBRARY_PATH=$lib SOFTGPU_SEED=3 timeout 60 "$program" >alone 2>alone.err
    want=$?
    LD_LIBRARY_PATH=$shim:$lib SOFTGPU_SEED=3 timeout 60 "$program" >behind 2>behind.err
    got=$?
    if [ $got -ne $want ] || ! diff alone behind || ! diff alone.err behind.err; then
        echo "$(basename "$program"): status $got, alone $want"
        status=1
    fi
done
exit $status
