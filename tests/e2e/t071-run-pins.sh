# Pins: put in, read back, the job's own win and are told of, teams' files, bad words; without torch.
tb_run() { "$TWINBIT" run --force -o t.twinbit "$@"; }
pin() { "$TWINBIT" show t.twinbit pins | grep -E "^[a-z]+ +$1 " >pin || fail "no row of '$1'"; }

# nothing is asked for: nothing is set, no line about it
expect 0 tb_run -- sh -c 'env | grep -E "^(PYTHONHASHSEED|PYTHONPATH|TZ|NCCL_ALGO)=" || true'
lines out 0
lacks err "pins ("

# the environment and the process, in any program
expect 0 tb_run --pin strict -- sh -c 'echo $NCCL_ALGO $PYTHONHASHSEED $MAMBA_DETERMINISTIC $CAUSAL_CONV1D_DETERMINISTIC \
    $TZ; umask; cat /proc/self/personality'
[ "$(sed -n 1p out)" = "Ring 0 1 1 UTC0" ] || fail "the environment: $(sed -n 1p out)"
[ "$(sed -n 2p out)" = 0022 ] || fail "the umask: $(sed -n 2p out)"
if "$TWINBIT" show t.twinbit pins | grep -q '^held     system.aslr'; then
    [ "$(sed -n 3p out)" = 00040000 ] || fail "the personality: $(sed -n 3p out)"
else
    pin system.aslr
    contains pin "refused" # a container's filter
    contains err "pin system.aslr: requested, refused"
fi
contains err "twinbit: pins (strict): "
contains err "not seen (not used, or nothing could tell)"
"$TWINBIT" show t.twinbit pins >rows
[ "$(head -n 1 rows)" = "profile	strict	seed	0	force	0" ] || fail "the head: $(head -n 1 rows)"
contains rows "unseen   nccl.algo"
contains rows "unseen   cuda.cublas_atomics"
expect 2 tb_run --pin system.rdtsc -- true
contains err "'system.rdtsc' can be seen, not held: nothing is known that sets it"

# two runs have the stack at the same place
if grep -q '^held     system.aslr' rows; then
    for i in 1 2; do
        tb_run --quiet --pin system.aslr -- sh -c 'grep stack /proc/$$/maps | cut -d- -f1' >stack.$i
    done
    cmp stack.1 stack.2 || fail "addresses differ"
fi

# the job's own win, unless forced
export TZ=Asia/Tokyo XLA_FLAGS=--xla_dump_to=x
expect 0 tb_run --pin strict,nccl.proto=LL -- sh -c 'echo $TZ $XLA_FLAGS $NCCL_PROTO'
[ "$(cat out)" = "Asia/Tokyo --xla_dump_to=x --xla_gpu_deterministic_ops=true LL" ] || fail "$(cat out)"
contains err "pin system.timezone: the job has Asia/Tokyo, which wins over UTC0 (--force-pins turns that round)"
pin system.timezone
contains pin "job "
expect 0 tb_run --pin strict --force-pins -- sh -c 'echo $TZ'
[ "$(cat out)" = UTC0 ] || fail "not forced: $(cat out)"
lacks err "pin system.timezone"
unset TZ XLA_FLAGS
(umask 077 && expect 0 tb_run --pin basic -- sh -c umask && [ "$(cat out)" = 0077 ]) || fail "a stricter umask"

# what was asked for is in the trace of a run that was killed
tb_run --quiet --pin strict -- sh -c 'kill -9 $PPID; sleep 0.2' >/dev/null 2>&1 || true
expect 0 "$TWINBIT" show t.twinbit pins
contains out "unseen   nccl.algo"

# a team's file; needs and conflicts are told of
printf '# ours\nbasic\ncpu.omp_threads = 3\n!system.timezone\n' >team.pins
expect 0 tb_run --pin team.pins -- sh -c 'echo $OMP_NUM_THREADS-$TZ-$PYTHONHASHSEED'
[ "$(cat out)" = "3--0" ] || fail "team.pins: $(cat out)"
pin cpu.omp_threads
contains pin "team.pins:3"
expect 0 tb_run --pin strict,torch.warn_only -- true
contains err "pin torch.deterministic is left out: it conflicts with torch.warn_only"

# bad words: nothing is run, no trace is left
rm -f t.twinbit
for word in strickt torch.sed torch.seed=abc cpu.omp_threads=banana python.hashseed=random system.malloc_fill=300 '!nothing' torch.warn_only,torch.deterministic gone.pins ''; do
    expect 2 tb_run --pin "$word" -- touch ran
    lines err 1
    contains err "run: "
done
[ ! -e ran ] && [ ! -e t.twinbit ] || fail "something was run"
expect 2 tb_run --pin torch.sed -- true
contains err "there is no pin 'torch.sed': was 'torch.seed' meant?"

# the CPUs of the job; what is no list
cpu=$(sed -n 's/^Cpus_allowed_list:\t\([0-9]*\).*/\1/p' /proc/self/status)
expect 0 tb_run --pin cpu.affinity="$cpu" -- sh -c 'grep Cpus_allowed_list /proc/self/status'
[ "$(cut -f2 out)" = "$cpu" ] || fail "the affinity: $(cat out)"
pin cpu.affinity
contains pin "held "
expect 2 tb_run --pin cpu.affinity=all -- true
expect 2 tb_run --force-pins -- true
contains err "need '--pin'"
expect 2 tb_run --pin strict=yes -- true
contains err "'strict' is a profile: it has no value"
expect 2 tb_run --pin strict,'!basic' -- true

# a job that ends at once has rows as well; runs that ask for other pins are told apart without torch
for i in 1 2 3; do
    expect 0 tb_run --pin strict -- true
    matches err "pins \(strict\): [12] of [0-9]+ seen to hold" # 1 where a container refuses personality(2)
    pin system.umask
    contains pin "held "
done
cp t.twinbit strict.twinbit
expect 0 tb_run --pin basic -- true
"$TWINBIT" diff strict.twinbit t.twinbit >out || true
contains out "pins.asked: --pin strict | --pin basic"

# an interpreter without torch
need_python
cat >job.py <<'END'
import random, sys
print(random.random(), hash("twinbit"), [p for p in sys.path if "twinbit" in p])
END
expect 0 tb_run --pin basic -- "$PYTHON" job.py
cp out first
expect 0 tb_run --pin basic -- "$PYTHON" job.py
cmp out first || fail "two runs under basic differ"
contains first "[]"
contains err "pins (basic): "
pin python.hashseed
contains pin "held "
pin python.random
contains pin "held "
expect 0 tb_run --pin basic --pin-seed 1 -- "$PYTHON" job.py
cmp -s out first && fail "another seed gives the same numbers"
expect 0 tb_run --pin basic -- "$PYTHON" -R job.py
contains err "pin python.hashseed: set to 0, but random was seen"
expect 0 tb_run --pin basic -- "$PYTHON" -I job.py
pin python.random
contains pin "unseen "

printf 'import random\nrandom.seed(7)\nprint(random.random())\n' >seeds.py
expect 0 tb_run --pin basic -- "$PYTHON" seeds.py
"$PYTHON" seeds.py | cmp - out || fail "the job's seed did not win"
contains err "pin python.random: the job has 7 at seeds.py:2, which wins over"
expect 0 tb_run --pin basic --force-pins -- "$PYTHON" seeds.py
[ "$(cut -d' ' -f1 first)" = "$(cat out)" ] || fail "the seed was not forced"
pin python.random
contains pin "(the job asked for 7), at seeds.py:2"

# the job's own sitecustomize runs, too
mkdir own && echo 'print("mine")' >own/sitecustomize.py
PYTHONPATH=own expect 0 tb_run --pin basic -- "$PYTHON" -c 'print("job")'
[ "$(tr '\n' ' ' <out)" = "mine job " ] || fail "its sitecustomize: $(cat out)"

# JSON
"$TWINBIT" show --json t.twinbit pins | "$PYTHON" -c '
import json, sys
rows = json.load(sys.stdin)["rows"]
keys = ["pin", "state", "requested", "observed", "source", "process", "step", "where"]
assert rows and all(list(r) == keys for r in rows), rows[:1]
assert any(r["pin"] == "python.hashseed" and r["state"] == "held" for r in rows)'

# children and ranks draw numbers of their own, the same in each run
cat >children.py <<'END'
import multiprocessing, os, random
def draw(_):
    return random.random()
if __name__ == "__main__":
    print(random.random())
    for method in ("fork", "spawn"):
        for i in range(2):
            with multiprocessing.get_context(method).Pool(1) as pool:
                print(pool.apply(draw, (i,)))
END
for i in 1 2; do
    expect 0 tb_run --pin basic -- "$PYTHON" children.py
    cp out children.$i
done
cmp children.1 children.2 || fail "children draw other numbers"
[ "$(sort -u children.1 | wc -l)" -eq 5 ] || fail "children draw the same: $(cat children.1)"
RANK=1 expect 0 tb_run --pin basic -- "$PYTHON" children.py
[ "$(cat out children.1 | sort -u | wc -l)" -eq 10 ] || fail "ranks draw the same"
pin python.random
contains pin "(rank 1)"
