# labels: torch
# What is said of pins: a variable that a launcher sets is the job's, one pin alone is read back, what nothing can set is refused, and
# an order of arrival that the job asked for is counted, with its line.
need_python
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

# a launcher's own value wins, and what the interpreter made of it is told
run --pin strict -- sh -c "PYTHONHASHSEED=17 exec '$PYTHON' -c 'print(hash(\"a\"))'" >out 2>err
[ "$(cat out)" = "$(PYTHONHASHSEED=17 "$PYTHON" -c 'print(hash("a"))')" ] || fail "another hash seed than the launcher's"
contains err "pin python.hashseed: the job has 17, which wins over 0"
lacks err force-pins
PYTHONHASHSEED=17 run --pin strict -- "$PYTHON" -c 1 2>err
contains err "pin python.hashseed: the job has 17, which wins over 0 (--force-pins turns that round)"
PYTHONHASHSEED=17 run --pin strict --force-pins -- "$PYTHON" -c 1 2>err
lacks err python.hashseed
run --pin strict -- sh -c "PYTHONHASHSEED=17 exec '$PYTHON' -R -c 1" 2>err
contains err "pin python.hashseed: set to 0, but random was seen"
run --pin strict -- "$PYTHON" -c 'import os; os.environ["PYTHONHASHSEED"] = "77"' 2>err # for its children: its own is 0
lacks err python.hashseed

# one variable alone
run --pin python.hashseed -- "$PYTHON" -c 1 2>err
contains err "pins (observe): 1 of 1 seen to hold"
run --pin python.hashseed -- "$PYTHON" -R -c 1 2>err
contains err "pin python.hashseed: set to 0, but random was seen"
run --pin system.timezone -- sh -c "TZ=Asia/Tokyo '$PYTHON' -c 1" 2>err
contains err "pin system.timezone: the job has Asia/Tokyo, which wins over UTC0"

# what can only be seen
for pin in system.time system.time=1 system.rdtsc=1 nccl.channels=2; do
    expect 2 "$TWINBIT" run --force -o t.twinbit --pin $pin -- true
    contains err "can be seen, not held"
done

expect 2 "$TWINBIT" run --pin --force -- true
contains err "option '--pin' needs a value (LIST), and '--force' is an option"
expect 2 "$TWINBIT" run -o -- true
contains err "option '--output' needs a value"

# nothing of torch or CUDA: what the job prints is not compared, and who does that is said
expect 3 "$TWINBIT" run --quiet --force -n 2 -o n.twinbit -- echo hello
contains out "next: what the job prints is not compared; 'twinbit bisect-pins --compare output -- CMD' does that"
expect 3 "$TWINBIT" run --quiet --force --poison 0xa5,0x5a -o n.twinbit -- echo hello
contains out "with 0x5a in fresh memory, printed what runs 1 and 2 did, with 0xa5"

need_torch
cat >arrivals.py <<'PY'
import torch
from torch.utils.data import DataLoader
if __name__ == "__main__":
    for batch in DataLoader(list(range(12)), batch_size=2, num_workers=2, in_order=False):
        batch.sum()
PY
run --pin strict -- "$PYTHON" arrivals.py 2>err
matches err '^twinbit: pin data\.in_order: the job has False; 6 arrivals, order [0-9a-f]{16} at arrivals\.py:4, which wins over True$'
contains err "data.in_order (6 arrivals of batches)"

# torch counts its CPUs anew until its pool of threads begins: nobody has changed a setting
cat >cpus.py <<'PY'
import os
import torch
first = torch.get_num_interop_threads()
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
weight = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(weight.parameters(), 0.1)
for step in range(2):
    weight(torch.ones(2, 4)).sum().backward()
    optimizer.step()
PY
run --pin strict -- "$PYTHON" cpus.py 2>err
lacks err cpu.torch_interop_threads
