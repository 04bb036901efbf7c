# timeout: 300
# Which thread of a ThreadPoolExecutor takes which task, and orders inside of its tasks: written down, the same in a replay; a job
# that was changed is told, and does not hang; what is not followed is told.
need_python
run() { "$TWINBIT" run --quiet --force "$@"; }

# thread-local state, executors in executors, threads that are made late, errors, an executor that is shut down with work in it
cat >job.py <<'END'
import random, sys, threading, time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait

local = threading.local()
made = iter(range(1000))

def begin():
    local.rng = random.Random(next(made))

def odd():
    time.sleep((time.perf_counter_ns() * 40503 >> 8 & 0xFFFF) % 97 / 10000)

def draw(i):
    odd()
    if i % 9 == 7:
        raise ValueError(local.rng.random())
    return round(local.rng.random(), 6)

def leaf(i):
    odd()
    return i

def nested(i):
    odd()
    with ThreadPoolExecutor(3) as inner:
        got = [f.result() for f in as_completed([inner.submit(leaf, k) for k in range(4)])]
        left = {inner.submit(leaf, k) for k in range(4)}
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            got += sorted(f.result() for f in done)
    return got

def out(f):
    return repr(f.exception() or f.result())

if __name__ == "__main__":
    with ThreadPoolExecutor(4, initializer=begin) as ex:
        fs = []
        for i in range(40):
            fs.append(ex.submit(draw, i))
            if i % 10 == 9:
                odd()
        print([out(f) for f in fs], len(ex._threads))
    with ThreadPoolExecutor(4) as ex:
        print(list(ex.map(nested, range(12))))
    ex = ThreadPoolExecutor(2, initializer=begin)
    fs = [ex.submit(draw, i) for i in range(6)]
    fs[0].result()
    ex.shutdown(**{"cancel_futures": True} if sys.version_info >= (3, 9) else {})
    print("ended")
END
replayed "$PYTHON" job.py
pin() { "$TWINBIT" show "$1" pins | grep -E "^[a-z]+ +data.pool_threads " >pin || fail "no row in $1"; }
pin a.twinbit
matches pin '^read .* observed [0-9]+ tasks, order [0-9a-f]{16}'
expect 0 "$TWINBIT" replay --force -o d.twinbit c.twinbit # a replay can be replayed
grep -v '^replay: ' out | cmp - first || fail "the replay of a replay differs"

# the job has changed: fewer threads; more tasks; a task that waits for one that its own thread took behind it
cat >changed.py <<'END'
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
how = sys.argv[1] if len(sys.argv) > 1 else ""
first, second = threading.Event(), threading.Event()
def task(i):
    if i == 0 and how == "gate":
        second.wait()
    if i == 0:
        time.sleep(0.2)
        first.set()
    if i == 1:
        first.wait(0 if how == "gate" else None)
        time.sleep(0 if how == "gate" else 0.3)
    if i == 2:
        second.set()
    return i
with ThreadPoolExecutor(1 if how == "fewer" else 2) as ex:
    fs = [ex.submit(task, i) for i in range(3 + 3 * (how == "more"))]
    print([f.result() for f in fs], "ended")
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" changed.py
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
lacks err "not as recorded"
expect 0 timeout 60 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" changed.py fewer
contains out "ended"
matches err 'ThreadPoolExecutor at changed.py:17: 2 threads then, 1 threads now'
expect 0 timeout 60 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" changed.py more
contains out "ended"
matches err 'ThreadPoolExecutor at changed.py:17: a task waits that no thread took then'
expect 0 timeout 60 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" changed.py gate
contains out "ended"
matches err 'ThreadPoolExecutor at changed.py:17: thread 0, which took a task then, does not come for it; others would'

# the executor is Python's own for the job; a result or an error is not held; an initializer that fails ends all tasks
cat >kinds.py <<'END'
import gc, inspect, logging, weakref
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
logging.disable()
assert str(inspect.signature(ThreadPoolExecutor)) == \
    "(max_workers=None, thread_name_prefix='', initializer=None, initargs=())" or "ctxkwargs" in str(inspect.signature(ThreadPoolExecutor))
class Big(Exception):
    pass
def fails():
    raise Big
with ThreadPoolExecutor(2) as ex:
    gc.disable()
    for task in (Big, fails):
        f = ex.submit(task)
        ref = weakref.ref(f.exception() or f.result())
        ex.submit(int).result()
        ex.submit(int).result()
        del f
        print("held" if ref() else "free")
def bad():
    raise Big
ex = ThreadPoolExecutor(2, initializer=bad)
for _ in range(3):
    try:
        ex.submit(int).result()
    except BrokenExecutor:
        print("broken")
END
expect 0 "$PYTHON" kinds.py
cp out plain
for pins in observe strict; do
    expect 0 run -o t.twinbit --pin $pins -- "$PYTHON" kinds.py
    cmp out plain || fail "$pins: $(diff out plain)"
    expect 0 timeout 60 "$TWINBIT" replay --force -o u.twinbit t.twinbit
    grep -v '^replay: ' out | cmp - plain || fail "the replay of $pins: $(diff out plain)"
done

# pools of multiprocessing are not followed, and the row says so
expect 0 run -o t.twinbit --pin observe -- "$PYTHON" -c '
import multiprocessing.pool
with multiprocessing.pool.ThreadPool(2) as p:
    print(p.map(abs, range(9)))'
pin t.twinbit
contains pin "not followed: workers of 1 pools of multiprocessing"
