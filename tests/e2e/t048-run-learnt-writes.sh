# what kernels write is learnt where no code tells (--learn: as if none did)
# timeout: 120
JOB=$TB_BUILD_DIR/tests/recorder/cuda/cuda_learn_job
[ -x "$JOB" ] || skip "built without softgpu, or with a sanitizer"

run() { # run TRACE OPTIONS... -- MODE
    local trace=$1
    shift
    expect 0 "$TWINBIT" run --device softgpu --force --level kernel -o "$trace" "$@"
    expect 0 "$TWINBIT" show "$trace" coverage
    mv out "$trace.rows"
}

# count TRACE KERNEL MODE ARGUMENT KIND - accesses of that kind in its launches; ARGUMENT is a pattern
count() {
    "$TWINBIT" show "$1" events --json | grep "\"operator\": \"$2\"" |
        grep -oE "\{\"mode\": \"$3\", \"argument\": \"$4\"[^}]*\"fp_kind\": \"$5\"" | wc -l
}
believed() { # of what is believed nothing was hashed
    "$TWINBIT" show "$1" events --json | grep "\"operator\": \"$2\"" |
        grep -oE "\"argument\": \"$3\"[^}]*\"fp_kind\": \"unchanged\", \"fp\": \"0{32}\"" | wc -l
}

# a source that changes is believed to be left alone after a few launches, its copy is always hashed
run a.twinbit --learn -- "$JOB" copies
contains a.twinbit.rows "learnt: copy: written: arg+0; kept: arg+8"
[ "$(count a.twinbit copy w arg.0 bytes)" -ge 298 ] || fail "the copy is not always hashed"
[ "$(count a.twinbit copy w arg.8 unchanged)" -eq 300 ] || fail "the source is not always known"
n=$(believed a.twinbit copy arg.8)
[ "$n" -ge 150 ] && [ "$n" -le 280 ] || fail "$n of 300 were believed"
contains a.twinbit.rows "were not looked for where earlier launches left the bytes alone"
lacks a.twinbit.rows "not learnt"
"$TWINBIT" show a.twinbit events --json >events
contains events "writes=learnt"

# when the device gets round to a hash leaves no trace; the seed chooses what is looked at again
run b.twinbit --learn --seed 7 -- "$JOB" copies
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
contains out "learnt, unproven"
# what cannot be hashed before a launch cannot be learnt
run c.twinbit --learn --tap cupti --enqueue deferred -- "$JOB" copies
[ "$(count c.twinbit copy w arg.8 bytes)" -eq 300 ] || fail "learnt without hashes before launches"
run d.twinbit --learn --tap cupti -- "$JOB" copies
expect 0 "$TWINBIT" diff a.twinbit d.twinbit
# and is not where the code tells
run e.twinbit -- "$JOB" copies
lacks e.twinbit.rows "learnt"
"$TWINBIT" show e.twinbit events --json >events
lacks events "writes="

# what is learnt in one run and known in the other has other launches: they are left out, that is no divergence
expect 3 "$TWINBIT" diff e.twinbit b.twinbit
contains out "UNKNOWN  what kernel copy writes was not found out from its code in run B, as it was in the other"
lacks out "cause  "
expect 3 "$TWINBIT" diff b.twinbit e.twinbit
contains out "launches are not compared; record run A again"

# zeros over zeros are no proof that nothing is written
run a.twinbit --learn -- "$JOB" zeros
[ "$(believed a.twinbit zero arg.0)" -eq 0 ] || fail "believed after one content only"
[ "$(count a.twinbit zero w arg.0 bytes)" -ge 1 ] || fail "the write over other bytes was missed"
contains a.twinbit.rows "learnt: zero: written: arg+0; kept:"

# what was believed wrongly is found, said, learnt anew; and nothing is called equal
run a.twinbit --learn -- "$JOB" late
contains a.twinbit.rows "a write that was not learnt: arg+8"
contains a.twinbit.rows "learnt: some: written: arg+0 arg+8; kept:"
n=$(count a.twinbit some w arg.8 bytes)
[ "$n" -ge 40 ] && [ "$n" -le 200 ] || fail "$n late writes have a fingerprint"
run b.twinbit --learn -- "$JOB" late
expect 3 "$TWINBIT" diff a.twinbit b.twinbit
contains out "was believed to leave alone"
# with --inputs the first missed write shows at the next launch that reads the bytes
run c.twinbit --learn --inputs -- "$JOB" late
contains c.twinbit.rows "unseen writer"

# the check against the code finds what the code does not say
run a.twinbit --learn -- "$JOB" stray
contains a.twinbit.rows "its code does not write what changed: arg+8"
