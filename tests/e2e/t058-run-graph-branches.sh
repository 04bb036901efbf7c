# nodes of a graph that nothing orders, on parts of one allocation: such runs are right and equal. Their fingerprints are
# cut apart or wait for both; where neither can be, a row says so, and diff judges no difference of theirs a divergence
# timeout: 300
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
torn="memory was used by nodes of a graph at once: fingerprints of it may be torn"

record() { # record SEED TRACE CASE OPTIONS...
    local seed=$1 trace=$2 case=$3
    shift 3
    expect 0 env SOFTGPU_SEED=$seed "$TWINBIT" run --device softgpu --quiet --force -o $trace.twinbit "$@" -- "$TOOL" $case
    contains out "ok $case"
    "$TWINBIT" show $trace.twinbit tensors | grep '^w' >writes
    lacks writes "no fingerprint"
    "$TWINBIT" show $trace.twinbit coverage | grep -v '^note ' >rows || true
}

compare() { # compare CASE OPTIONS... - with how many seeds diff does not know, in $unknown; it never says that they differ
    local case=$1 seed status
    shift
    unknown=0
    : >noted
    record 1 1 $case "$@"
    for seed in 2 3 4 5 6 7 8; do
        record $seed $seed $case "$@"
        status=0
        "$TWINBIT" diff 1.twinbit $seed.twinbit >out || status=$?
        [ $status -ne 1 ] && [ $status -ne 2 ] || fail "$case, seed $seed, options '$*': $(cat out)"
        [ $status -eq 0 ] || cp out what
        grep "taken while another" out >>noted || true
        unknown=$((unknown + (status == 3)))
    done
}

# other pointers, the same pointer, one of them in a child graph, nodes that are changed to be there, updates
for case in halves base child change update; do
    for options in "" --inputs; do
        # shellcheck disable=SC2086 # none or one
        compare branch_$case $options
        [ $unknown -eq 0 ] || fail "$case: unknown in $unknown runs: $(cat what)"
        [ ! -s rows ] || fail "$case is not covered: $(cat rows)"
    done
done

# what is cut: the extents of those that meet, and no others
record 1 1 branch_halves
sed -n 's/^w [0-9a-f]* u32 *\(\[[0-9]*\]\) *\([^ ]*\) .*fill#[0-3] .*/\1 \2/p' writes >extents
same extents <<'TEXT'
[512] 1+0
[256] 1+0
[256] 1+1024
[512] 1+0
TEXT

# a fingerprint behind several nodes does not tell which of them wrote other bytes: the report says so
record 1 1 branch_base
PITFALL_VALUE=5 record 1 2 branch_base
expect 1 "$TWINBIT" diff --verify 1.twinbit 2.twinbit
contains out "first: step 0, forward:, by_distance#0"
contains out "taken behind other nodes of its graph that write there, too, with nothing that orders them: any of them"

# one branch goes on writing: no place is behind both and before that. Reads have no other place
# either; what leaves for the host later is equal, and settles it
compare branch_stuck
[ $unknown -eq 0 ] || fail "stuck: unknown in $unknown runs: $(cat what)"
contains rows "4x cuda: by_distance: $torn"
contains noted "fingerprint differs, taken while another stream or node of its graph may have written there"
compare branch_read
[ $unknown -eq 0 ] || fail "read: unknown in $unknown runs: $(cat what)"
lines noted 0
compare branch_read --inputs
[ $unknown -eq 0 ] || fail "read: unknown in $unknown runs: $(cat what)"
contains noted "gather#"
contains rows "4x cuda: gather: $torn"
lacks rows "unseen writer"

# many branches, and a long one: each node has its fingerprint
for nodes in 4000 -4000; do
    SECONDS=0
    PITFALL_NODES=$nodes record 1 1 branch_many
    [ $SECONDS -lt 60 ] || fail "$nodes nodes: $SECONDS s"
    lines writes 8001
    [ ! -s rows ] || fail "$nodes nodes are not covered: $(cat rows)"
done
