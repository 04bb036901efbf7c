# what a kernel may write is hashed whole, whatever else was done with a part of it: a number copied out, a few bytes
# set, names given to parts; what two streams shared, once one has it alone; and what filters leave out is told
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"

record() { # record TRACE OPTIONS... -- CASE
    local trace=$1
    shift
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

for options in "" --inputs "--tap cupti"; do
    # shellcheck disable=SC2086 # none, or several words
    record peek.twinbit $options -- "$TOOL" peek
    "$TWINBIT" show peek.twinbit tensors | grep '^w .*fill#' >writes
    [ "$(grep -cE '\[4096\]' writes)" -eq 4 ] || fail "not all of it was hashed ($options): $(cat writes)"
done

# two streams had parts of it, and then it is one's: whole again after 16 launches, the next time after 32, but not while
# only a query tells that the other one is done; the same ones in every run
extents() { # extents TRACE - how many launches in a row wrote how many words from where on
    "$TWINBIT" show "$1" tensors | grep '^w ' | awk '{ sub(/.*\+/, "", $5); print $4, $5 }' | uniq -c | awk '{ $1 = $1 } 1'
}
parts='1 [512] 2048\n1 [512] 0\n1 [512] 2048\n1 [512] 0\n1 [512] 2048\n'
# shellcheck disable=SC2059 # newlines
printf "1 [1024] 0\n${parts}17 [512] 0\n24 [1024] 0\n${parts}33 [512] 0\n28 [1024] 0\n${parts}161 [512] 0\n79 [1024] 0\n" >want
for options in "" --inputs "--tap cupti" "--tap cupti --enqueue deferred"; do
    for seed in 1 2; do
        # shellcheck disable=SC2086
        SOFTGPU_SEED=$seed record split.twinbit $options -- "$TOOL" split
        extents split.twinbit | diff want - || fail "other extents with seed $seed and options '$options'"
    done
    "$TWINBIT" show split.twinbit coverage >rows
    contains rows "3x cuda: fill: memory was used by streams at once"
done
# what another thread than the main one waits for is a matter of time
record split.twinbit -- "$TOOL" split_thread
extents split.twinbit | awk '{ print $2 }' | uniq | tr '\n' ' ' >all
[ "$(cat all)" = "[1024] [512] " ] || fail "extents of another thread: $(cat all)"

record parts.twinbit -- "$TOOL" parts
"$TWINBIT" show parts.twinbit tensors | grep '^w ' >writes
for access in '\[1024\].*fill#0 first' '\[1024\].*fill#0 second' '\[8192\].*fill#0 beside' 'i32 *\[64\].*fill#1 too long' \
    'D8Async#0 first' 'D8Async#0 second'; do
    grep -qE "^w [0-9a-f]{32} .*$access" writes || fail "no fingerprint of $access: $(cat writes)"
done
"$TWINBIT" show parts.twinbit coverage >rows
contains rows "name: too long: a name for more bytes than its allocation has"

# the same work on device memory and on what the host may write, too: each is called what it is, at each launch
for options in --inputs "--inputs --tap cupti"; do
    # shellcheck disable=SC2086
    record kinds.twinbit $options -- "$TOOL" kinds
    "$TWINBIT" show kinds.twinbit events | grep -oE '/fill#[0-9]+ .*(cuda|shared):0' | sed 's/ .* / /' >seen
    for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        if [ $((i / 4)) = 1 ] || [ $((i / 4)) = 2 ]; then echo "/fill#$i shared:0"; else echo "/fill#$i cuda:0"; fi
    done | diff - seen || fail "memory of another kind ($options)"
    "$TWINBIT" show kinds.twinbit coverage >rows
    lacks rows "unseen writer"
done

record marks.twinbit --steps 1..2 -- "$TOOL" marks
"$TWINBIT" show marks.twinbit coverage >rows
contains rows "window: steps: work of a GPU outside of --steps is left out"
record share.twinbit --sample 0.3 -- "$TOOL" many
expect 0 "$TWINBIT" diff share.twinbit share.twinbit
contains out "not covered sample: fill"
