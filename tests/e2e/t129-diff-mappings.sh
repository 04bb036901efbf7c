# memory that is mapped in pieces (cuMemMap): a kernel's buffer over several mappings of one reserved range is hashed in
# all of them; pieces that come, go and come again; one piece at two addresses, or moved to another one, is one memory
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_mappings
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps="shim"
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps="shim cupti"; fi

record() { # record TRACE SEED TAP [OPTION]... -- CASE VALUE - standard output in ./out
    local trace=$1 seed=$2 tap=$3 options=()
    shift 3
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    SOFTGPU_SEED=$seed expect 0 "$TWINBIT" run --device softgpu --quiet --force --tap "$tap" "${options[@]}" -o "$trace" \
        -- "$TOOL" "${@:2}"
}

culprit() { # culprit TAP CASE EVENT TENSOR [OPTION]... - the launch that got another value is the only root
    record plain 1 "$1" "${@:5}" -- "$2" 0
    record again 2 "$1" "${@:5}" -- "$2" 0
    expect 0 "$TWINBIT" diff plain again
    matches out '^IDENTICAL'
    record other 2 "$1" "${@:5}" -- "$2" 3
    expect 1 "$TWINBIT" diff plain other
    matches out "^DIVERGED  1 root, first: step 0, forward:, $3, $4\$"
    contains out "cause       host value"
    lacks out "shared:0"
    lacks out "with equal results"
}

reads() { # reads EVENT TENSOR COUNT - so many extents of mode r
    expect 0 "$TWINBIT" show plain tensors
    [ "$(grep -c "^r .*/$1 $2\$" out)" = "$3" ] || fail "$1 has not $3 extents of $2: $(cat out)"
}

for tap in $taps; do
    culprit $tap over 'add#1' 'arg\+0'
    reads 'take#0' 'arg+0' 4
    lacks out "shared:0"
    culprit $tap named 'add#1' w
    culprit $tap growing 'add#4' 'arg\+0'
    reads 'add#2' 'arg+0' 2
    reads 'add#3' 'arg+0' 3
    culprit $tap shrinking 'add#3' 'arg\+0'
    reads 'add#1' 'arg+0' 1
    reads 'add#2' 'arg+0' 1
    culprit $tap alias 'add#1' 'arg\+0'
    reads 'take#0' 'arg+0' 1 # what is reserved next to it is another range
    record met 1 $tap -- meet 0
    expect 0 "$TWINBIT" show met coverage
    contains out "memory was used by streams at once"
    culprit $tap moved 'add#1' 'arg\+0'
    culprit $tap apart 'add#5' 'arg\+0'
done
culprit shim over 'add#1' 'arg\+0' --inputs
culprit shim alias 'add#1' 'arg\+0' --inputs
culprit shim branches 'add#5' 'arg\+0'
expect 0 "$TWINBIT" show plain coverage
lacks out "torn"

# within the budget of a launch its extents are sampled as those of one allocation are
record plain 1 shim --launch-bytes 1M -- over 0
record again 2 shim --launch-bytes 1M -- over 0
expect 0 "$TWINBIT" diff plain again
