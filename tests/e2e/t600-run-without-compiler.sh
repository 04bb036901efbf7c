# run without a C++ compiler: the Python tap records, says so once, keeps the job's bits, finds what differs.
# labels: torch
# timeout: 900
# processors: 2
need_torch
mkdir none cache

# no compiler is found by name, and none is in the cache from before
tb_without() {
    env CXX=/nonexistent PATH="$PWD/none" XDG_CACHE_HOME="$PWD/cache" "$TWINBIT" "$@"
}

cat >job.py <<'END'
import sys

import torch
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(64, 16), torch.randint(4, (64,))
if "--unseeded" in sys.argv:
    model[3].register_forward_pre_hook(lambda *_: torch.seed() and None)
for _ in range(2):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
for p in model.parameters():
    print(p.double().sum().item().hex())
if "--odd" in sys.argv:
    buffer = torch.zeros(8)
    print(buffer.add_(1).sum().item())
    import ctypes

    ctypes.c_float.from_address(buffer.data_ptr()).value = 3.0
    print((buffer * 2).sum().item())
END

"$PYTHON" job.py >bare
expect 0 tb_without run -o a.twinbit -- "$PYTHON" job.py
cmp -s out bare || fail "the job's output is not what it is without twinbit"
contains err "apt-get install g++"
contains err "recorded from Python"
[ "$(grep -c 'recorded from Python' err)" -eq 1 ] || fail "warned more than once"
contains err "nothing lost"
expect 0 tb show a.twinbit coverage
contains out "fallback"
contains out "no C++ compiler"
expect 0 tb show a.twinbit env
contains out "tap=python"

# operators, modules, phases and state are there
expect 0 tb show a.twinbit events
contains out "0/forward:3/aten::bernoulli_.float#0"
contains out "1/backward:4/aten::mm#0"
contains out "1/optimizer:/aten::lerp_.Scalar#0"
expect 0 tb show a.twinbit tensors
contains out "param:4.weight"
contains out "exp_avg:0.weight"

expect 0 tb_without run --quiet -o b.twinbit -- "$PYTHON" job.py
expect 0 tb diff a.twinbit b.twinbit
contains out "IDENTICAL"

# a difference that was planted: dropout draws from a generator that nobody seeded
expect 0 tb_without run --quiet -o c.twinbit -- "$PYTHON" job.py --unseeded
expect 0 tb_without run --quiet -o d.twinbit -- "$PYTHON" job.py --unseeded
expect 1 tb diff c.twinbit d.twinbit
contains out "DIVERGED"
contains out "0/forward:3/aten::bernoulli_.float#0"
contains out "RNG"

# a write behind the operators' back, found by what is read afterwards
expect 0 tb_without run --quiet --inputs -o e.twinbit -- "$PYTHON" job.py --odd
expect 0 tb show e.twinbit coverage
contains out "unseen writer: aten::add_.Tensor"
[ "$(grep -c 'unseen writer' out)" -eq 1 ] || fail "one unseen writer was planted: $(cat out)"

# the C++ tap, where it can be had, sees the same state
if command -v g++ >/dev/null && command -v sqlite3 >/dev/null; then
    expect 0 tb run --quiet -o f.twinbit -- "$PYTHON" job.py
    for t in a f; do
        sqlite3 $t.twinbit "SELECT step, name, dtype, shape, fp FROM v_state ORDER BY step, name" >$t.state
    done
    [ -s a.state ] || fail "no state"
    cmp a.state f.state || fail "the taps disagree on the state at step ends"
fi

# doctor says what would be used
TWINBIT_PYTHON=$PYTHON expect 0 tb_without doctor
contains out "libtwinbit_pytap.so"
contains out "apt-get install g++"
