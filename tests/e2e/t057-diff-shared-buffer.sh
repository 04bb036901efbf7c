# two streams that write one buffer through the same pointer: each to a part of its own, and then runs of equal results
# are not diverged, whatever their fingerprints hold of the other's writing; or to the same bytes, and then the race is named
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_shared
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
ways=("" --inputs)
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then ways+=("--tap cupti"); fi

record() { # record SEED OPTIONS... -- CASE... - into SEED.twinbit, standard output into SEED.out
    local seed=$1
    shift
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$seed.twinbit" "$@"
    mv out "$seed.out"
}

# all SEEN OPTIONS... -- CASE... - each of the seeds against the first: SEEN gets a line "equal|other STATUS" for each,
# reports are in d.SEED
all() {
    local seen=$1 seed status
    shift
    : >"$seen"
    record 1 "$@"
    for seed in 2 3 4 5 6 7 8 9; do
        record "$seed" "$@"
        status=0
        "$TWINBIT" diff 1.twinbit "$seed.twinbit" >"d.$seed" || status=$?
        if cmp -s 1.out "$seed.out"; then
            echo "equal $status $seed" >>"$seen"
        else
            echo "other $status $seed" >>"$seen"
        fi
    done
}

for way in "${ways[@]}"; do
    # a program that is right: all that was torn is hashed again behind the join, by what writes there, leaves for the
    # host, or only reads it
    for case in "disjoint sync" "disjoint event" readonly; do
        # shellcheck disable=SC2086 # none, or several words
        all seen $way -- "$TOOL" $case
        [ "$(grep -c '^equal 0 ' seen)" -eq 8 ] || fail "$case ($way): $(cat seen d.*)"
        met=$(cat d.* | grep -c 'note .* taken while another stream or node of its graph may have written there; ' || true)
        [ "$met" -gt 0 ] || fail "$case ($way): no seed tore a fingerprint"
    done
    # the same, but nothing is hashed behind them: what differs may be nothing
    # shellcheck disable=SC2086
    all seen $way -- "$TOOL" unread
    lacks seen "equal 1"
    seed=$(awk '$2 == 3 {print $3; exit}' seen)
    [ -n "$seed" ] || fail "unread ($way): no seed tore a fingerprint"
    matches "d.$seed" '^UNKNOWN  step 0, forward:, part#[01], arg\+0 differs, and nothing after it: it may hold what another'
    contains "d.$seed" "only possible: the two may write parts that do not meet, which twinbit cannot see"
    contains "d.$seed" "softgpu run --strict report -- $TOOL unread"
    # they write the same bytes
    # shellcheck disable=SC2086
    all seen $way -- "$TOOL" overlap
    lacks seen "equal 1"
    grep -q '^other' seen || fail "overlap ($way): all seeds give the same result"
    while read -r what status seed; do
        [ "$what" = other ] || continue
        [ "$status" = 1 ] || fail "overlap ($way): $(cat "d.$seed")"
        matches "d.$seed" 'cause       race between streams [12] and [12]: part#[0-9] and part#[0-9] are not ordered'
        lacks "d.$seed" "cannot see"
    done <seen
done
