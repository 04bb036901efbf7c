# timeout: 300
# The order of tasks inside one thread of a ThreadPoolExecutor, where several threads or tasks submit: the same in a replay, part of
# the row's hash, and told where it cannot be followed. The executor is left as Python made it.
need_python
run() { "$TWINBIT" run --quiet --force "$@"; }
order() { "$TWINBIT" show "$1" pins | grep -oE 'data.pool_threads +observed [0-9]+ tasks, order [0-9a-f]{16}' || fail "no row in $1"; }

cat >job.py <<'END'
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
local = threading.local()
def odd():
    time.sleep((time.perf_counter_ns() * 40503 >> 8 & 0xFFFF) % 97 / 20000)
def leaf(i):
    local.turn = getattr(local, "turn", 0) + 1
    odd()
    return i, threading.current_thread().name[-1], local.turn
def parent(i):
    odd()
    return [ex.submit(leaf, (i, k)) for k in range(3)]
ex = ThreadPoolExecutor(4)
if sys.argv[1] == "tasks":
    for f in [ex.submit(parent, i) for i in range(12)]:
        print([g.result() for g in f.result()])
else:
    got = {}
    threads = [threading.Thread(target=lambda k=k: got.update({k: [ex.submit(leaf, (k, i)) for i in range(12)]})) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(3):
        print([f.result() for f in got[k]])
END
for how in tasks threads; do
    expect 0 run -o a.twinbit --pin observe -- "$PYTHON" job.py $how
    cp out first
    expect 0 run -o b.twinbit --pin observe -- "$PYTHON" job.py $how
    cmp -s first out && fail "$how: two runs have one order"
    for i in 1 2 3; do
        expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
        grep -v '^replay: ' out | cmp - first || fail "$how: the replay differs: $(diff out first)"
        lacks err "not as recorded"
    done
    [ "$(order a.twinbit)" = "$(order c.twinbit)" ] || fail "$how: the replay has another order"
    [ "$(order a.twinbit)" != "$(order b.twinbit)" ] || fail "$how: two orders have one hash"
done

# the same tasks in the same thread, in two orders
cat >turns.py <<'END'
import sys, threading
from concurrent.futures import ThreadPoolExecutor
turn = [threading.Event(), threading.Event(), threading.Event()]
got = []
how = sys.argv[1]
def submit(k, at):
    turn[at].wait()
    if how != "missing" or k:
        ex.submit(got.append, k)
    if at < 1:
        turn[at + 1].set()
ex = ThreadPoolExecutor(1)
threads = [threading.Thread(target=submit, args=(k, k if how != "swapped" else 1 - k)) for k in range(2)]
turn[0].set()
for t in threads:
    t.start()
for t in threads:
    t.join()
ex.shutdown()
print(got)
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" turns.py plain
contains out "[0, 1]"
expect 0 run -o b.twinbit --pin observe -- "$PYTHON" turns.py swapped
contains out "[1, 0]"
[ "$(order a.twinbit)" != "$(order b.twinbit)" ] || fail "two orders have one hash"
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" turns.py swapped
contains out "[0, 1]"
lacks err "not as recorded"
expect 0 timeout 60 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" turns.py missing
contains out "[1]"
matches err 'ThreadPoolExecutor at turns.py:12: thread 0 is to take a task as its number 2, as then, and number 1 was not submitted'

# nothing is put on an executor: one that refuses other attributes works, and has those that Python gave it
cat >strict.py <<'END'
from concurrent.futures import ThreadPoolExecutor
plain = set("""_max_workers _work_queue _idle_semaphore _threads _broken _shutdown _shutdown_lock _thread_name_prefix _initializer
    _initargs _create_worker_context _resolve_work_item_task""".split())
class Strict(ThreadPoolExecutor):
    def __setattr__(self, name, value):
        if name not in plain:
            raise AttributeError(name)
        super().__setattr__(name, value)
with Strict(2) as ex:
    print(ex.submit(pow, 2, 5).result(), sorted(vars(ex)))
END
expect 0 "$PYTHON" strict.py
cp out plain
expect 0 run -o t.twinbit --pin observe -- "$PYTHON" strict.py
cmp out plain || fail "the executor is another: $(diff out plain)"
expect 0 "$TWINBIT" replay --force -o u.twinbit t.twinbit
grep -v '^replay: ' out | cmp - plain || fail "the executor is another in a replay: $(diff out plain)"

# a job that was changed waits for what came first then some times, not in each of many rounds
cat >rounds.py <<'END'
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor, as_completed
ex = ThreadPoolExecutor(8)
began = time.monotonic()
for _ in range(30):
    gates = [threading.Event() for _ in range(3)]
    def task(i):
        if len(sys.argv) == 1:
            time.sleep(0.005 * (3 - i))
        elif i:
            gates[i - 1].wait()
        return i
    for f in as_completed([ex.submit(task, i) for i in range(3)]):
        gates[f.result()].set()
print("soon" if time.monotonic() - began < 25 else "late")
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" rounds.py
expect 0 timeout 100 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" rounds.py gates
contains out "soon"
matches err '[23][0-9] orders are not as recorded, the first: as_completed at rounds.py:13: number 2 of the submitted'
