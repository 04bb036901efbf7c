# a graph that is hashed as a whole, and copies in it that bring bytes from the host, which nobody hashes: if those differ,
# diff says that they may be the cause, and does not speak of a flipped bit; node by node it is input data
# 4 and 5 differ in one bit
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_shared
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps="shim"
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps="shim cupti"; fi

record() { # record TRACE OPTIONS... -- CASE... - standard output in ./out
    local trace=$1
    shift
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

compare() { # compare CASE OPTIONS... - the report of two runs with other input in ./out
    local case=$1
    shift
    record a.twinbit "$@" -- "$TOOL" "$case" 4
    record same.twinbit "$@" -- "$TOOL" "$case" 4
    expect 0 "$TWINBIT" diff a.twinbit same.twinbit
    record b.twinbit "$@" -- "$TOOL" "$case" 5
    expect 1 "$TWINBIT" diff a.twinbit b.twinbit
    lacks out "flipped"
}

for tap in $taps; do
    for inputs in "" --inputs; do
        for snapshot in "" "--snapshot 0/forward:/graph#0"; do
            # shellcheck disable=SC2086 # none, or several words
            compare fedmemory --tap $tap $inputs $snapshot
            contains out "cause       unexplained"
            contains out "copies inside of it brought bytes from the host, which were not hashed: other input data would look like this"
            contains out "cuda: graph: what its copies bring from the host is not hashed before it"
        done
    done
done
for inputs in "" --inputs; do
    # shellcheck disable=SC2086 # none or one
    compare fed $inputs
    contains out "cause       input data"
    lacks out "is not hashed before it"
    case $taps in *cupti)
        # shellcheck disable=SC2086
        compare fed --tap cupti $inputs
        contains out "copies inside of it brought bytes from the host, which were not hashed"
    esac
done

# the same bytes, but another grid in the graph: that is why, not what nobody hashed
for tap in $taps; do
    record a.twinbit --tap "$tap" -- "$TOOL" fed 4
    record b.twinbit --tap "$tap" -- "$TOOL" fed 4 5
    expect 1 "$TWINBIT" diff a.twinbit b.twinbit
    contains out "cause       algorithm choice"
done
case $taps in *cupti)
    contains out "its nodes differ: kernels, their code or grids: image "
esac

# what such a graph's copies bring to the host has no fingerprint, and a row says so
case $taps in *cupti)
    record a.twinbit --tap cupti -- "$TOOL" both graph
    "$TWINBIT" show a.twinbit coverage >rows
    matches rows "what its copies bring to the host is not hashed"
esac
