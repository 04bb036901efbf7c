# labels: torch
# timeout: 600
# data.worker_generator: generators that a data set holds draw other numbers in each worker and each pass, the same in each run;
# those that the job has seeded stay as they are, and are told.
need_torch
cat >job.py <<'END'
import random, sys
import numpy, torch
from torch.utils.data import DataLoader, Dataset

class Noise:
    def __init__(self, seed):
        self.of_numpy = [numpy.random.default_rng(seed), numpy.random.RandomState(seed)]
        self.of_torch = {"first": torch.Generator()}
        if seed is not None:
            self.of_torch["first"].manual_seed(seed)

class Rows(Dataset):
    def __init__(self, seed):
        self.rng, self.noise = random.Random(seed), Noise(seed)
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return i, [self.rng.random(), self.noise.of_numpy[0].random(), self.noise.of_numpy[1].rand(),
                   *(torch.rand(1, generator=g, dtype=torch.float64).item() for g in self.noise.of_torch.values())]

if __name__ == "__main__":
    how = sys.argv[1]
    rows = Rows(5 if how == "seeded" else None)
    if how == "spawn":  # torch cannot send one to a spawned worker
        rows.noise.of_torch = {}
    loader = DataLoader(rows, batch_size=None, num_workers=2, multiprocessing_context="spawn" if how == "spawn" else None)
    for _ in range(2):
        for i, drawn in loader:
            print(*drawn, sep="\n")
    print("parent", rows.rng.random())
END
pins() { expect 0 "$TWINBIT" run --quiet --force -o a.twinbit "${@:2}" -- "$PYTHON" -W ignore job.py "$1"; }
kinds() { grep -v parent out | sort | uniq -d | wc -l; } # numbers that were drawn more than once

# by themselves all workers draw the same
pins free --pin observe
[ "$(kinds)" -gt 4 ] || fail "the workers differ without the pin: $(cat out)"
pins free --pin data.worker_generator,system.entropy,python.random
[ "$(kinds)" -eq 0 ] || fail "numbers were drawn twice: $(sort out | uniq -d)"
cp out first
pins free --pin data.worker_generator,system.entropy,python.random
cmp out first || fail "two runs differ: $(diff out first)"
"$TWINBIT" show a.twinbit pins | grep "data.worker_generator " >pin
matches pin '^held .* observed worker 0: rng, noise.of_numpy\[0\], noise.of_numpy\[1\], noise.of_torch\['
lines pin 4
pins free --pin data.worker_generator,system.entropy,python.random --pin-seed 7
[ "$(grep -v parent out | sort - first | uniq -d | grep -vc parent)" -eq 0 ] || fail "another seed draws the same"

# the job's own seeds stay, unless pins are forced; spawned workers have states of their own doing
pins seeded --pin observe
cp out seeded
pins seeded --pin data.worker_generator
cmp out seeded || fail "seeds of the job were changed"
"$TWINBIT" show a.twinbit pins | grep "data.worker_generator " >pin
matches pin '^job .* observed seeds of its own in rng, noise'
pins seeded --pin data.worker_generator --force-pins
[ "$(kinds)" -eq 0 ] || fail "forced, numbers were drawn twice"
pins spawn --pin data.worker_generator
"$TWINBIT" show a.twinbit pins | grep "data.worker_generator " >pin
matches pin '^unseen '
