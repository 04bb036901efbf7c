# a process without a descriptor to reach twinbit with is said not to be recorded, and the job goes on
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_streams
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"

for n in 3 4 5; do
    expect 0 "$TB_BUILD_DIR/bin/softgpu" run -- "$TOOL" same
    mv out alone
    expect 0 "$TWINBIT" run --device softgpu --force -o $n.twinbit -- "$TOOL" same $n
    diff alone out || fail "with $n descriptors the job is another"
    "$TWINBIT" show $n.twinbit coverage >rows
    [ -s rows ] || fail "with $n descriptors nothing is said"
done
expect 0 "$TWINBIT" run --device softgpu --force -o few.twinbit -- "$TOOL" same 3
contains err "1 process not covered"
"$TWINBIT" show few.twinbit coverage >rows
matches rows "not covered +1x process: .*cuda_streams.*: it could not connect to twinbit: no descriptor is left"

# beside one that is recorded, in both runs alike: not identical
for t in a b; do
    expect 0 "$TWINBIT" run --device softgpu --force -o $t.twinbit -- sh -c "$TOOL same; $TOOL same 3"
done
expect 3 "$TWINBIT" diff a.twinbit b.twinbit
contains out "UNKNOWN  a process was not recorded in either run"

# without one for the code of its kernels their writes are guessed: other launches, but no divergence. How many it takes
# depends on what is open already
row='cuda: module: what its kernels write was not found out from its code: there was no answer'
found=
expect 0 "$TWINBIT" run --device softgpu --force -o all.twinbit -- "$TOOL" same
for n in 5 6 7 8 9; do
    expect 0 "$TWINBIT" run --device softgpu --force -o few.twinbit -- "$TOOL" same $n
    "$TWINBIT" show few.twinbit coverage >rows
    "$TWINBIT" show few.twinbit sites >sites
    if ! grep -q 'writes=' sites; then continue; fi
    found=$n
    contains rows "$row"
    for pair in "all few B" "few all A"; do
        set -- $pair
        expect 3 "$TWINBIT" diff "$1.twinbit" "$2.twinbit"
        matches out "^UNKNOWN  what kernel [a-z]+ writes was not found out from its code in run $3"
        contains out "$row"
    done
done
[ -n "$found" ] || fail "each run knows the code of its kernels"
