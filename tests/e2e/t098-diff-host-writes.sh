# what the host left in memory that kernels write, too, is input data, whether a kernel reads it or only writes beside
# it; what a kernel does otherwise in such memory is still the kernel's, and what nothing is left of is no difference
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_managed
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps=shim
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps="shim cupti"; fi
unset SOFTGPU_SEED SOFTGPU_STRICT

record() { # record TRACE KIND CASE VALUE OPTIONS...
    local trace=$1 kind=$2 case=$3 value=$4
    shift 4
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@" -- "$TOOL" "$kind" "$case" "$value"
}

pair() { # pair STATUS KIND CASE OPTIONS... - two runs in which the host writes 1 and 2
    local status=$1 kind=$2 case=$3
    shift 3
    record a.twinbit "$kind" "$case" 1 "$@"
    record b.twinbit "$kind" "$case" 2 "$@"
    expect "$status" "$TWINBIT" diff a.twinbit b.twinbit
}

is_input() { # is_input EVENT NAME TENSOR
    contains out "DIVERGED  1 root, first: step 0, forward:, $1, $2"
    contains out "cause       input data"
    contains out "evidence    '$2' of ${1%#*} came from memory of the host: other bytes than in the other run"
    contains out "event       0/cuda_managed/main/0/forward:/$1"
    contains out "tensor      $2 (read): u32 [512] on $3"
    matches out 'launch      grid [78],1,1, block 64,1,1, shared 0, stream 0, on (cuda|shared):0$'
}

for tap in $taps; do
    for inputs in "" --inputs; do
        # shellcheck disable=SC2086 # none or one
        for kind in "managed weights shared:0" "pinned arg+0 cpu"; do
            set -- $kind
            pair 1 "$1" beside --tap "$tap" $inputs
            is_input 'part#1' "before $2" "$3"
            pair 1 "$1" same --tap "$tap" $inputs
            is_input 'more#0' "$2" "$3"
            pair 1 "$1" read --tap "$tap" $inputs
            is_input 'take#0' "$2" "$3"
            pair 0 "$1" over --tap "$tap" $inputs
            contains out "IDENTICAL"
        done
    done
    pair 1 managed table --tap "$tap"
    is_input 'table#0' weights shared:0
done

# the bytes that the host wrote
pair 1 managed beside --inputs --steps 0..0 --snapshot '0/forward:/part#1'
contains out "elements    1 of 512 differ; first: 3 = [3]"
contains out "A         1  0x00000001"

# equal runs are, and an older way to record has nothing to tell it by: a row, and the report says so
record b.twinbit managed beside 1 --inputs --steps 0..0 --snapshot '0/forward:/part#1'
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
if [ "$taps" != shim ]; then
    pair 1 managed beside --tap cupti --enqueue deferred
    contains out "cause       unexplained"
    contains out "'before weights' is memory that the host may write, too, and was not hashed: it may differ"
    expect 0 "$TWINBIT" show a.twinbit coverage
    contains out "what the host writes to memory of both is not told from what it writes"
fi

# the kernel's own
for kind in managed pinned; do
    other=
    SOFTGPU_SEED=1 record a.twinbit $kind kernel 1
    for seed in 2 3 4 5 6 7 8; do
        SOFTGPU_SEED=$seed record b.twinbit $kind kernel 1
        status=0
        "$TWINBIT" diff a.twinbit b.twinbit >out || status=$?
        if [ $status = 0 ]; then continue; fi
        other=$seed
        matches out '^DIVERGED  1 root, first: step 0, forward:, last#0, (weights|arg[+]0)$'
        contains out "cause       unexplained"
        break
    done
    [ -n "$other" ] || fail "$kind: all seeds give the same result"
done
