#!/bin/bash
# Builds foreign CUDA programs with -cudart shared and runs them on softgpu: which pass, which are
# refused, which give a wrong answer. README.md says which sources it knows and what a result means.
#
# usage: run_foreign.sh [--build BUILD] [--out FOLDER] [--only REGEX] [-j N] SOURCES
#   SOURCES  a checkout of NVIDIA's cuda-samples, or of llm.c (its dev/cuda is used)
#   --build  whose softgpu/lib runs them: build/dev
#   --out    objects, logs and table.md: /tmp/softgpu-foreign
#   -j       how many at a time: 2
# Environment: NVCC, FOREIGN_TIMEOUT (seconds a program may run, 300)
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=$root/build/dev
out=${TMPDIR:-/tmp}/softgpu-foreign
only=.
jobs=2
one=
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$(cd "$2" && pwd) && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --only) only=$2 && shift 2 ;;
    -j) jobs=$2 && shift 2 ;;
    --one) one=$2 && shift 2 ;; # internal: a single program
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0" && exit 0 ;;
    -*) echo "run_foreign.sh: '$1' is no option" >&2 && exit 2 ;;
    *) break ;;
    esac
done
[ $# -eq 1 ] && [ -d "$1" ] || { echo "usage: run_foreign.sh [OPTIONS] SOURCES" >&2 && exit 2; }
sources=$(cd "$1" && pwd)
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
limit=${FOREIGN_TIMEOUT:-300}
toolkit=$(cd "$(dirname "$nvcc")/.." && pwd)

# Why a program is out of scope: a pattern of its sources and build file, and what it needs.
not_applicable() {
    local pattern reason
    while IFS='|' read -r reason pattern; do
        if grep -qsrE -- "$pattern" "$1" --include=CMakeLists.txt --include='*.cu' --include='*.cpp' --include='*.c' \
            --include='*.h' --include='*.cuh'; then
            echo "$reason"
            return 0
        fi
    done <<'PATTERNS'
needs graphics|find_package\((OpenGL|GLUT|Vulkan|GLFW|glfw3|EGL)|OpenGL::|GL/(gl|glut|freeglut)\.h|d3d1[0-2]|EGL/egl|vulkan/vulkan
needs cuBLAS|CUDA::cublas|cublas_v2\.h"|cublas_v2\.h>
needs cuFFT|CUDA::cufft
needs cuRAND|CUDA::curand
needs cuSOLVER|CUDA::cusolver
needs cuSPARSE|CUDA::cusparse
needs NPP|CUDA::npp|nppi|npp\.h
needs nvJPEG|CUDA::nvjpeg
needs nvJitLink|CUDA::nvJitLink|nvJitLink
needs NvSci|NvSci|nvscibuf
needs libNVVM|nvvm\.h|libNVVM
needs MPI|find_package\(MPI|mpi\.h
needs FreeImage|FreeImage
needs dynamic parallelism|cudadevrt|cudaStreamFireAndForget|cudaStreamTailLaunch
PATTERNS
    case $(basename "$1") in
    cdp*) echo "needs dynamic parallelism" ;;
    simpleD3D* | *Vulkan*) echo "needs graphics" ;;
    *) return 1 ;;
    esac
}

# the sources that its CMakeLists.txt lists for the program
listed_sources() {
    tr '\n' ' ' <"$1/CMakeLists.txt" | grep -oE 'add_executable\([^)]*\)' | tr ' ()' '\n' |
        grep -E '^[A-Za-z0-9_./]+\.(cu|cpp|cc|c)$' | sort -u
}

# The samples' helper asks NVRTC for machine code of the device: PTX instead, in a copy of the helper.
# It also wants the headers that kernels include in the program's folder.
ask_nvrtc_for_ptx() {
    sed 's/--gpu-architecture=sm_/--gpu-architecture=compute_/; s/nvrtcGetCUBIN/nvrtcGetPTX/g' \
        "$sources/Common/nvrtc_helper.h" >nvrtc_helper.h
    cp -r "$toolkit"/include/{cooperative_groups*,cuda_fp16.h*} "$toolkit"/include/cccl/{cuda,nv} .
}

# compiles in $work; kernels that it loads from files too
compile_samples() {
    local files include kernel rdc
    cd "$work" || return
    # GEMMs of up to 8192^3: 256^3 instead, compared with the host; fewer repetitions for timing
    find . -maxdepth 1 \( -name '*.c*' -o -name interval.h \) -exec sed -E -i '
        s/define CPU_DEBUG 0/define CPU_DEBUG 1/; s/define ([MNK]_TILES) [0-9]+/define \1 16/
        s/\b(NUM_ITERATIONS *=) *[0-9]+;/\1 2;/; s/(define NUM_REPS +)[0-9]+/\12/; s/\b(numIterations = )20;/\12;/
        s/(define TEST_ITERATIONS +)\(1000\)/\1(10)/; s/\b(OPT_N *=) *4000000;/\1 100000;/; s/\b(log2Data *=) *23;/\1 16;/
        s/define NUM_RUNS \(100\)/define NUM_RUNS (1)/; s/GRID_SIZE( +)= 1024;/GRID_SIZE\1= 32;/
        s/deviceProp\.maxGridSize\[1\], 1/8, 1/; s/\b0xAFFFF\b/0xAFF/' {} +
    files=$(listed_sources .)
    include="-I. -I$sources/Common -Iinc -Isrc"
    for kernel in $(grep -oE '[A-Za-z0-9_]+64\.(fatbin|ptx)' CMakeLists.txt | sort -u); do
        local base=${kernel%64.*} kind=${kernel##*.}
        "$nvcc" -std=c++17 $include -gencode arch=compute_80,code=compute_80 -"$kind" -o "$kernel" "$base.cu" ||
            "$nvcc" -std=c++17 $include -arch=compute_80 -"$kind" -o "$kernel" "$base.cu" || return
    done
    local libraries="-L$lib -L$toolkit/lib64"
    grep -q 'CUDA::cuda_driver' CMakeLists.txt && libraries="$libraries -lcuda"
    grep -q 'CUDA::nvrtc' CMakeLists.txt && libraries="$libraries -lnvrtc" && ask_nvrtc_for_ptx
    for rdc in "" -rdc=true; do
        "$nvcc" -std=c++17 -O2 -cudart shared -gencode arch=compute_80,code=compute_80 --extended-lambda $rdc \
            -Xcompiler -fopenmp $include -o program $files $libraries && return 0
    done
    return 1
}

# llm.c's kernels: problem sizes and repetitions cut to what a CPU does in seconds. B * T stays a multiple
# of every block size that they try: one kernel writes out of bounds otherwise (idx > N for idx >= N).
compile_llmc() {
    cd "$work" || return
    sed -E -i 's/\b(int|int64_t) B = [0-9]+;/\1 B = 4;/; s/\b(int|int64_t) T = 1024;/\1 T = 256;/
        s/\b(int|int64_t) V = 50257;/\1 V = 1031;/; s/\bint OC = 768 \* [0-9]+;/int OC = 256;/
        s/\bint C = 1600;/int C = 768;/; s/repeat_times = [0-9]+;/repeat_times = 1;/; s/\bint L = 12;/int L = 2;/' "$name.cu"
    "$nvcc" -std=c++17 -O3 --use_fast_math -cudart shared -gencode arch=compute_80,code=compute_80 \
        -Xcompiler -fopenmp -c -o program.o "$name.cu" || return
    cublas_stand_in >cublas.c && gcc -c cublas.c &&
        "$nvcc" -cudart shared -Xcompiler -fopenmp -o program program.o cublas.o
}

# All of them make a cuBLAS handle, few use it: the first use ends the program.
cublas_stand_in() {
    local function
    echo '#include <stdio.h>'
    echo '#include <stdlib.h>'
    for function in $(nm -u program.o | grep -oE 'cublas[A-Za-z0-9_]+'); do
        case $function in
        cublasCreate_v2 | cublasDestroy_v2 | cublasLtCreate | cublasLtDestroy | cublasSetMathMode)
            echo "int $function(void) { return 0; }" ;;
        *) echo "int $function(void) { fputs(\"needs cuBLAS\\n\", stderr); exit(77); }" ;;
        esac
    done
}

# what a sample is told, so that it ends in time: by its own options
arguments() {
    sed -n "s/^$1 //p" "$here/arguments.txt"
}

# one line of the table from a run's log: result and why
judge() {
    local status=$1 log=$2 refusal
    refusal=$(grep -aE '^softgpu: .*(not supported|unsupported|cannot|refused|built for)' "$log" | head -n 1 | cut -c 10-170)
    if [ "$status" -eq 0 ] && ! grep -aqE 'Result = FAIL|Test failed|FAILED|[Mm]ismatch' "$log"; then
        echo "pass|"
    elif [ "$status" -eq 124 ]; then
        echo "slow|still running after $limit s"
    elif [ -n "$refusal" ]; then
        echo "refused|$refusal"
    elif grep -aqiE 'operation not supported|cudaErrorNotSupported|NOT_SUPPORTED|code=801' "$log"; then
        echo "refused|$(grep -aiE 'not.?supported|code=801' "$log" | head -n 1 | cut -c 1-160)"
    elif [ "$status" -eq 2 ] || grep -aqiE 'waiv' "$log"; then
        echo "not applicable|waived itself: $(grep -aviE '^$|starting' "$log" | tail -n 1 | cut -c 1-120)"
    elif [ "$status" -ge 128 ]; then
        echo "wrong|ended by signal $((status - 128))"
    else
        echo "wrong|exit $status: $(grep -aiE 'error|fail|mismatch|wrong' "$log" | head -n 1 | cut -c 1-140)"
    fi
}

# runs `program` once, or for each of llm.c's kernel numbers; the worst result counts
run_program() {
    local log=$work/log k verdict why=
    if [ "$kind" = samples ]; then
        # shellcheck disable=SC2046 # words are wanted
        timeout "$limit" ./program $(arguments "$name") >"$log" 2>&1 </dev/null
        judge $? "$log"
        return
    fi
    local passed= skipped= fault
    for k in $(seq 1 16); do
        timeout "$limit" ./program "$k" >"$log.$k" 2>&1 </dev/null
        local status=$?
        grep -aqiE 'invalid kernel|is only supported for' "$log.$k" && continue
        fault=$(sed -n "s/^$name $k //p" "$here/own_faults.txt")
        verdict=$(judge $status "$log.$k")
        if [ $status -eq 77 ]; then
            skipped="$skipped $k"
        elif [ "${verdict%%|*}" = pass ]; then
            passed="$passed $k"
        elif [ -n "$fault" ]; then
            why="$why; kernel $k's own fault: $fault"
        else
            echo "${verdict%%|*}|kernel $k: ${verdict#*|}"
            return
        fi
        grep -aq 'Using kernel' "$log.$k" || break # takes no number
    done
    [ -n "$skipped" ] && why="$why; kernels$skipped need cuBLAS"
    [ -n "$passed" ] && echo "pass|${why#; }" || echo "not applicable|${why#; }"
}

run_one() {
    local why verdict start
    name=$(basename "$one" .cu)
    work=$out/of/it/$name # ../../../Common is there, as in the checkout
    rm -rf "$work" && mkdir -p "$work"
    if [ "$kind" = samples ]; then
        cp -r "$sources/$one/." "$work"
        if why=$(not_applicable "$work"); then
            echo "$one|not applicable|0|$why" >"$work/result"
            return
        fi
    else
        cp "$sources/$one" "$(dirname "$sources/$one")"/*.h "$work"
    fi
    if ! (compile_$kind) >"$work/compile.log" 2>&1; then
        echo "$one|not applicable|0|does not compile: $(grep -aE 'error|fatal' "$work/compile.log" | head -n 1 | cut -c 1-120)" >"$work/result"
        return
    fi
    if [ -e "$work/not-applicable" ]; then
        echo "$one|not applicable|0|$(cat "$work/not-applicable")" >"$work/result"
        return
    fi
    cd "$work" || return
    export LD_LIBRARY_PATH=$lib SOFTGPU_DEVICES=2
    start=$(date +%s)
    verdict=$(run_program)
    echo "$one|${verdict%%|*}|$(($(date +%s) - start))|${verdict#*|}" >"$work/result"
}

list_programs() {
    if [ "$kind" = samples ]; then
        (cd "$sources" && grep -l add_executable Samples/*/*/CMakeLists.txt | xargs -n 1 dirname)
    else
        (cd "$sources" && ls dev/cuda/*.cu)
    fi | grep -E -- "$only"
}

table() {
    local result count
    echo "| program | result | s | why |"
    echo "|---|---|---|---|"
    cat "$out"/of/it/*/result | sort | sed 's/|/ | /g; s/^/| /; s/$/ |/'
    echo
    for result in pass refused wrong slow "not applicable"; do
        count=$(cat "$out"/of/it/*/result | cut -d'|' -f2 | grep -cx "$result")
        echo "- $result: $count"
    done
    cat "$out"/of/it/*/result | awk -F'|' '$2 != "not applicable" { n++ } $2 == "pass" { p++ }
        END { if (n) printf "- %.0f %% of the %d applicable ones pass\n", 100 * p / n, n }'
}

lib=$build/softgpu/lib
[ -e "$lib/libcuda.so.1" ] || { echo "run_foreign.sh: no libcuda.so.1 in '$lib'" >&2 && exit 2; }
if [ -d "$sources/Samples" ] && [ -d "$sources/Common" ]; then
    kind=samples
elif [ -d "$sources/dev/cuda" ]; then
    kind=llmc
else
    echo "run_foreign.sh: '$sources' is neither cuda-samples nor llm.c" >&2
    exit 2
fi
mkdir -p "$out/of/it"
if [ -n "$one" ]; then
    run_one
    cut -d'|' -f1,2,4 "$out/of/it/$(basename "$one" .cu)/result" >&2
    exit 0
fi
rm -f "$out"/of/it/*/result
ln -sfn "$sources/$([ "$kind" = samples ] && echo Common || echo llmc)" "$out/$([ "$kind" = samples ] && echo Common || echo llmc)"
list_programs | xargs -P "$jobs" -I '{}' "$0" --build "$build" --out "$out" --one '{}' "$sources"
table >"$out/table.md"
cat "$out/table.md"
