# labels: torch
# timeout: 300
# --poison: a read of memory that nobody wrote is named; a job that has none is clean; one that
# does not repeat itself is no witness.
run() { "$TWINBIT" run --quiet --force -o p.twinbit "$@"; }

# words
for word in 1 1,1 1,256 a,b 1,2,3 '' 0x1g,2; do
    expect 2 run --poison "$word" -- touch ran
    contains err "run: option '--poison'"
done
for word in 0xff,1 1,255; do # glibc takes the complement, and 0 for "off"
    expect 2 run --poison "$word" -- touch ran
    contains err "the C library cannot fill memory with 0xff: 0x00 to 0xfe are possible"
done
expect 2 run --poison 1,2 -n 2 -- touch ran
expect 2 run --poison 1,2 --pin system.malloc_fill=3 -- touch ran
expect 3 run --poison 1,2 -- true
lacks out "differ by themselves"
[ ! -e ran ] || fail "something was run"

# small blocks that were used before are filled, too, in a job of which nothing is recorded
need_python
cat >small.py <<'END'
import ctypes
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
c.free.argtypes = [ctypes.c_void_p]
used = c.malloc(96)
ctypes.memset(used, 1, 96)
c.free(used)
print("byte", ctypes.string_at(c.malloc(96) + 50, 1)[0])
END
expect 3 run --poison 165,60 -- "$PYTHON" small.py
[ "$(grep -c '^byte 165$' out)" -eq 2 ] || fail "small blocks: $(head -n 3 out)"

need_torch
cat >job.py <<'END'
import random, sys
import torch
torch.manual_seed(0)
x = torch.empty(32, 64)
x[:16] = torch.rand(16, 64)
if "whole" in sys.argv:
    x[16:] = 0
if "random" in sys.argv:
    x[16:] = random.random()
y = torch.nn.Linear(64, 64)(x.nan_to_num(0).clamp(-9, 9))
print(y.sum().item())
END
expect 1 run --poison 165,60 --pin strict --pin torch.fill=False -- "$PYTHON" job.py
contains out "cause       uninitialised memory"
contains out "aten::nan_to_num.out#0"
contains out "fresh memory was filled with 0xa5 in A and with 0x3c in B: "
contains out "run --poison 0xa5,0x3c --pin strict"
contains out "memory is read that nobody wrote"
# torch.fill, which strict brings, would hide it
expect 1 run --poison 165,60 --pin strict -- "$PYTHON" job.py
# so would a job that asks for deterministic algorithms itself
sed 's/^torch.manual_seed(0)/&; torch.use_deterministic_algorithms(True)/' job.py >own.py
expect 1 run --poison 165,60 -- "$PYTHON" own.py
expect 0 run --poison 165,60 -- "$PYTHON" job.py whole
expect 3 run --poison 165,60 -- "$PYTHON" job.py random
contains out "unknown: two runs with fresh memory 0xa5 differ by themselves"

# the next command names the element
expect 1 run --poison 165,60 --pin strict --inputs --snapshot '0/forward:/aten::nan_to_num.out#0' -- "$PYTHON" job.py
contains out "elements    1024 of 2048 differ; first: 1024 = [16,0]"
contains out "0xa5a5a5a5"
