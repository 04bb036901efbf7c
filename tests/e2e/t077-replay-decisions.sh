# labels: torch
# timeout: 300
# replay: what a run drew from the system is given to another one, which comes out the same; what the log does not have is
# told; a trace without decisions, or with names that lead elsewhere, is refused.
need_python
mkdir tmp
export TMPDIR=$PWD/tmp
run() { "$TWINBIT" run --quiet --force "$@"; }

# without torch: hash seeds, random, uuid, temporary names, the order of a folder, children
mkdir files && (cd files && touch $(seq -f f%g 1 40))
cat >job.py <<'END'
import os, random, subprocess, sys, tempfile, uuid
print(random.random(), uuid.uuid4(), list({"a", "b", "c", "d", "e"}), os.urandom(8).hex())
print(os.listdir("files"))
with tempfile.NamedTemporaryFile() as f:
    print(f.name)
print(subprocess.run([sys.executable, "-c", "import random; print(random.random())"], capture_output=True).stdout)
if "more" in sys.argv:
    print(os.urandom(16).hex())
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" job.py
cp out first
expect 0 run -o b.twinbit --pin observe -- "$PYTHON" job.py
cmp -s first out && fail "two runs draw the same"
for i in 1 2; do
    expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
    grep -v '^replay: ' out | cmp - first || fail "the replay differs: $(diff out first)"
    lacks err "not in the log"
done
contains out "replay: unknown: nothing was recorded that can be compared" # no torch, no GPU
expect 0 "$TWINBIT" show c.twinbit pins
contains out "system.entropy"

# more than the log has: told, and where from
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" job.py more
matches err 'replay: 1 decision was not in the log, the first a getrandom of 16 by .*; answered from the seed'
head -n 4 out | cmp - first || fail "what comes before is the same"

# a folder that holds other names: told with who asked; logs that could not be written: what of them
touch files/more
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
matches err 'replay: [0-9]+ listings? (is|are) of other names than recorded, in byte order now, the first: [0-9]+ entries, by .+\+0x'
rm files/more
printf 'import os\nfor i in range(4000): os.urandom(4096)\n' >limited.py
expect 0 "$TWINBIT" run --force -o c.twinbit --pin observe -- \
    "$PYTHON" -c 'import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)); exec(open("limited.py").read())'
matches err 'of what the job drew from the system [0-9]+ answers were not written down: a process may write 256 MiB, and TMPDIR or a limit on'
lacks err " 0 processes"
lacks err " 1 processes"

# the status is the job's, and another one is another run; a replay can be replayed
expect 7 "$TWINBIT" replay --force -o d.twinbit a.twinbit -- "$PYTHON" -c 'import sys; sys.exit(7)'
contains out "replay: not the same: status 0 then, 7 now"
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
expect 0 "$TWINBIT" replay --force -o d.twinbit c.twinbit
grep -v '^replay: ' out | cmp - first || fail "the replay of a replay differs"

# nothing to replay
expect 0 run -o e.twinbit -- true
expect 2 "$TWINBIT" replay e.twinbit
contains err "this trace holds no decisions: record it with 'twinbit run --pin observe'"
expect 2 "$TWINBIT" replay
expect 2 "$TWINBIT" replay gone.twinbit
expect 2 "$TWINBIT" replay a.twinbit "$PYTHON" job.py
contains err "the command stands behind '--'"
expect 2 "$TWINBIT" replay a.twinbit --force
contains err "options stand before TRACE"

# twinbit was killed: what is written when the job ends is not there
run -o k.twinbit --pin observe -- sh -c 'kill -KILL $PPID' && fail "it was not killed"
expect 2 "$TWINBIT" replay k.twinbit
contains err "the recording of this trace was cut before its decisions were stored: record it again"
run --force -o k.twinbit -- sh -c 'kill -KILL $PPID' && fail "it was not killed"
expect 2 "$TWINBIT" replay k.twinbit
contains err "this trace holds no decisions"
rm -rf tmp/twinbit* # of the twinbits that were killed
expect 127 "$TWINBIT" replay --force -o e.twinbit a.twinbit -- no-such-command
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"

# damage is called so, whatever it hit: a log (other bytes, none), the list of them, a text that cannot be read
cat >damage.py <<'END'
import shutil, sqlite3, sys
kind, path = sys.argv[1], sys.argv[2]
shutil.copy("a.twinbit", path)
db = sqlite3.connect(path)
log = db.execute("SELECT name FROM texts WHERE name LIKE 'pins.log/%' ORDER BY name").fetchone()[0]
key = "pins.logs" if kind.startswith("list") else log
(bytes_, data) = db.execute("SELECT totalBytes, data FROM texts WHERE name = ? AND part = 0", (key,)).fetchone()
if kind.endswith("gone"):
    db.execute("DELETE FROM texts WHERE name = ?", (key,))
elif kind.endswith("swapped"):  # another log in its place, or the list of another run
    other = "pins.asked.none" if kind.startswith("list") else db.execute(
        "SELECT name FROM texts WHERE name LIKE 'pins.log/%' AND name != ? ORDER BY name", (log,)).fetchone()[0]
    row = db.execute("SELECT totalBytes, data FROM texts WHERE name = ?", (other,)).fetchone()
    db.execute("UPDATE texts SET totalBytes = ?, data = ? WHERE name = ?", (*row, key))
elif kind.endswith("broken"):
    db.execute("UPDATE texts SET data = ? WHERE name = ?", (data[:len(data) // 2] + b"\0\0\0\0" + data[len(data) // 2 + 4:], key))
db.commit()
END
if "$PYTHON" -c 'import sqlite3'; then
    for kind in log-gone log-swapped log-broken list-broken; do
        "$PYTHON" damage.py $kind damaged.twinbit || fail "cannot damage it: $kind"
        expect 2 "$TWINBIT" replay --force -o c.twinbit damaged.twinbit
        contains err "corrupted"
    done
fi

# strict: the same numbers in each run, from the seed, in the log as well
expect 0 run -o s.twinbit --pin strict -- "$PYTHON" job.py
cp out strict
expect 0 run -o s.twinbit --pin strict -- "$PYTHON" job.py
cmp out strict || fail "two runs under strict differ: $(diff out strict)"
for id in system.entropy system.readdir; do
    "$TWINBIT" show s.twinbit pins | grep "held     $id " >pin || fail "$id is not held"
done
expect 0 run -o s.twinbit --pin strict --pin-seed 1 -- "$PYTHON" job.py
cmp -s out strict && fail "another seed draws the same"

# a long list of pins is asked for again whole
list=strict
for i in $(seq 50); do list="$list,!cpu.mkl_threads"; done
expect 0 run -o s.twinbit --pin "$list,cpu.omp_threads=3" -- true
expect 0 "$TWINBIT" replay --force -o c.twinbit s.twinbit
"$TWINBIT" show c.twinbit pins | grep "cpu.omp_threads " >pin
contains pin "requested 3"

# a log of 70 MB is whole, too
cat >much.py <<'END'
import os, zlib
x = 0
for i in range(140):
    x = zlib.crc32(os.urandom(500000), x)
print(x)
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" much.py
cp out first
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
grep -v '^replay: ' out | cmp - first || fail "the replay differs: $(diff out first)"
lacks err "not in the log"
rm a.twinbit c.twinbit

# torch: three steps whose data come in another order in each run
need_torch
cat >train.py <<'END'
import random
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, i):
        return torch.full((8,), float(i)) + random.random() + float(np.random.default_rng().random())

model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for batch in DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=2):
    optimizer.zero_grad()
    (model(batch) * torch.rand(4)).sum().backward()
    optimizer.step()
print(model.weight.sum().item())
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" train.py
cp out first
expect 0 run -o b.twinbit --pin observe -- "$PYTHON" train.py
expect 1 "$TWINBIT" diff a.twinbit b.twinbit
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
contains out "replay: bit-exact: "
expect 0 "$TWINBIT" diff a.twinbit c.twinbit
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" -c 'import random; random.random()
exec(open("train.py").read().replace("lr=1e-4", "lr=1e-3"))'
contains out "replay: not the same: "

# another job: nothing can be said, and the last line says so
cat >other.py <<'END'
import torch
print(torch.fft.fft(torch.arange(7.0)).abs().prod().item())
END
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" other.py
tail -n 1 out >last
contains last "replay: unknown: "
lacks last "unknown: nothing was recorded"
