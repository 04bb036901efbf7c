# labels: torch
# Seeds that are the time or the pid: another in each run, the same under strict, repeated by a replay; what the job chose by
# itself stays.
need_python
mkdir tmp
export TMPDIR=$PWD/tmp
run() { "$TWINBIT" run --quiet --force "$@"; }

cat >job.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
    srand((unsigned)time(NULL) ^ (unsigned)getpid());
    printf("%d\n", rand());
    srand(42);
    printf("%d\n", rand());
    return 0;
}
END
cc -o job job.c
run -o a.twinbit --pin strict -- ./job >first
sleep 1.1
"$TWINBIT" run --force -o a.twinbit --pin strict -- ./job >second 2>err
cmp first second || fail "two runs differ: $(diff first second)"
./job >plain
[ "$(tail -n 1 first)" = "$(tail -n 1 plain)" ] || fail "a seed of the job's own was changed"
matches err '^twinbit: pin system\.time_seeds: 1 seed is taken from the clock or the pid, and given another value: [0-9]+ in place of [0-9]+ by job\+0x'
run -o b.twinbit --pin observe -- ./job >first
sleep 1.1
"$TWINBIT" replay --force -o c.twinbit b.twinbit >second 2>err || true
grep -v '^replay: ' second | cmp - first || fail "the replay differs: $(diff first second)"
contains err "replay: 1 seed is not what the job asks for now, the first: "

need_torch
cat >job.py <<'END'
import os
import random
import time
import numpy as np
import torch
rng = random.Random(time.time_ns() // 1000)
print(rng.random())
random.seed(time.time())
print(random.random())
np.random.seed(int(time.time()))
print(np.random.rand())
print(np.random.default_rng(seed=int(time.time() * 1000)).random())
torch.manual_seed(int(time.time()) ^ os.getpid())
print(torch.rand(1).item())
random.seed(1234)
torch.manual_seed(42)
print("own", random.random(), torch.rand(1).item(), random.Random(7).random(), np.random.default_rng(5).random(),
      random.Random("text").random())
END
"$PYTHON" job.py >plain
run -o a.twinbit --pin strict -- "$PYTHON" job.py >first
"$TWINBIT" run --force -o a.twinbit --pin strict -- "$PYTHON" job.py >second 2>err
cmp first second || fail "two runs differ: $(diff first second)"
[ "$(tail -n 1 first)" = "$(tail -n 1 plain)" ] || fail "seeds of the job's own were changed"
[ "$(paste -d= first plain | awk -F= '$1 == $2' | wc -l)" = 1 ] || fail "a seed from the clock stayed"
contains err "pin system.time_seeds: 5 seeds are taken from the clock or the pid, and given another value: "
matches err ' in place of [0-9]+ at job\.py:6$'
contains err "pin torch.seed: the job has 42 at job.py:16, which wins over "
"$TWINBIT" show a.twinbit pins >pins
matches pins '^held  *python\.numpy_legacy .* in place of [0-9]+, at job\.py:10 '
run -o b.twinbit --pin observe -- "$PYTHON" job.py >first
sleep 1.1
"$TWINBIT" replay --force -o c.twinbit b.twinbit >second 2>err
grep -v '^replay: ' second | cmp - first || fail "the replay differs: $(diff first second)"
contains second "replay: bit-exact: "
matches err '^twinbit: replay: 5 seeds are not what the job asks for now, the first: [0-9]+ in place of [0-9]+ at job\.py:6$'

# texts, lists, arrays, NumPy's and torch's own types; what is no time stays, and so does a constant that happens to be the pid
cat >kinds.py <<'PY'
import datetime
import pickle
import random
import time
import numpy as np
import torch
t = time.time_ns()
random.seed(str(time.time()))
print(random.random())
random.seed(str(datetime.datetime.now()))
print(random.random())
random.seed(b"run-%d" % t)
print(random.random())
print(random.Random(int(datetime.datetime.now().strftime("%Y%m%d%H%M%S%f"))).random())
np.random.seed([t % 2**32, 1])
print(np.random.rand())
np.random.seed(np.array([t % 2**32], dtype=np.uint32))
print(np.random.rand())
print(np.random.RandomState(t % 2**32).rand())
print(np.random.default_rng([t % 2**32, 3]).random())
print([np.random.default_rng(s).random() for s in np.random.SeedSequence(t).spawn(2)])
print(np.random.Generator(np.random.Philox(int(time.time()))).random())
print(torch.rand(1, generator=torch.Generator().manual_seed(int(time.time()))).item())
random.seed("abc 12345")
np.random.seed([1, 2, 3])
state = pickle.loads(pickle.dumps(np.random.RandomState(7)))
assert type(state) is np.random.RandomState and isinstance(np.random.SeedSequence(5), np.random.SeedSequence)
print("own", random.random(), np.random.rand(), state.rand(), np.random.default_rng(np.random.SeedSequence(99, spawn_key=(1,))).random(),
      torch.rand(1, generator=torch.Generator().manual_seed(8)).item())
try:
    np.random.RandomState(-5)
except ValueError:
    import traceback
    print(traceback.format_exc())
PY
"$PYTHON" kinds.py >plain
run -o a.twinbit --pin strict -- "$PYTHON" kinds.py >first
run -o a.twinbit --pin strict -- "$PYTHON" kinds.py >second
cmp first second || fail "two runs differ: $(diff first second)"
[ "$(grep -n -A99 own first)" = "$(grep -n -A99 own plain)" ] || fail "what is the job's own differs: $(diff plain first)"
[ "$(paste -d= first plain | grep -v own | head -n 11 | awk -F= '$1 == $2' | wc -l)" = 0 ] || fail "a seed from the clock stayed"
sed -i 's/^state = /import hashlib; random.seed(hashlib.sha256(str(t).encode()).digest()); print(random.random())\n&/' kinds.py
run -o b.twinbit --pin observe -- "$PYTHON" kinds.py >first
"$TWINBIT" replay --force -o c.twinbit b.twinbit >second 2>err
grep -v '^replay: ' second | cmp - first || fail "the replay differs: $(diff first second)"

# one value used twice stays one value, also in a child, and what is added to it by a rank is known; timespec_get() is a clock
cat >twice.py <<'PY'
import os
import random
import sys
import time
import numpy as np
import torch
t, ns = int(time.time()), time.time_ns()
draw = lambda seed: random.Random(seed).random()
assert draw(t) == draw(t) and draw(ns) == draw(ns) and draw(float(t)) == draw(float(t)) and draw(ns % 2**32) == draw(ns % 2**32)
assert np.random.RandomState(t).rand() == np.random.RandomState(t).rand()
assert torch.equal(*(torch.rand(3, generator=torch.Generator().manual_seed(t)) for _ in range(2)))
assert len({draw(t + rank) for rank in range(100)}) == 100
first = draw(t)
if os.fork() == 0:
    os._exit(draw(t) != first)
assert os.wait()[1] == 0
print(first, draw(ns), draw(t + 100))
PY
cat >twice.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    srand((unsigned)(t.tv_sec ^ t.tv_nsec));
    int a = rand();
    srand((unsigned)(t.tv_sec ^ t.tv_nsec));
    printf("%d %d\n", a, a == rand());
    return 0;
}
END
cc -o twice twice.c
for i in 1 2; do
    run -o $i.twinbit --pin strict -- "$PYTHON" twice.py >twice.$i
    run -o a.twinbit --pin strict -- ./twice >>twice.$i
done
cmp twice.1 twice.2 || fail "two runs differ: $(diff twice.1 twice.2)"
matches twice.1 ' 1$'
"$TWINBIT" diff 1.twinbit 2.twinbit >out || true
lacks out "pin " # what the clock said is no difference

# a process whose pid is the job's own constant
cat >pid.py <<'PY'
import os
import random
import sys
random.seed(int(sys.argv[1]))
print(random.random(), file=open("drawn", "w"))
sys.exit(os.readlink("/proc/self") == sys.argv[1])
PY
if [ -w /proc/sys/kernel/ns_last_pid ]; then
    for try in 1 2 3 4 5 6 7 8; do
        pid=$((($$ + 5000 + try * 10) % 30000 + 1000))
        "$PYTHON" pid.py $pid
        mv drawn plain
        status=0
        run -o a.twinbit --pin strict -- sh -c "echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid; '$PYTHON' pid.py $pid; exit \$?" || status=$?
        cmp plain drawn || fail "a constant seed was changed, as it is the pid"
        if [ $status = 1 ]; then break; fi
    done
fi
