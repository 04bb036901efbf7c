# labels: torch
# timeout: 300
# processors: 2
# In which order works of a gloo group end is recorded, for each group and step, and is no divergence.
need_torch
cat >job.py <<'END'
import os, sys
import torch
import torch.distributed as dist

rank = int(os.fork() == 0)  # two ranks, one command, one import
mode, store = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(rank)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
other = dist.new_group([0, 1])
p = torch.nn.Parameter(torch.randn(4))
optimizer = torch.optim.SGD([p], lr=0.1)
for step in range(2):
    big, small = torch.randn(4_000_000), torch.randn(4)
    works = [dist.all_reduce(big, async_op=True)]
    if mode == "ordered":
        works[0].wait()
    works.append(dist.all_reduce(small, async_op=True))
    for w in reversed(works):
        w.wait()
    p.grad = small + big[:4]
    dist.all_reduce(p.grad, group=other)
    optimizer.step()
print(rank, p.sum().item()) if rank == 0 else None
dist.destroy_process_group()
os.wait() if rank == 0 else None
END
run() { # NAME MODE OPTIONS...
    local name=$1 mode=$2
    shift 2
    rm -f store
    expect 0 "$TWINBIT" run --force -o "$name.twinbit" "$@" -- "$PYTHON" job.py "$mode" "$PWD/store"
    cp out "$name.out"
    "$TWINBIT" show "$name.twinbit" pins | grep ' nccl\.gloo ' >"$name.pins" || fail "no row of nccl.gloo in $name"
}

# the small one ends first: twice, in both ranks; the other group has a row of its own
run a mixed --pin strict
lines a.pins 4
[ "$(grep -cE '^read +nccl\.gloo +observed 4 works, [12] ended before an earlier one, order [0-9a-f]{16}, step 1, at group 0 \(gloo, 2 ranks\)' a.pins)" -eq 2 ] ||
    fail "$(cat a.pins)"
[ "$(grep -cE 'observed 2 works, 0 ended before an earlier one, .* at group [^0]' a.pins)" -eq 2 ] || fail "$(cat a.pins)"
matches a.pins '\[job\.py#0/.*\]$'

# another order, the same bits: identical, and diff does not speak of it; under observe it is there, too
run b ordered --pin observe
[ "$(grep -c 'observed 4 works, 0 ended before an earlier one' b.pins)" -eq 2 ] || fail "$(cat b.pins)"
run c mixed --pin strict
cmp a.out c.out || fail "results differ"
expect 0 "$TWINBIT" diff a.twinbit c.twinbit
contains out IDENTICAL
"$TWINBIT" diff a.twinbit b.twinbit >out 2>err || true
lacks out "pin nccl.gloo"
