#!/bin/bash
# The `softgpu` program: what it sets, what it refuses and with which advice, what it prints.
#
# usage: run.sh SOFTGPU FOLDER   FOLDER: of the programs that CMakeLists.txt makes of program.c
set -u
if [ -n "${TB_SANITIZE:-}" ]; then
    echo "skipped: a sanitizer's library cannot be preloaded into foreign programs"
    exit 77
fi
softgpu=$1
programs=$2
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES
for v in $(compgen -v SOFTGPU_); do unset "$v"; done

# check NAME STATUS COMMAND... - runs it, its output in $work/out
check() {
    local name=$1 want=$2 status
    shift 2
    "$@" >"$work/out" 2>&1
    status=$?
    if [ $status -ne "$want" ]; then
        echo "$name: status $status instead of $want: $*"
        cat "$work/out"
        failed=1
    fi
}

# has TEXT... - the output of the last check holds each of these
has() {
    local text
    for text; do
        if ! grep -qF -- "$text" "$work/out"; then
            echo "no '$text' in:"
            cat "$work/out"
            failed=1
        fi
    done
}

check help 0 "$softgpu" -h
has "usage: softgpu SUBCOMMAND" run info ptx
for c in run info ptx; do
    check "help of $c" 0 "$softgpu" $c -h
    has "usage: softgpu $c"
done
check "no subcommand" 2 "$softgpu"
check "unknown subcommand" 2 "$softgpu" walk
check "unknown option" 2 "$softgpu" run --nonsense -- true
has "unknown option '--nonsense'"
check "no program" 2 "$softgpu" run
for bad in "--devices 0" "--devices 9" "--memory 0" "--memory 1" "--workers 0" "--sms 0" "--seed -1" "--arch sm_70" \
    "--arch SM_80" "--order foo" "--log 9" \
    "--strict foo" "--report file"; do
    # shellcheck disable=SC2086 # two words
    check "bad $bad" 2 "$softgpu" run $bad -- touch "$work/ran"
done
for bad in "unit=fpu" "sm=7 unit=int" "lanes=4g" "unit=int; mem=1"; do
    check "bad fault $bad" 2 "$softgpu" run --fault "unit=fma rate=1e-9" --fault "$bad" -- touch "$work/ran"
    has "bad fault '"
done
check "bad fault" 2 env "SOFTGPU_FAULT=unti=int" "$softgpu" run -- touch "$work/ran"
has "no word 'unti'; the words are device, sm, unit"
check "a log of nothing" 2 "$softgpu" run --fault-log "$work/log" -- touch "$work/ran"
has "of use without SOFTGPU_FAULT"
check "bad variable" 2 env SOFTGPU_ISA=foo "$softgpu" run -- touch "$work/ran"
has "SOFTGPU_ISA='foo' is not 'base' or 'native'"
[ -e "$work/ran" ] && { echo "a program ran with bad options"; failed=1; }

# the environment, and the program's own status
check run 7 "$softgpu" run --arch sm_90 --seed 0 --devices 3 --memory 2G --order index -- \
    "$programs/good" 7
has SOFTGPU_ARCH=sm_90 SOFTGPU_SEED=0 SOFTGPU_DEVICES=3 SOFTGPU_MEMORY=2147483648 \
    SOFTGPU_ORDER=index "/softgpu/lib" TRITON_LIBCUDA_PATH=/ libsoftgpu_rt.so
grep -qE 'LD_PRELOAD=.*lib(cudart|cupti).so' "$work/out" &&
    { echo "a preloaded name says libcudart.so or libcupti.so"; failed=1; }
# CUPTI is left out where its headers are not there
[ -e "$(dirname "$softgpu")/../softgpu/lib/libsoftgpu_cupti.so" ] && has libsoftgpu_cupti.so
check "environment stays" 0 env LD_LIBRARY_PATH=/before SOFTGPU_SEED=5 "$softgpu" run -- \
    "$programs/good"
has ":/before" SOFTGPU_SEED=5

# Triton and Inductor: the pass-through and caches of our own, unless the user has set them
# shellcheck disable=SC2016 # the program's variables
triton='echo "A=$TRITON_PTXAS_PATH B=$TRITON_PTXAS_BLACKWELL_PATH C=$TRITON_CACHE_DIR D=$TORCHINDUCTOR_CACHE_DIR"'
check "triton" 0 env -u XDG_CACHE_HOME HOME=/h "$softgpu" run -- sh -c "$triton"
has "/softgpu/lib/softgpu-ptxas B=/" " C=/h/.cache/softgpu/triton D=/h/.cache/softgpu/inductor"
check "triton, another cache" 0 env XDG_CACHE_HOME=/c "$softgpu" run -- sh -c "$triton"
has " C=/c/softgpu/triton "
check "triton, no home" 0 env -u XDG_CACHE_HOME -u HOME "$softgpu" run -- sh -c "$triton"
has " C=/tmp/softgpu-$(id -u)/triton "
check "triton, the user's" 0 env TRITON_PTXAS_PATH=/a TRITON_PTXAS_BLACKWELL_PATH=/b TRITON_CACHE_DIR=/c \
    TORCHINDUCTOR_CACHE_DIR=/d "$softgpu" run -- sh -c "$triton"
has "A=/a B=/b C=/c D=/d"
if [ -e "$(dirname "$softgpu")/../softgpu/lib/libsoftgpu_cupti.so" ]; then
    # shellcheck disable=SC2016
    check "triton's profiler" 0 "$softgpu" run -- sh -c 'ls "$TRITON_CUPTI_LIB_PATH/libcupti.so"'
    check "triton's profiler, the user's" 0 env TRITON_CUPTI_LIB_PATH=/e "$softgpu" run -- \
        sh -c 'echo "E=$TRITON_CUPTI_LIB_PATH"'
    has "E=/e"
fi
ptxas=$(dirname "$softgpu")/../softgpu/lib/softgpu-ptxas
printf '.version 9.0 // a.ptx\n' >"$work/a.ptx"
check "ptxas" 0 env -i "$ptxas" --version
has "release 13.0"
check "ptxas copies" 0 env -i "$ptxas" -lineinfo --fmad=false -v --opt-level 1 --regAllocOptLevel=2 --gpu-name=sm_80 \
    "$work/a.ptx" -o "$work/a.ptx.o"
cmp "$work/a.ptx" "$work/a.ptx.o" || failed=1
check "ptxas without input" 1 "$ptxas" -v -o "$work/b"
has "no input that ends in .ptx"
check "ptxas without output" 1 "$ptxas" -v "$work/a.ptx"
has "no -o with the file to write"
check "ptxas, two inputs" 1 "$ptxas" "$work/a.ptx" "$work/b.ptx" -o "$work/b"
has "two inputs"
check "ptxas, no such input" 1 "$ptxas" "$work/b.ptx" -o "$work/b"
has "cannot read '$work/b.ptx': No such file"
check "ptxas, no such folder" 1 "$ptxas" "$work/a.ptx" -o "$work/none/b"
has "cannot write '$work/none/b': No such file"
check "ptxas, a full disk" 1 "$ptxas" "$work/a.ptx" -o /dev/full
has "cannot write '/dev/full': No space"
# PyTorch's eager operators: a hook for Python
# shellcheck disable=SC2016
eager='echo "P=$PYTHONPATH E=$SOFTGPU_EAGER"'
check "not eager" 0 env PYTHONPATH=/p SOFTGPU_EAGER=0 "$softgpu" run -- sh -c "$eager"
has "P=/p E=0"
check "eager" 0 env -u PYTHONPATH "$softgpu" run --eager -- sh -c "$eager"
has "/lib/twinbit/python/eager E=1"
check "eager by variable" 0 env PYTHONPATH=/p SOFTGPU_EAGER=1 "$softgpu" run -- sh -c "$eager"
has "/lib/twinbit/python/eager:/p E=1"
check "eager, wrong" 2 env SOFTGPU_EAGER=yes "$softgpu" run -- true
has "SOFTGPU_EAGER='yes' is not 0 or 1"
check "a script" 3 "$softgpu" run -- sh -c 'exit 3'
check "a signal" 143 "$softgpu" run -- sh -c 'kill -TERM $$'
check "not there" 127 "$softgpu" run -- "$work/nothing"
: >"$work/plain"
check "not a program" 126 "$softgpu" run -- "$work/plain"
check "no libraries" 125 "$softgpu" run --libdir "$work" -- true
has "no libcuda.so.1 in"

# what cannot work, and what mends it
check "static runtime" 125 "$softgpu" run -- "$programs/static"
has "nvcc -cudart shared" NVCC_APPEND_FLAGS
check "forced" 0 "$softgpu" run --force -- "$programs/static"
check "machine code" 125 "$softgpu" run -- "$programs/sass"
has "built for sm_75 machine code only; add PTX with -gencode arch=compute_75,code=compute_75"
check "newer code" 125 "$softgpu" run -- "$programs/newer"
has "built for sm_90 and newer" "--arch sm_90"
check "newer device" 0 "$softgpu" run --arch sm_90 -- "$programs/newer"
check "another runtime" 125 "$softgpu" run -- "$programs/old"
has "needs 'libcudart.so.1'"
check "found in PATH" 125 env PATH="$programs:$PATH" "$softgpu" run -- sass
has "machine code only"

check info 0 env SOFTGPU_DEVICES=2 "$softgpu" info
has "device 1: softgpu sm_80, sm_80, 8.0 GiB, 108 SMs reported"
check "info as JSON" 0 "$softgpu" info --json
has '"arch": "sm_80"' '"uuid": "GPU-'
check "no devices" 0 env CUDA_VISIBLE_DEVICES= "$softgpu" info
has "no device is visible"
check "bad options" 2 env SOFTGPU_ARCH=sm_1 "$softgpu" info
has "SOFTGPU_ARCH='sm_1'"

check "ptx of a program" 0 "$softgpu" ptx "$programs/good"
has "part 1 loads" "first: 1 parameters in 8 bytes" second
check "ptx refused" 1 "$softgpu" ptx "$programs/sass"
has "machine code only"
printf '.version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n frob.u32 %%r1;\n}\n' \
    >"$work/bad.ptx"
check "ptx text" 1 "$softgpu" ptx "$work/bad.ptx" "$programs/good"
has frob "part 1 loads"
check "no device code" 3 "$softgpu" ptx "$softgpu"
has "no device code"
check "no file" 2 "$softgpu" ptx "$work/nothing"
check "a folder" 2 "$softgpu" ptx "$work"
has "Is a directory"
check "a pipe" 1 "$softgpu" ptx <(cat "$work/bad.ptx")

[ $failed -eq 0 ] && echo "all as it should be"
exit $failed
