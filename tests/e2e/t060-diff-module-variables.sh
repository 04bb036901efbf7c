# what kernels read of variables of their module (__device__, __constant__) is recorded as other memory is: diff links
# who reads one that differs to who wrote it, and names races; where it cannot be known a row says so
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_variables
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps=shim
ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1 && taps="shim cupti"

record() { # record SEED TRACE OPTIONS... -- CASE [NUMBER] - what was read and written of variables in ./rows
    local seed=$1 trace=$2
    shift 2
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
    mv out said
    "$TWINBIT" show "$trace" tensors | grep -v '^q' >rows
    "$TWINBIT" show "$trace" coverage >covered
}

another() { # another TRACE OPTIONS... -- CASE - with the first seed after 1 that has another output than ./first
    local seed
    for seed in 2 3 4 5 6 7 8 9 10 11 12; do
        record $seed "$@"
        cmp -s first said || return 0
    done
    fail "all seeds give the same result: $*"
}

print() { # print ACCESS EVENT NAME - fingerprints of such accesses, in order
    grep -E "^$1 .*/$2#[0-9]+ $3\$" rows | awk '{ print $2 }'
}

# without --inputs they are listed, with it they have fingerprints: the writer's
for tap in $taps; do
    record 1 a.twinbit --tap "$tap" -- "$TOOL" again
    [ "$(print r use state | sort -u)" = - ] || fail "$tap: what is read: $(print r use state)"
    [ "$(print r use state | wc -l)" -eq 8 ] && [ "$(print r use factor | wc -l)" -eq 8 ] || fail "$tap: reads are missing"
    record 1 a.twinbit --tap "$tap" --inputs -- "$TOOL" again
    print r use state >reads
    print w put state >writes
    cmp reads writes && [ "$(sort -u writes | wc -l)" -eq 8 ] || fail "$tap: other fingerprints than the writer's"
    [ -z "$(print r put state)" ] || fail "$tap: what is only written is read"
done

# one has its name from when the program asks where it is, whether a kernel that uses it is known by then or not; so traces
# of other taps, which ask for what kernels use at other times, are equal
for tap in $taps; do
    for options in "" "--enqueue deferred"; do
        [ "$tap" = cupti ] || options=
        # shellcheck disable=SC2086 # none, or two words
        record 1 "$tap${options#* }.twinbit" --tap "$tap" $options -- "$TOOL" renewed
        [ "$(print w cuMemcpyHtoD factor | wc -l)" -eq 2 ] || fail "$tap$options: copies are named: $(cat rows)"
    done
done
if [ "$taps" != shim ]; then
    expect 0 "$TWINBIT" diff shim.twinbit cupti.twinbit
    expect 0 "$TWINBIT" diff shim.twinbit cuptideferred.twinbit
fi

# a node of a graph
record 1 a.twinbit --inputs -- "$TOOL" graph
lacks covered "not covered"
[ "$(print r use state | sed -n 2p)" = "$(print w last state | sed -n 1p)" ] || fail "graph: another fingerprint"
[ "$(print r use factor | grep -vcx -- -)" -eq 2 ] || fail "graph: constant memory"

# who reads what differs follows from who wrote it: a copy from the host, another kernel
for options in "" --inputs; do
    for tap in $taps; do
        # shellcheck disable=SC2086 # none, or a word
        {
            record 1 a.twinbit --tap "$tap" $options -- "$TOOL" constant 1
            record 1 b.twinbit --tap "$tap" $options -- "$TOOL" constant 2
            expect 1 "$TWINBIT" diff a.twinbit b.twinbit
            contains out "DIVERGED  1 root, first: step 0, forward:, cuMemcpyHtoD#0"
            record 1 a.twinbit --tap "$tap" $options -- "$TOOL" kernel
            mv said first
            another b.twinbit --tap "$tap" $options -- "$TOOL" kernel
            expect 1 "$TWINBIT" diff a.twinbit b.twinbit
            contains out "DIVERGED  1 root, first: step 0, forward:, last#0, state"
            record 1 a.twinbit --tap "$tap" $options -- "$TOOL" race
            mv said first
            another b.twinbit --tap "$tap" $options -- "$TOOL" race
            expect 1 "$TWINBIT" diff a.twinbit b.twinbit
            contains out "race between streams 1 and 2: put#1 and use#0 are not ordered"
            contains out "of 'state', which use#0 (stream 2) reads"
        }
    done
done

# one whose address is only in memory: known from the kernel that put it there
record 1 a.twinbit --inputs -- "$TOOL" memory
[ "$(print r follow hidden | grep -vcx -- -)" -eq 1 ] || fail "memory: the variable is not read"

# the host may write managed ones: that is no unseen writer
record 1 a.twinbit --inputs -- "$TOOL" managed
lacks covered "not covered"
lacks covered "unseen"
[ "$(print r from_both both | sort -u | wc -l)" -eq 2 ] || fail "managed: what is read"

# each device has its own: none is looked for, or hashed, on another one
for tap in $taps; do
    SOFTGPU_DEVICES=2 record 1 a.twinbit --tap "$tap" --inputs -- "$TOOL" devices
    lacks covered "not covered"
    print r use state >reads
    print w put state >writes
    cmp reads writes && [ "$(sort -u writes | wc -l)" -eq 6 ] || fail "$tap: variables of two devices"
done

# code that is not followed: one row with the number of kernels, if their module has variables at all
for tap in $taps; do
    record 1 a.twinbit --tap "$tap" -- "$TOOL" open
    [ "$(grep -c "module variables" covered)" -eq 1 ] || fail "open: rows: $(cat covered)"
    matches covered "not covered +2x cuda: module variables: kernels whose code is not known, or not followed"
    record 1 a.twinbit --tap "$tap" -- "$TOOL" closed
    lacks covered "module variables"
done
if [ "$taps" != shim ]; then # those that are launched, where all are looked at together
    record 1 a.twinbit --tap cupti --enqueue deferred -- "$TOOL" open
    matches covered "not covered +2x cuda: module variables: "
    record 1 a.twinbit --tap cupti --enqueue deferred -- "$TOOL" loaded
    lacks covered "module variables"
fi

findings() { # findings FILE - but those of calls inside of callbacks, and of what is there when the program ends
    sed -e '/call-in-tool-callback/d' -e '/findings of/d' -e '/leak/d' "$1"
}

# hashes of variables are no findings of the device's own checks
for case in again graph memory managed constant; do
    expect 0 env SOFTGPU_STRICT=report "${TWINBIT%/*}/softgpu" run -- "$TOOL" $case
    contains err "softgpu: strict: "
    findings err >alone
    for tap in $taps; do
        expect 0 env SOFTGPU_STRICT=report "$TWINBIT" run --device softgpu --quiet --force --tap "$tap" --inputs \
            -o a.twinbit -- "$TOOL" $case
        findings err >recorded
        diff alone recorded || fail "$case: other findings with --tap $tap"
    done
done
