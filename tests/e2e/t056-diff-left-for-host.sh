# what a copy brings to the host always has a fingerprint: where nobody saw who wrote it, or two streams wrote it in
# any order, and only the host gets to see the result, runs with other results are not identical
# timeout: 600
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_shared
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
cupti=
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then cupti=1; fi

record() { # record SEED TRACE OPTIONS... -- CASE... - standard output in ./out
    local seed=$1 trace=$2
    shift 2
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

# compare OPTIONS... -- CASE... - runs with equal results are not diverged; the report of two with other ones in ./out
compare() {
    local seed status other= equal=
    record 1 a.twinbit "$@"
    mv out first
    for seed in 2 3 4 5 6 7 8; do
        record $seed b.twinbit "$@"
        if cmp -s first out; then
            status=0
            "$TWINBIT" diff a.twinbit b.twinbit >equal || status=$?
            [ $status != 1 ] || fail "$*: equal results: $(cat equal)"
            equal=$seed
        else
            other=$seed
            expect 1 "$TWINBIT" diff a.twinbit b.twinbit
            mv out differs
        fi
        if [ -n "$other" ] && [ -n "$equal" ]; then break; fi
    done
    [ -n "$other" ] || fail "$*: all seeds give the same result"
    mv differs out
}

FORMS="sync async pinned any anyasync 2d 2dasync 3d pitched pitchedasync packed packedasync spread spreadasync"
forms() { # forms OPTIONS...
    local how
    for how in $FORMS; do
        compare "$@" -- "$TOOL" both "$how"
        matches out '^DIVERGED  1 root, first: step 0, forward:, cuMemcpy[A-Za-z0-9]*#0, src'
        contains out "cause       race between streams 1 and 2: part#0 and part#1 are not ordered"
        contains out "written by  0/cuda_shared/main/0/forward:/part#1"
    done
}

forms
forms --inputs
[ -z "$cupti" ] || forms --tap cupti
for options in "" --inputs; do
    # shellcheck disable=SC2086 # none or one
    compare $options -- "$TOOL" both graph
    contains out "DIVERGED  1 root, first: step 0, forward:, copy#0, src"
    contains out "cause       race between streams 1 and 2: part#0 and part#1 are not ordered"
done

# it leaves while another stream may write it, before that or behind it: the fingerprint is of what the host got
for options in "" --inputs ${cupti:+"--tap cupti"}; do
    for how in $FORMS; do
        # shellcheck disable=SC2086 # none, or several words
        compare $options -- "$TOOL" early $how
        matches out '^DIVERGED  1 root, first: step 0, forward:, cuMemcpy[A-Za-z0-9]*#0, src'
        matches out 'cause       race between streams 2 and [01]: part#0 and cuMemcpy[A-Za-z0-9]*#0 are not ordered'
    done
done
# the same, where the host does not wait and queues who writes it behind the copy
for options in "" --inputs ${cupti:+"--tap cupti"}; do
    for how in pinned anyasync 2dasync pitchedasync packedasync spreadasync; do
        # shellcheck disable=SC2086 # none, or several words
        compare $options -- "$TOOL" chased $how
        matches out '^DIVERGED  1 root, first: step 0, forward:, cuMemcpy[A-Za-z0-9]*#0, src'
        matches out 'cause       race between streams [12] and [12]: .*part#0.* are not ordered'
    done
done
compare --enqueue deferred -- "$TOOL" early any
compare --enqueue deferred -- "$TOOL" early spread

# where it arrives in memory that the device does not read, and the host does not wait: that may be torn, and diff says so
for seed in 1 2 3 4 5 6; do
    record $seed a.twinbit -- "$TOOL" early registered
    mv out first
    for other in 2 3 4 5 6 7; do
        status=0
        record $other b.twinbit -- "$TOOL" early registered
        "$TWINBIT" diff a.twinbit b.twinbit >report || status=$?
        [ $status != 0 ] || fail "$(cat report)"
        if [ $status = 3 ]; then break 2; fi
    done
done
matches report '^UNKNOWN  cuMemcpyDtoHAsync to the host: another stream or node of a graph may write there meanwhile'
contains report "another stream or node of a graph may write what it brings to the host"

# somebody wrote it whom nothing that was recorded tells of
for options in "" --inputs ${cupti:+"--tap cupti"}; do
    # shellcheck disable=SC2086 # none, or several words
    compare $options -- "$TOOL" missed sync
    contains out "DIVERGED  1 root, first: step 0, forward:, cuMemcpyDtoH#0, src"
    contains out "cause       unseen writer"
    contains out "last written, equally, by 0/forward:/cuMemsetD8#0"
    contains out "found changed by 0/forward:/cuMemcpyDtoH#0, which is not to blame"
    matches out '^  next  .* run '
done

# of rows with gaps between them the gaps do not count
for options in "" --inputs; do
    # shellcheck disable=SC2086 # none or one
    record 1 a.twinbit $options -- "$TOOL" gaps pitched
    "$TWINBIT" show a.twinbit tensors >rows
    grep -qE '^r [0-9a-f]{32} u8 *\[1,8,128\] .*cuMemcpy2D#0 src' rows || fail "$(grep ^r rows)"
    for seed in 2 3 4 5; do
        # shellcheck disable=SC2086
        record $seed b.twinbit $options -- "$TOOL" gaps pitched
        expect 0 "$TWINBIT" diff a.twinbit b.twinbit
    done
done

# each of many small copies has one, and no launch has one of what it reads
record 1 a.twinbit -- "$TOOL" scalars
"$TWINBIT" show a.twinbit tensors >rows
[ "$(grep -cE '^r [0-9a-f]{32} u8 *\[4\] .*cuMemcpyDtoHAsync#' rows)" -eq 64 ] || fail "$(grep ^r rows)"
record 1 a.twinbit -- "$TOOL" disjoint
"$TWINBIT" show a.twinbit tensors >rows
[ "$(grep -cE '^r - .*(more|take)#' rows)" -eq 6 ] || fail "$(grep ^r rows)"

# the events' lines have it, and each line has its device, a graph's and that of work on memory of the host alone, too
for how in sync pinned 2d pitched graph; do
    record 1 a.twinbit -- "$TOOL" both $how
    "$TWINBIT" show a.twinbit tensors >rows
    fp=$(awk '$1 == "r" && $NF == "src" { print $2 }' rows)
    "$TWINBIT" show a.twinbit events >rows
    matches rows "^ *[0-9]+ $fp 0/cuda_shared/main/0/forward:/(cuMemcpy|copy).* cuda:0\\]\$"
    [ "$(grep -v '\[sync' rows | grep -cv 'stream:[0-2] cuda:0\]$')" -eq 0 ] || fail "no device: $(cat rows)"
done
matches rows ' - +0/cuda_shared/main/0/forward:/graph#0  \[graph stream:1 cuda:0\]$'

# and a run with --inputs compares with one without
record 1 a.twinbit -- "$TOOL" disjoint
record 1 b.twinbit --inputs -- "$TOOL" disjoint
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
