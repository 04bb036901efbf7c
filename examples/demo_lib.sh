# What the demos of GPU jobs share (cuda_gpt/demo.sh, tinygrad_gpt/demo.sh); read in by them under `set -u`.
#
# Set by demo_begin: BUILD, DEVICE (host or softgpu), twinbit, folder (now the current one), wrong (how many statements
# were). The demo sets before it records: program (an array: what runs), shown (the same, as it is printed), job (an
# array: its options in all runs), RATE (of the broken multiprocessor's faults).

die() {
    echo "demo.sh: $*" >&2
    exit 2
}

# has_gpu - a driver that knows of a device
has_gpu() {
    command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU [0-9]'
}

# demo_begin TOP [-o FOLDER] - the demo's own arguments; TOP: the source tree
demo_begin() {
    BUILD=${BUILD:-$1/build/dev}
    twinbit=$BUILD/bin/twinbit
    folder=
    wrong=0
    shift
    if [ "${1:-}" = -o ]; then
        folder=${2:?-o needs a folder}
        shift 2
    fi
    [ $# -eq 0 ] || die "usage: demo.sh [-o FOLDER]"
    [ -x "$twinbit" ] || die "no program at '$twinbit': build it first"
    if [ -z "${DEVICE:-}" ]; then
        DEVICE=softgpu
        has_gpu && DEVICE=host
    fi
    [ "$DEVICE" != softgpu ] || [ -e "$BUILD/softgpu/lib/libcuda.so.1" ] ||
        die "no GPU, and no software device in '$BUILD': scripts/cuda_headers.sh, then build again"
    [ -n "$folder" ] || folder=$(mktemp -d "${TMPDIR:-/tmp}/twinbit-demo-gpu.XXXXXX")
    mkdir -p "$folder" && cd "$folder" || die "cannot make '$folder'"
    folder=$PWD
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
    # shellcheck disable=SC2206 # the words of what is shown
    said+=(${options[@]+"${options[@]}"} -o "$name.twinbit" -- $shown ${job[@]+"${job[@]}"} "$@")
    echo "\$ $([ "$DEVICE" = softgpu ] && echo "SOFTGPU_SEED=$seed ")twinbit run $(quoted "${said[@]}")"
    if ! SOFTGPU_SEED=$seed "$twinbit" run --quiet --force --device "$DEVICE" ${options[@]+"${options[@]}"} \
        -o "$name.twinbit" -- "${program[@]}" ${job[@]+"${job[@]}"} "$@" >"$name.log" 2>&1; then
        echo "demo.sh: the job failed:" >&2
        tail -n 15 "$name.log" >&2
        exit 2
    fi
    grep '^checksum' "$name.log" | sed 's/^/  /'
}

# compare A B [FILTER...] - twinbit's report of the two, shown and in report.txt; its status in $status
compare() {
    local a=$1 b=$2
    shift 2
    [ $# -gt 0 ] || set -- cat
    status=0
    echo "\$ twinbit diff $a.twinbit $b.twinbit"
    "$twinbit" diff "$a.twinbit" "$b.twinbit" >report.txt 2>&1 || status=$?
    sed -e "s#${program[*]}#$shown#g" -e "s#$BUILD/bin/##g" -e 's/^/  /' report.txt | "$@"
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
    [ "$status" -eq 1 ] && [ "$(event_kernel)" = "$1" ] && grep -q '^ *launch  *grid ' report.txt &&
        grep -q '^ *elements .* first: ' report.txt
}

# show_same - two runs that must have the same bits
show_same() {
    record same-a 1
    record same-b 2
    compare same-a same-b
    expect "identical" [ "$status" -eq 0 ]
}

# show_order KERNEL JOB-OPTION... - two runs of a job in which KERNEL depends on an order
show_order() {
    local kernel=$1 seed suspect
    shift
    for seed in 2 3 4 5; do # on a GPU, chance decides
        record order-a 1 -- "$@"
        record order-b $seed -- "$@"
        compare order-a order-b in_short
        [ "$status" -eq 0 ] || break
        echo "the two runs happened to be equal; again"
    done
    echo
    suspect=$(event)
    if [ -n "$suspect" ]; then
        echo "Once more, and that event's tensors are kept:"
        echo
        record order-a 1 --snapshot "$suspect" -- "$@"
        record order-b $seed --snapshot "$suspect" -- "$@"
        compare order-a order-b
    fi
    expect "the first to differ is $kernel, with launch and element" named "$kernel"
}

# show_fault - run same-a against one on a device whose multiprocessor 3 computes wrong at times
show_fault() {
    local seed suspect fault launch first
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
    # a launch is judged as a whole: only with one fault in it does that fault's line say so too
    launch=$(sed -n 's/^{"kind":"launch".*"launch":\([0-9]*\),.*"masked":false.*/\1/p' faults.jsonl | head -n 1)
    first=$(sed -n "s/^{\"kind\":\"launch\".*\"launch\":${launch:-none},\"kernel\":\"\([^\"]*\)\".*/\1/p" faults.jsonl | head -n 1)
    echo "The device's own log, its first launch with faults that matter:"
    grep "\"launch\":${launch:-none}," faults.jsonl |
        sed -E 's/"(what|place|spec|device|index|serial|warp|lane|dst|elem|bits|function|logged)":("[^"]*"|[0-9]*),//g; s/^/  /' |
        tail -n 4
    expect "the first to differ is '$first', as in the log" named "$first"
}

# demo_end - says whether all was as said, and ends
demo_end() {
    if [ "$wrong" -eq 0 ]; then
        echo "All was as it should be. Traces and logs: $folder"
        exit 0
    fi
    echo "$wrong were not as they should be. Traces and logs: $folder"
    exit 1
}
