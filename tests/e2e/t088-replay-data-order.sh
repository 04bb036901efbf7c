# labels: torch
# timeout: 600
# Orders of data: indices that a sampler draws from what no replay has, batches that come as workers end, passes of a
# DistributedSampler. They differ from run to run; a replay is bit-exact; a job that was changed is told where.
need_torch
run() { "$TWINBIT" run --quiet --force "$@"; }
pin() { "$TWINBIT" show "$1" pins | grep -E "^[a-z]+ +$2 " >pin || fail "no row of '$2' in $1"; }

cat >job.py <<'END'
import random, sys, time
import numpy, torch
from concurrent.futures import ThreadPoolExecutor, as_completed
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler
from torch.utils.data.distributed import DistributedSampler

def chance():  # of the monotonic clock, which no pin answers
    return (time.perf_counter_ns() * 40503 >> 8 & 0xFFFF)

class Rows(Dataset):
    def __init__(self, n):
        self.n = n
    def __len__(self):
        return self.n
    def __getitem__(self, i):
        time.sleep(chance() % 50 / 10000)
        return torch.full((4,), float(i)) + torch.rand(1)

class Shard(IterableDataset):
    def __iter__(self):
        me = torch.utils.data.get_worker_info().id
        for i in range(2 + 3 * me):
            time.sleep(chance() % 50 / 5000)
            yield torch.full((4,), float(100 * me + i)) + torch.rand(1)

class Chance(Sampler):
    kind = int
    def __init__(self, n):
        self.n = n
    def __len__(self):
        return self.n
    def __iter__(self):
        rows = list(range(self.n))
        random.Random(chance()).shuffle(rows)
        return iter([self.kind(i) for i in rows])

class Numpy(Chance):
    kind = numpy.int64

class Batches(Chance):  # how many there are differs, too
    def __iter__(self):
        rows = list(super().__iter__())
        size = 1 + chance() % 16
        return iter([tuple(rows[i:i + size]) for i in range(0, self.n, size)])

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

def train(loader, passes=1):
    for _ in range(passes):
        for batch in loader:
            optimizer.zero_grad()
            (model(batch) * torch.rand(2)).sum().backward()
            optimizer.step()

n = 36 if "more" in sys.argv else 24
workers = 3 if "workers" in sys.argv else 2
train(DataLoader(Rows(n), batch_size=4, sampler=Chance(n)), 2)
train(DataLoader(Rows(24), batch_size=4, sampler=Numpy(24), num_workers=2))
train(DataLoader(Rows(24), batch_sampler=Batches(24)), 2)
train(DataLoader(Rows(6), batch_size=None, sampler=Chance(6)))
train(DataLoader(Rows(6), batch_size=3, sampler=torch.randperm(6)))
train(DataLoader(Rows(24), batch_size=4, shuffle=True, num_workers=workers, in_order=False))
train(DataLoader(Rows(24), batch_size=4, sampler=Chance(24), num_workers=2, in_order=False, persistent_workers=True), 2)
train(DataLoader(Shard(), batch_size=2, num_workers=2))
train(DataLoader(Shard(), batch_size=2, num_workers=2, in_order=False))
d = DistributedSampler(Rows(24), num_replicas=2, rank=0)
train(DataLoader(Rows(24), batch_size=4, sampler=d), 2)
d.set_epoch(5)
train(DataLoader(Rows(24), batch_size=4, sampler=d))
for batch in DataLoader(Rows(24), batch_size=4, sampler=Chance(24)):
    break
with ThreadPoolExecutor(4) as ex:
    for f in as_completed([ex.submit(lambda i: (time.sleep(chance() % 50 / 2000), i)[1], i) for i in range(8)]):
        train([torch.full((4,), float(f.result()))])
print(model.weight.sum().item())
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" -W ignore job.py
cp out first
expect 0 run -o b.twinbit --pin observe -- "$PYTHON" -W ignore job.py
expect 1 "$TWINBIT" diff a.twinbit b.twinbit
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
contains out "replay: bit-exact: "
contains out "$(cat first)"
lacks err "not as recorded"
for id in data.shuffle data.in_order data.completion_order data.distributed_sampler; do
    pin a.twinbit $id
    order=$(grep -o "[0-9]* [a-z-]*, order [0-9a-f]\{16\}" pin)
    pin c.twinbit $id
    contains pin "$order"
done
contains pin "3 passes, order "
contains pin "the last with seed 0, epoch 5; 1 repeat the one before: set_epoch() was not called"
pin c.twinbit data.shuffle
matches pin '; [0-9]+ put back to what they were, the job chose others'
pin a.twinbit data.shuffle
lacks pin "put back"

# under strict the same is written down
expect 0 run -o s.twinbit --pin strict --level boundary -- "$PYTHON" -W ignore job.py
expect 0 "$TWINBIT" replay --force -o c.twinbit s.twinbit
contains out "replay: bit-exact: "
pin s.twinbit data.in_order
contains pin "job "

# changed: more samples, more workers. Told with the line, nothing is put back there, none hangs
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" -W ignore job.py more
contains out "replay: not the same: "
matches err 'not as recorded, the first: DataLoader indices at job.py:[0-9]+: 24 samples, BatchSampler then, 36 samples, BatchSampler now'
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" -W ignore job.py workers
matches err 'DataLoader arrivals at job.py:[0-9]+: 24 samples, BatchSampler, 2 workers then, .* 3 workers now'

# the end of a pass is no batch
cat >batches.py <<'END'
import torch
print(len([0 for _ in torch.utils.data.DataLoader(torch.arange(16.0), batch_size=4, shuffle=True)]))
END
expect 0 run -o b.twinbit --pin observe --level boundary -- "$PYTHON" batches.py
contains out 4
pin b.twinbit data.shuffle
contains pin "observed 4 batches, order "
