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
