# --stress: what depends on an order shows it more often; the job itself is not changed. On the software device the order
# follows from the seed, so that both rates are known.
run() { "$TWINBIT" run --quiet --force -o s.twinbit "$@"; }

expect 2 run --stress -- touch ran
contains err "'--stress' needs '-n N'"
expect 2 run --stress --poison 1,2 -- touch ran
[ ! -e ran ] || fail "something was run"

# policies, masks and priorities are what they were when the job looks at the end; its status is its own
expect 3 run -n 2 --stress -- sh -c 'sleep 0.3; grep -E "^(Cpus_allowed|SigIgn|SigBlk|SigCgt):" /proc/self/status'
[ "$(grep -E '^(Cpus|Sig)' out | sort -u | wc -l)" -eq 4 ] || fail "what the job sees differs: $(cat out)"
expect 3 run -n 2 --stress -- sh -c 'exit 7'
contains out "unknown: of 4 runs none is known to differ"

tool=$TB_BUILD_DIR/tests/recorder/cuda/cuda_streams
if [ -x "$tool" ]; then
    expect 1 run -n 8 --stress --device softgpu -- "$tool" none
    matches out '^differ from run 1: 0 of 7 runs as they are, [1-8] of 8 under stress$'
    expect 0 run -n 3 --stress --device softgpu -- "$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls" many
    contains out "differ from run 1: 0 of 2 runs as they are, 0 of 3 under stress"
fi
