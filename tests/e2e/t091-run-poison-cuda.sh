# --poison on a GPU: a read of device memory that nobody wrote is named with kernel and element, for each way to allocate
# it and with each tap; memory that is merely left unwritten is none. The software device, which knows what was written,
# must say the same.
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_poison
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
unset SOFTGPU_SEED SOFTGPU_STRICT

poison() { # poison STATUS KIND CASE OPTIONS...
    local status=$1 kind=$2 case=$3
    shift 3
    expect "$status" "$TWINBIT" run --device softgpu --quiet --force -o p.twinbit --poison 0xa5,0x5a "$@" -- "$TOOL" \
        "$kind" "$case"
}

strict() { # strict KIND CASE - what the device itself finds, in ./err
    expect 0 "${TWINBIT%/*}/softgpu" run --strict report -- "$TOOL" "$1" "$2"
}

# what is read is said, and by whom; elements of no kernel that nobody wrote
poison 1 alloc read
contains out "cause       uninitialised memory"
contains out "0/cuda_poison/main/0/forward:/twice#0"
contains out "0xa5 in A and with 0x5a in B: twice, or what it reads, depends on bytes that nobody wrote"
contains out "run --poison 0xa5,0x5a --device softgpu --inputs --steps 0..0 --snapshot '0/forward:/twice#0'"
poison 1 alloc read --inputs --steps 0..0 --snapshot '0/forward:/twice#0'
contains out "tensor      arg+8 (written): u32 [512] on cuda:0"
contains out "elements    64 of 512 differ; first: 256 = [256]"
contains out "0x4b4b4b4b" # 2 * 0xa5a5a5a5 + 1
strict alloc read
contains err "uninitialised-read: use of 4 bytes of memory"
contains err "in kernel 'twice'"

# memory that nobody reads, or that is copied along and not looked at
for case in parts carried graph rows; do
    poison 0 alloc $case
    contains out "no read of memory that nobody wrote was seen"
    poison 0 alloc $case --inputs
    strict alloc $case
    lacks err "uninitialised-read"
done
poison 1 alloc graph_read
contains out "0/cuda_poison/main/0/forward:/twice#0"

# bytes of which two count as one behind a kernel, and not in a copy to the host, have no unseen writer
for tap in shim cupti; do
    poison 0 alloc bytes --inputs --tap $tap
    expect 0 "$TWINBIT" show p-3.twinbit coverage
    lacks out "unseen writer"
    contains out "2x origin: reads of a device: of bytes that --poison hashed in another way before"
done

# what leaves for the host is read, and so is what a kernel has moved
poison 1 alloc leaves
contains out "cause       uninitialised memory"
contains out "0/cuda_poison/main/0/forward:/cuMemcpyDtoH#0"
contains out "the last that may have written 'src' is 0/forward:/twice#0: it has left such bytes there, or has brought them"
poison 1 alloc leaves --inputs --steps 0..0 --snapshot '0/forward:/cuMemcpyDtoH#0'
contains out "0xa5"
strict alloc leaves
contains err "a copy to the host reads byte 1024 of 2048"
poison 1 alloc moved
contains out "the last that may have written 'src' is 0/forward:/move#0"
strict alloc moved
contains err "a copy to the host reads byte 1024 of 2048"
# from memory of the host, which the same option fills
poison 1 alloc host
contains out "0/cuda_poison/main/0/forward:/cuMemcpyHtoD#0"
contains out "cause       uninitialised memory"

# at this level what leaves is not looked at
poison 3 alloc leaves --level boundary
contains out "not covered: a copy to the host: it is not hashed"
# of two equal runs nothing could be compared: the report is that of the third
poison 1 alloc large_only
contains out "run 1 and run 2: nothing was recorded that can be compared"
contains out "cause       uninitialised memory"

taps=("--tap shim")
if [ -n "$(find "$TB_BUILD_DIR/softgpu/lib" -name 'libcupti.so*' 2>/dev/null)" ]; then
    taps+=("--tap cupti" "--tap cupti --enqueue deferred")
fi
for tap in "${taps[@]}"; do
    for kind in alloc pitch managed async pool mapped; do
        # shellcheck disable=SC2086 # several words
        {
            poison 1 $kind leaves $tap
            [ "$(grep -c '^leaves .*, last byte a5$' out)" -eq 2 ] || fail "$kind, $tap: not filled: $(grep ^leaves out)"
            [ "$(grep -c '^leaves .*, last byte 5a$' out)" -eq 1 ] || fail "$kind, $tap: not filled: $(grep ^leaves out)"
            contains out "forward:/cuMemcpyDtoH#0"
            poison 1 $kind read $tap
            contains out "forward:/twice#0"
            poison 0 $kind parts $tap
        }
    done
    # shellcheck disable=SC2086
    poison 1 host read $tap
    contains out "forward:/twice#0"
    # what leaves and is not hashed is no "no"
    # shellcheck disable=SC2086
    case $tap in
    *deferred) poison 3 alloc large $tap ;;
    *) poison 1 alloc large $tap ;;
    esac
    # shellcheck disable=SC2086
    case $tap in
    *cupti*) poison 3 alloc large_graph $tap ;;
    *) poison 1 alloc large_graph $tap ;;
    esac
    [ "$tap" = "--tap shim" ] || contains out "not covered: a copy to the host: it is not hashed"
    # memory that is mapped once more is not fresh
    # shellcheck disable=SC2086
    poison 0 mapped again $tap
    expect 0 "${TWINBIT%/*}/softgpu" run -- "$TOOL" mapped again
    mv out alone
    # shellcheck disable=SC2086
    poison 0 mapped again $tap
    [ "$(grep -cFx -- "$(cat alone)" out)" -eq 3 ] || fail "$tap: what was mapped before is lost: $(cat out)"
done

# without --poison nothing is filled
expect 0 "$TWINBIT" run --device softgpu --quiet --force -o q.twinbit -- "$TOOL" alloc leaves
lacks out "last byte a5"

# memory of graphs: not filled, and said
expect 3 "$TWINBIT" run --device softgpu --quiet --force -o p.twinbit --poison 1,2 -- \
    "$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls" graph_memory
contains out "not covered: memory that a graph allocates: it is not filled"
# several devices, contexts that end, memory that is given back and taken again: the job is as it is
for case in devices reset pool blocks segments split capture threads; do
    expect 0 env SOFTGPU_DEVICES=2 "$TWINBIT" run --device softgpu --quiet --force -o p.twinbit --poison 1,2 -- \
        "$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls" $case
    [ "$(grep -cFx "ok $case" out)" -eq 3 ] || fail "$case: $(cat out)"
done
