# labels: torch slow
# timeout: 900
# Inductor's cache, frozen with a trace: a replay finds all graphs in it, another folder or not, and is bit-exact; a changed
# model is told.
need_torch
need_program g++
export TMPDIR=$PWD/tmp
mkdir tmp
unset TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR
cat >job.py <<'END'
import sys
import torch
from torch._dynamo.utils import counters
torch.manual_seed(0)
torch.set_num_threads(1)
activation = torch.nn.ReLU() if "changed" in sys.argv else torch.nn.GELU()
model = torch.nn.Sequential(torch.nn.Linear(16, 32), activation, torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model)
for step in range(2):
    compiled(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
c = counters["inductor"]
print(model[0].weight.sum().item().hex(), "hit", c["fxgraph_cache_hit"], "miss", c["fxgraph_cache_miss"])
END
expect 0 "$TWINBIT" run --force -o a.twinbit --pin strict,compile.inductor_cache -- "$PYTHON" job.py
matches out ' hit 0 miss 2$'
matches err 'pin compile.inductor_cache: [0-9]+ files are frozen'
sum=$(cut -d' ' -f1 out)
expect 0 "$TWINBIT" replay --force -o b.twinbit a.twinbit
contains out "$sum hit 2 miss 0"
contains out "replay: bit-exact: "
contains err "pin compile.inductor_cache: nothing was made that is not in the frozen cache"
mkdir other
TMPDIR=$PWD/other expect 0 "$TWINBIT" run --force -o c.twinbit --pin strict,compile.inductor_cache=a.twinbit -- \
    "$PYTHON" job.py
contains out "$sum hit 2 miss 0"
contains err "pin compile.inductor_cache: nothing was made that is not in the frozen cache"
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" job.py changed
matches out ' hit 0 miss 2$'
contains out "replay: not the same: "
matches err 'pin compile.inductor_cache: [0-9]+ files are not in the frozen cache: '

# a choice by timing: it is read in the replay, and the file of timings stays as it was
cat >tuned.py <<'END'
import torch
import torch._inductor.config as inductor
from torch._dynamo.utils import counters
inductor.freezing = True  # the library's product or a kernel of Inductor's own
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU()).eval()
with torch.no_grad():
    print(torch.compile(model, mode="max-autotune")(torch.randn(64, 64)).sum().item().hex(), end=" ")
print("timed", counters["inductor"]["select_algorithm_autotune"])
END
expect 0 "$TWINBIT" run --force -o a.twinbit --pin compile.inductor_cache -- "$PYTHON" tuned.py
if grep -q ' timed 0$' out; then
    echo "nothing was chosen by timing on this CPU: not tested"
else
    expect 0 "$TWINBIT" replay --force -o b.twinbit a.twinbit
    matches out ' timed 0$'
    "$TWINBIT" show b.twinbit coverage >rows
    lacks rows "cache: cache/"
fi
[ -z "$(ls -d tmp/twinbit* other/twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp other)"
