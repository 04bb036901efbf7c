#!/bin/bash
# demo.sh - what twinbit says of a GPU job: that it repeats itself, where it does not, and which kernel a
# broken multiprocessor spoilt.
#
#   examples/cuda_gpt/demo.sh [-o FOLDER]
#
# The job is cuda_gpt, unedited, with all its launches recorded. On the machine's GPU if there is one, else on
# the software device, whose seed stands for the chance of a GPU's schedule, and where one multiprocessor can
# be broken. Each report is checked against what is known: the kernel that was asked to use atomics, and
# the device's own log of faults.
# Exit status: 0 all was as said, 1 something was not, 2 it could not be run.
# Environment: BUILD (build/dev), DEVICE (host or softgpu), JOB (options of cuda_gpt), RATE (of the broken
# multiprocessor's faults, 1e-7).
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
BUILD=${BUILD:-$top/build/dev}
twinbit=$BUILD/bin/twinbit
gpt=$BUILD/bin/cuda_gpt

die() {
    echo "demo.sh: $*" >&2
    exit 2
}

folder=
if [ "${1:-}" = -o ]; then
    folder=${2:?-o needs a folder}
    shift 2
fi
[ $# -eq 0 ] || die "usage: demo.sh [-o FOLDER]"
[ -x "$twinbit" ] || die "no program at '$twinbit': build it first"
[ -x "$gpt" ] || die "no program at '$gpt': it needs nvcc: scripts/cuda_headers.sh --nvcc, then make demo-gpu"

# has_gpu - a driver that knows of a device
has_gpu() {
    command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU [0-9]'
}
if [ -z "${DEVICE:-}" ]; then
    DEVICE=softgpu
    has_gpu && DEVICE=host
fi
if [ "$DEVICE" = softgpu ]; then
    [ -e "$BUILD/softgpu/lib/libcuda.so.1" ] || die "no GPU, and no software device in '$BUILD'"
    read -ra job <<<"${JOB:---layers 1 --batch 4 --steps 3}"
else
    read -ra job <<<"${JOB:---preset gpu --steps 3}"
fi

[ -n "$folder" ] || folder=$(mktemp -d "${TMPDIR:-/tmp}/twinbit-demo-gpu.XXXXXX")
mkdir -p "$folder" && cd "$folder" || die "cannot make '$folder'"
RATE=${RATE:-1e-7}
wrong=0

# record NAME SEED OPTION... [-- JOB-OPTION...] - one run, traced to NAME.twinbit, its output in NAME.log
record() {
    local name=$1 seed=$2 options=() said=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    [ "$DEVICE" = softgpu ] && said=(--device softgpu)
    said+=(${options[@]+"${options[@]}"} -o "$name.twinbit" -- cuda_gpt "${job[@]}" "$@")
    echo "\$ $([ "$DEVICE" = softgpu ] && echo "SOFTGPU_SEED=$seed ")twinbit run $(quoted "${said[@]}")"
    if ! SOFTGPU_SEED=$seed "$twinbit" run --quiet --force --device "$DEVICE" ${options[@]+"${options[@]}"} \
        -o "$name.twinbit" -- "$gpt" "${job[@]}" "$@" >"$name.log" 2>&1; then
        echo "demo.sh: the job failed:" >&2
        tail -n 15 "$name.log" >&2
        exit 2
    fi
    grep '^checksum' "$name.log" | sed 's/^/  /'
}

# quoted WORD... - as one would type them
quoted() {
    local word
    for word; do
        case $word in
        *[!A-Za-z0-9_./,=:+-]*) printf "'%s' " "$word" ;;
        *) printf '%s ' "$word" ;;
        esac
    done | sed 's/ $//'
}

# compare A B [FILTER...] - twinbit's report of the two, shown and in report.txt; its status in $status
compare() {
    local a=$1 b=$2
    shift 2
    [ $# -gt 0 ] || set -- cat
    status=0
    echo "\$ twinbit diff $a.twinbit $b.twinbit"
    "$twinbit" diff "$a.twinbit" "$b.twinbit" >report.txt 2>&1 || status=$?
    sed -e "s#$BUILD/bin/##g" -e 's/^/  /' report.txt | "$@"
}

# of a report that is shown whole later
in_short() {
    grep -E '^ *(IDENTICAL|DIVERGED|UNKNOWN|cause|event|twinbit:) '
}

expect() { # WHAT-IS-EXPECTED CONDITION...
    local what=$1
    shift
    if "$@"; then
        echo "=> as it should be: $what"
    else
        echo "=> WRONG, expected: $what"
        wrong=$((wrong + 1))
    fi
    echo
}

# event - the name of the first event that parts the runs in report.txt, from its step on
event() {
    sed -n 's#^ *event  *\([^/]*/\)\{0,3\}\([0-9]*/[^/]*:[^/]*/[^/]*\)$#\2#p' report.txt | head -n 1
}

# event_kernel - the kernel in that name
event_kernel() {
    event | sed -e 's/#[0-9]*$//' -e 's#.*/##'
}

# named KERNEL - is it the report's first, and is an element of what it wrote named?
named() {
    [ "$status" -eq 1 ] && [ "$(event_kernel)" = "$1" ] && grep -q '^ *elements .* first: ' report.txt
}

# --- 1: the same bits twice ---
echo "1. Sums in a fixed order: two runs$([ "$DEVICE" = softgpu ] && echo ", each under a schedule of its own")."
echo
record same-a 1
record same-b 2
compare same-a same-b
expect "identical" [ "$status" -eq 0 ]

# --- 2: one kernel with atomics ---
echo "2. Layer norm's gradients are summed with atomicAdd: two runs."
echo
atomics=(-- --atomics layernorm)
for seed in 2 3 4 5; do # on a GPU, chance decides
    record order-a 1 "${atomics[@]}"
    record order-b $seed "${atomics[@]}"
    compare order-a order-b in_short
    [ "$status" -eq 0 ] || break
    echo "the two runs happened to be equal; again"
done
echo
suspect=$(event)
if [ -n "$suspect" ]; then
    echo "Once more, and that event's tensors are kept:"
    echo
    record order-a 1 --snapshot "$suspect" "${atomics[@]}"
    record order-b $seed --snapshot "$suspect" "${atomics[@]}"
    compare order-a order-b
fi
expect "the first to differ is layernorm_backward_params_atomic, with launch and element" \
    named layernorm_backward_params_atomic

# --- 3: a broken multiprocessor ---
if [ "$DEVICE" = softgpu ]; then
    echo "3. Multiprocessor 3 is broken: it flips a bit of a result now and then. Against run same-a."
    echo
    for seed in 1 2 3 4 5; do # chance decides here, too
        fault=(--fault "sm=3 unit=fma bit=22 rate=$RATE seed=$seed" --fault-log faults.jsonl)
        record broken 1 "${fault[@]}"
        compare same-a broken in_short
        [ "$status" -eq 0 ] || break
        echo "no flip, or none that matters; again"
    done
    echo
    suspect=$(event)
    if [ -n "$suspect" ]; then
        echo "Once more, and that event's tensors are kept:"
        echo
        record same-a 1 --snapshot "$suspect"
        record broken 1 "${fault[@]}" --snapshot "$suspect"
        compare same-a broken
    fi
    first=$(sed -n 's/.*"kind":"fault".*"kernel":"\([^"]*\)".*"masked":false.*/\1/p' faults.jsonl | head -n 1)
    echo "The device's own log, its first fault that matters:"
    grep -m1 '"kind":"fault".*"masked":false' faults.jsonl |
        sed -E 's/"(what|place|spec|device|index|serial|warp|lane|dst|elem|bits)":("[^"]*"|[0-9]*),//g; s/^/  /'
    expect "the first to differ is '$first', as in the log" named "$first"
fi

if [ $wrong -eq 0 ]; then
    echo "All was as it should be. Traces and logs: $folder"
    exit 0
fi
echo "$wrong were not as they should be. Traces and logs: $folder"
exit 1
