# labels: torch
# timeout: 300
# Pins in a job of torch: two runs that do not seed are identical; who changes one is named with the line; data workers.
need_torch
cat >job.py <<'END'
import sys
import numpy, torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.arange(64.0).reshape(8, 8)), batch_size=4, shuffle=True, num_workers=2,
                    in_order="change" not in sys.argv)
for epoch in range(2):
    for (x,) in loader:
        optimizer.zero_grad()
        (model(x) * torch.rand(8)).sum().backward()
        optimizer.step()
    if epoch == 0 and "change" in sys.argv:
        torch.use_deterministic_algorithms(False)
        torch.manual_seed(5)
        torch.set_num_threads(1)
print(numpy.random.rand(), torch.rand(1).item())
END
run() { "$TWINBIT" run --force "$@"; }
pin() { "$TWINBIT" show "$1" pins | grep -E "^[a-z]+ +$2 " >pin || fail "no row of '$2' in $1"; }

# observed: nothing is set, all is read; the runs differ
run --quiet -o a.twinbit -- "$PYTHON" job.py >a
run --quiet -o b.twinbit -- "$PYTHON" job.py >b
cmp -s a b && fail "runs without a seed are equal"
pin a.twinbit torch.deterministic
contains pin "observed False, step 0"
pin a.twinbit cpu.torch_threads
contains pin "read "

# pinned: equal, and each pin is seen to hold
run -o a.twinbit --pin strict -- "$PYTHON" job.py >a 2>said
run --quiet -o b.twinbit --pin strict -- "$PYTHON" job.py >b
cmp a b || fail "runs under strict differ"
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
contains out "IDENTICAL"
lacks said "twinbit: pin "
matches said 'pins \(strict\): [12][0-9] of'
for id in torch.seed torch.deterministic torch.fill torch.mkldnn_deterministic data.in_order data.base_seed data.sampler \
    data.worker_numpy cpu.torch_threads cpu.omp_dynamic python.numpy_legacy cuda.cudnn_benchmark; do
    pin a.twinbit $id
    contains pin "held "
done
contains <("$TWINBIT" show a.twinbit pins | grep worker_numpy) "fork#1"

# changed halfway: who, where, when; forced, it stays
run -o c.twinbit --pin strict -- "$PYTHON" job.py change >/dev/null 2>err
contains err "pin torch.deterministic: the job changed it from True to False at job.py:15 in step 2"
contains err "pin torch.seed: the job has 5 at job.py:16 in step 2, which wins over"
matches err "pin data\.in_order: the job has False; [0-9]+ arrivals, order [0-9a-f]+ at job\.py:10, which wins over True"
threads=$("$PYTHON" -c 'import torch; print(torch.get_num_threads())')
if [ "$threads" -ne 1 ]; then
    contains err "pin cpu.torch_threads: the job changed it from what it was to 1 at job.py:17 in step 2"
fi
run -o d.twinbit --pin strict --force-pins -- "$PYTHON" job.py change >/dev/null 2>err
pin d.twinbit torch.deterministic
contains pin "observed True (the job asked for False)"
lacks err "pin torch.deterministic"
pin d.twinbit data.in_order
contains pin "observed True (the job asked for False)"

# level boundary and --attach python take pins as well
run --quiet -o e.twinbit --pin strict --level boundary --attach python -- "$PYTHON" job.py >e
cmp a e || fail "pins with --attach python"
pin e.twinbit torch.deterministic
contains pin "held "

# diff tells runs with other pins from each other, and what was seen of each
expect 1 "$TWINBIT" diff a.twinbit c.twinbit
run --quiet -o f.twinbit --pin strict,'!torch.deterministic',torch.mkldnn_deterministic=False -- "$PYTHON" job.py >f
"$TWINBIT" diff a.twinbit f.twinbit >out || true
contains out "pins.asked: "
contains out "pin torch.mkldnn_deterministic: True | False"

# what the pins have put before functions of Python and torch can be pickled as they can
cat >pickles.py <<'END'
import multiprocessing, random
import torch
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1, initializer=random.seed, initargs=(1,)) as pool:
        print(pool.apply(abs, (-1,)))
    loader = torch.utils.data.DataLoader(torch.arange(4.0), num_workers=1, worker_init_fn=torch.manual_seed,
                                         multiprocessing_context="spawn")
    print(len(list(loader)))
END
run --quiet -o g.twinbit --pin strict -- "$PYTHON" pickles.py >g
[ "$(tr '\n' ' ' <g)" = "1 4 " ] || fail "pickles: $(cat g)"
