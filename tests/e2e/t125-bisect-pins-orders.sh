# timeout: 120
# bisect-pins of a job that differs by what ends first: the pin that holds that is in no profile, and is named.
need_python
cat >job.py <<'END'
import sys, time
from concurrent.futures import ThreadPoolExecutor, as_completed
def slow(i):
    time.sleep((time.perf_counter_ns() * 40503 >> 8 & 0xFFFF) % 97 / 5000)
    return i
with ThreadPoolExecutor(8) as ex:
    print([f.result() for f in as_completed([ex.submit(slow, i) for i in range(8)])])
END
expect 1 "$TWINBIT" bisect-pins -n 3 --rounds 0 --compare output -- "$PYTHON" job.py
matches out '^none: runs differ with all [0-9]+ pins, too'
matches out '^pin data.completion_order 8 hand-outs, order [0-9a-f]{16}: what ends first comes first; add it to --pin'
expect 0 "$TWINBIT" bisect-pins -n 3 --rounds 0 --compare output --pin strict,data.completion_order -- "$PYTHON" job.py
contains out data.completion_order
lacks out "none: "
