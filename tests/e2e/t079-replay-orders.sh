# timeout: 300
# Orders of what ends by itself: as_completed, wait, imap_unordered. Written down under observe, the same in a replay, by
# submission under @sort; what the job sees is Python's own; a job that was changed is told where, and does not hang.
need_python
run() { "$TWINBIT" run --quiet --force "$@"; }
pin() { "$TWINBIT" show "$1" pins | grep -E "^[a-z]+ +data.completion_order " >pin || fail "no row in $1"; }

# threads, processes, errors, cancelled ones, time-outs, work that is submitted from the loop, loops that are left early
cat >job.py <<'END'
import concurrent.futures, multiprocessing, multiprocessing.pool, threading, time
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait

def slow(i):
    time.sleep((time.perf_counter_ns() * 40503 >> 8 & 0xFFFF) % 97 / 4000)
    if i % 5 == 3:
        raise ValueError(i)
    return i

def out(f):
    return "cancelled" if f.cancelled() else repr(f.exception() or f.result())

def pull(it):
    while True:
        try:
            yield it.next(0.01)
        except multiprocessing.TimeoutError:
            yield "late"
        except ValueError as e:
            yield repr(e)
        except StopIteration:
            return

if __name__ == "__main__":
    with ThreadPoolExecutor(4) as ex:
        fs = [ex.submit(slow, i) for i in range(12)]
        fs[11].cancel()
        print([(fs.index(f), out(f)) for f in as_completed(fs)])
        more = []
        for f in as_completed([ex.submit(slow, i) for i in (0, 1, 2)]):
            more.append(ex.submit(slow, f.result() + 5))
            print([out(g) for g in as_completed(more)])
        for f in as_completed({ex.submit(slow, i) for i in range(6)}):
            print(out(f))
            break
        gate = threading.Event()
        fs = [ex.submit(slow, 0), ex.submit(slow, 1), ex.submit(gate.wait)]
        try:
            for f in as_completed(fs, timeout=0.5):
                print(out(f))
        except concurrent.futures.TimeoutError as e:
            print("late:", e)
        print([len(s) for s in wait(fs, timeout=0.01)])
        gate.set()
        print([len(s) for s in wait([ex.submit(slow, i) for i in (1, 2, 3, 4, 5)], return_when=FIRST_EXCEPTION)])
        left = {ex.submit(slow, i) for i in range(10, 20)}
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            print([out(f) for f in done])
    with ProcessPoolExecutor(2) as ex:
        print([out(f) for f in as_completed([ex.submit(slow, i) for i in range(8)])])
    with multiprocessing.pool.Pool(3) as p:
        print(list(pull(p.imap_unordered(slow, range(9)))))
    with multiprocessing.pool.ThreadPool(3) as p:
        print(list(p.imap_unordered(abs, range(9), chunksize=2)))
END
replayed "$PYTHON" job.py
pin a.twinbit
matches pin '^read .* observed [0-9]+ hand-outs, order [0-9a-f]{16} '
order=$(grep -o "order [0-9a-f]\{16\}" pin)
pin c.twinbit
contains pin "$order"
pin b.twinbit
lacks pin "$order"
expect 0 "$TWINBIT" replay --force -o d.twinbit c.twinbit # a replay can be replayed
grep -v '^replay: ' out | cmp - first || fail "the replay of a replay differs"
expect 0 run -o s.twinbit --pin strict -- "$PYTHON" job.py # strict writes it down as well
cp out strict
expect 0 "$TWINBIT" replay --force -o c.twinbit s.twinbit
grep -v '^replay: ' out | cmp - strict || fail "the replay of a run under strict differs"

# sorted by submission, asked for alone
cat >sorted.py <<'END'
from job import *
with ThreadPoolExecutor(4) as ex:
    print([out(f) for f in as_completed([ex.submit(slow, i) for i in range(10)])])
    left = {ex.submit(slow, i) for i in range(10)}
    while left:
        done, left = wait(left, return_when=FIRST_COMPLETED)
        print(*[out(f) for f in done])
    fs = [ex.submit(slow, i) for i in range(10)]
    print(sorted(fs.index(f) for f in wait(fs, return_when=FIRST_EXCEPTION).done))
    gate = threading.Event()
    fs = [ex.submit(gate.wait), ex.submit(slow, 1)]
    try:
        list(as_completed(fs, timeout=0.3))
    except concurrent.futures.TimeoutError as e:
        print(e)
    gate.set()
with multiprocessing.pool.ThreadPool(3) as p:
    print(list(pull(p.imap_unordered(slow, [0, 1, 2, 3, 4]))).count("late") >= 0, list(p.imap_unordered(abs, range(9))))
END
cat >want <<'END'
['0', '1', '2', 'ValueError(3)', '4', '5', '6', '7', 'ValueError(8)', '9']
0
1
2
ValueError(3)
4
5
6
7
ValueError(8)
9
[0, 1, 2, 3]
2 (of 2) futures unfinished
True [0, 1, 2, 3, 4, 5, 6, 7, 8]
END
expect 0 run -o s.twinbit --pin data.completion_order -- "$PYTHON" sorted.py
cmp out want || fail "not in the order of submission: $(cat out)"
pin s.twinbit
matches pin '^held .* requested @sort, observed '
expect 0 "$TWINBIT" pins data.completion_order
lacks out "neither written down"

# functions and types are Python's own; what was handed out is not held
cat >kinds.py <<'END'
import concurrent.futures, gc, inspect, pickle, weakref
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
assert inspect.isgeneratorfunction(as_completed) and str(inspect.signature(as_completed)) == "(fs, timeout=None)"
assert str(inspect.signature(wait)).startswith("(fs, timeout=None, return_when=")
assert pickle.loads(pickle.dumps(as_completed)) is as_completed and pickle.loads(pickle.dumps(wait)) is wait
assert concurrent.futures._base.wait is wait and concurrent.futures.as_completed is as_completed
f = Future()
f.set_result(1)
assert wait([f, f]) == ({f}, set()) and type(wait([f])) is concurrent.futures._base.DoneAndNotDoneFutures
assert type(wait([f]).done) is set and wait([]) == (set(), set()) and list(as_completed([])) == []
assert f in {f} and Future() not in {f} and len({Future() for _ in range(100)}) == 100
for call in (wait, lambda fs: list(as_completed(fs))):
    try:
        call([1])
        raise SystemExit("1 is no future")
    except AttributeError:
        pass
class Big:
    pass
with ThreadPoolExecutor(2) as ex:
    for f in as_completed(ex.submit(Big) for _ in range(4)):
        ref = weakref.ref(f.result())
        del f
        wait([ex.submit(int)])
        gc.collect()
        assert ref() is None, "a result is held"
END
for pins in observe strict data.completion_order; do
    expect 0 run -o t.twinbit --pin $pins -- "$PYTHON" kinds.py
    expect 0 "$TWINBIT" replay --force -o u.twinbit t.twinbit
    lacks err "not as recorded"
done

# the job has changed: more work; a future that waits for what the loop does with another one
cat >changed.py <<'END'
import multiprocessing.pool, sys, threading, time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
how = sys.argv[1] if len(sys.argv) > 1 else ""
gate = threading.Event()
def work(i):
    if i == 0:
        time.sleep(0.3)
    if i == 2 and how == "gate":
        gate.wait()
    return i
work_for = [2, 0, 1] + [9] * (how == "more")
with ThreadPoolExecutor(8) as ex:
    for k in range(2):
        gate.clear()
        for f in as_completed([ex.submit(work, i) for i in work_for]):
            if f.result() == 0:
                gate.set()
    gate.clear()
    left = {ex.submit(work, i) for i in work_for}
    while left:
        done, left = wait(left, return_when=FIRST_COMPLETED)
        if any(f.result() == 0 for f in done):
            gate.set()
with multiprocessing.pool.ThreadPool(4) as p:
    gate.clear()
    for i in p.imap_unordered(work, work_for):
        if i == 0:
            gate.set()
print("ended")
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" changed.py
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
lacks err "not as recorded"
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" changed.py more
contains out "ended"
matches err 'replay: [0-9]+ orders are not as recorded, the first: as_completed at changed.py:15: 3 futures then, 4 futures now'
expect 0 timeout 120 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" changed.py gate
contains out "ended"
matches err 'as_completed at changed.py:15: number [0-2] of the submitted, which came next then, did not end; others have|ThreadPoolExecutor at changed.py:12: thread [0-9], which took a task then, does not come for it; others would'

# what a process had decided when it was killed is in the log; one that the log does not have is told
expect 137 run -o k.twinbit --pin observe -- "$PYTHON" -c '
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor(2) as ex:
    for f in as_completed([ex.submit(int) for _ in range(3)]):
        f.result()
    os.kill(os.getpid(), 9)'
pin k.twinbit
contains pin "observed 3 hand-outs"
expect 0 "$TWINBIT" replay --force -o c.twinbit k.twinbit -- "$PYTHON" kinds.py
matches err 'orders are not as recorded, the first: .* at kinds.py:[0-9]+: .*'

# that there are no more results is no hand-out
expect 0 run -o t.twinbit --pin observe -- "$PYTHON" -c '
import multiprocessing.pool
with multiprocessing.pool.ThreadPool(2) as p:
    print(sorted(p.imap_unordered(abs, range(9))))'
pin t.twinbit
contains pin "observed 9 hand-outs, "
expect 0 "$TWINBIT" replay --force -o c.twinbit t.twinbit
lacks err "not as recorded"
