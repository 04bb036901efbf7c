# what a kernel may write is hashed whole, whatever else was done with a part of it: a number copied out, a few bytes
# set, names given to parts; and what filters leave out is told
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

record parts.twinbit -- "$TOOL" parts
"$TWINBIT" show parts.twinbit tensors | grep '^w ' >writes
for access in '\[1024\].*fill#0 first' '\[1024\].*fill#0 second' '\[8192\].*fill#0 beside' 'i32 *\[64\].*fill#1 too long' \
    'D8Async#0 first' 'D8Async#0 second'; do
    grep -qE "^w [0-9a-f]{32} .*$access" writes || fail "no fingerprint of $access: $(cat writes)"
done
"$TWINBIT" show parts.twinbit coverage >rows
contains rows "name: too long: a name for more bytes than its allocation has"

record marks.twinbit --steps 1..2 -- "$TOOL" marks
"$TWINBIT" show marks.twinbit coverage >rows
contains rows "window: steps: work of a GPU outside of --steps is left out"
record share.twinbit --sample 0.3 -- "$TOOL" many
expect 0 "$TWINBIT" diff share.twinbit share.twinbit
contains out "not covered sample: fill"
