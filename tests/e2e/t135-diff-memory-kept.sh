# Memory that a driver refuses to take back stays known; so is a managed variable that kernels get as an argument only, and what a
# stream sets in pinned memory: a value that differs is named where it was written, with both taps.
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_refused
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps="shim"
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps="shim cupti"; fi

record() { # record TRACE TAP MODE VALUE - standard output in ./out
    expect 0 "$TWINBIT" run --device softgpu --quiet --force --tap "$2" -o "$1" -- "$TOOL" "$3" "$4"
    contains out "$4"
}

check() { # check MODE EVENT
    for tap in $taps; do
        record one $tap $1 3
        record other $tap $1 4
        expect 1 "$TWINBIT" diff one other
        matches out "^  event  *0/.*/forward:/$2\$"
        record again $tap $1 3
        expect 0 "$TWINBIT" diff one again
        contains out IDENTICAL
    done
}

for mode in device:free-host device:unregister device:unmap device:ipc device:context device:capture pinned:unregister pinned:unmap \
    pinned:free pinned:free-async managed:free-host managed:unregister managed:unmap managed:free-async async:free-host \
    async:unregister async:unmap x-mapped:unregister x-mapped:unmap x-mapped:free variable:pass; do
    check $mode "put#3"
done
check pinned:set "cuMemsetD32Async#3"
check pinned:set-2d "cuMemsetD2D32#3"
check pinned:value "cuStreamWriteValue32#3"

# a kernel's output in memory of the host that nothing explains: the host may have been quicker than the hash, and that is said
record one shim pinned:pass 3
expect 0 "$TWINBIT" run --device softgpu --quiet --force --fault 'op=xor.b32 kernel=put bit=20 launch=2 lanes=3' -o flipped -- "$TOOL" pinned:pass 3
expect 1 "$TWINBIT" diff one flipped
contains out "is memory of the host, which may have written there before it was hashed behind the kernel"
