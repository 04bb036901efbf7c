# timeout: 300
# Orders of asyncio's as_completed() and wait(): written down under observe, the same in a replay, by submission under @sort; what
# the job sees is Python's own; a job that was changed is told where, and does not hang.
need_python
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "asyncio's functions are left alone before Python 3.10"
run() { "$TWINBIT" run --quiet --force "$@"; }

cat >job.py <<'END'
import asyncio, time

def odd():
    return (time.perf_counter_ns() * 40503 >> 8 & 0xFFFF) % 97 / 3000

async def slow(i):
    await asyncio.sleep(odd())
    if i % 5 == 3:
        raise ValueError(i)
    return i

async def out(c):
    try:
        return repr(await c)
    except (ValueError, asyncio.CancelledError, asyncio.TimeoutError) as e:
        return type(e).__name__ + str(e)

async def inner(k):
    return [await out(c) for c in asyncio.as_completed([slow(k + i) for i in range(4)])]

async def main():
    print("coroutines", [await out(c) for c in asyncio.as_completed([slow(i) for i in range(12)])])
    tasks = [asyncio.create_task(slow(i)) for i in range(8)]
    tasks[5].cancel()
    print("tasks", [await out(c) for c in asyncio.as_completed(set(tasks))])
    print("at once", await asyncio.gather(*map(out, asyncio.as_completed([slow(i) for i in range(8)]))))
    print("nested", await asyncio.gather(*(inner(k) for k in (10, 20, 30))))
    for c in asyncio.as_completed([slow(i) for i in range(10, 16)]):
        print("left early", await out(c))
        break
    left = {asyncio.create_task(slow(i)) for i in range(20, 30)}
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        print("wait", sorted([await out(t) for t in done]))
    left = [asyncio.ensure_future(slow(i)) for i in range(12)]
    done, left = await asyncio.wait(left, return_when=asyncio.FIRST_EXCEPTION)
    print("exception", len(done))
    polls = 0
    while left:
        done, left = await asyncio.wait(left, timeout=0.004)
        polls += 1
    print("polls", polls)
    gate = asyncio.Event()
    print("late", [await out(c) for c in asyncio.as_completed([gate.wait(), slow(1), slow(2)], timeout=0.3)])
    try:
        await asyncio.wait_for(asyncio.wait([asyncio.ensure_future(gate.wait())], return_when=asyncio.FIRST_COMPLETED), 0.05)
    except asyncio.TimeoutError:
        print("cancelled")
    gate.set()

asyncio.run(main())
END
replayed "$PYTHON" job.py
"$TWINBIT" show a.twinbit pins >pins
matches pins '^read .* data\.completion_order .* observed [0-9]+ hand-outs, order '

cat >sorted.py <<'END'
import asyncio
from job import out, slow
async def main():
    print([await out(c) for c in asyncio.as_completed([slow(i) for i in range(8)])])
    left = {asyncio.create_task(slow(i)) for i in range(8)}
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        print([await out(t) for t in done])
asyncio.run(main())
END
sed -i 's/^asyncio.run(main())$/if __name__ == "__main__":\n    asyncio.run(main())/' job.py
expect 0 run -o s.twinbit --pin data.completion_order -- "$PYTHON" sorted.py
{
    echo "['0', '1', '2', 'ValueError3', '4', '5', '6', '7']"
    for x in 0 1 2 ValueError3 4 5 6 7; do echo "['$x']"; done
} >want
cmp out want || fail "not in the order of submission: $(cat out)"

# functions, types and errors are Python's own; what was handed out is not held
cat >kinds.py <<'END'
import asyncio, gc, inspect, pickle, sys, weakref
from asyncio import as_completed, wait
assert pickle.loads(pickle.dumps(as_completed)) is as_completed and pickle.loads(pickle.dumps(wait)) is wait
assert asyncio.tasks.wait is wait and inspect.iscoroutinefunction(wait)
assert inspect.isgeneratorfunction(as_completed) == (sys.version_info < (3, 13))
assert str(inspect.signature(as_completed)) == "(fs, *, timeout=None)"
async def error(make):
    try:
        await make()
    except Exception as e:
        return type(e).__name__, str(e)
async def of(fs):
    return [await c for c in as_completed(fs)]
class Big:
    pass
async def big():
    return Big()
async def main():
    loop = asyncio.get_running_loop()
    f = loop.create_future()
    f.set_result(1)
    assert await wait([f, f]) == ({f}, set()) and await wait([f], timeout=5) == ({f}, set())
    assert await of([f, f]) == [1] and await of([]) == [] and await of(iter([f])) == [1]
    for make in (lambda: wait([]), lambda: wait(f), lambda: wait([1], timeout=1), lambda: wait([f], return_when="no"),
                 lambda: wait(1, timeout=1), lambda: of(f), lambda: of([1]), lambda: of(1)):
        print(await error(make))
    if sys.version_info >= (3, 13):
        t = {asyncio.ensure_future(big()) for _ in range(3)}
        assert {c async for c in as_completed(t)} == t
    for c in as_completed([big() for _ in range(3)]):
        ref = weakref.ref(await c)
        del c
    del ref
    got = [weakref.ref(await c) for c in as_completed([big() for _ in range(3)])]
    gc.collect()
    assert not any(r() for r in got), "a result is held"
asyncio.run(main())
END
expect 0 "$PYTHON" kinds.py
cp out plain
for pins in observe strict data.completion_order; do
    expect 0 run -o t.twinbit --pin $pins -- "$PYTHON" kinds.py
    cmp out plain || fail "$pins: other errors: $(diff out plain)"
    expect 0 "$TWINBIT" replay --force -o u.twinbit t.twinbit
    lacks err "not as recorded"
done

# the job has changed: one that came first waits for what the loop does with another
cat >changed.py <<'END'
import asyncio, sys
how = sys.argv[1] if len(sys.argv) > 1 else ""
async def work(i, gate):
    await asyncio.sleep(0.05 * i)
    if i == 0 and how == "gate":
        await gate.wait()
    return i
async def main():
    work_for = [0, 1, 2] + [3] * (how == "more")
    gate = asyncio.Event()
    for c in asyncio.as_completed([work(i, gate) for i in work_for]):
        if await c == 1:
            gate.set()
    gate.clear()
    left = [asyncio.create_task(work(i, gate)) for i in work_for]
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if any(t.result() == 1 for t in done):
            gate.set()
asyncio.run(main())
print("ended")
END
expect 0 run -o a.twinbit --pin observe -- "$PYTHON" changed.py
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" changed.py more
contains out "ended"
matches err 'orders? (is|are) not as recorded, the first: asyncio.as_completed at changed.py:11: 3 futures then, 4 futures now'
expect 0 timeout 120 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- "$PYTHON" changed.py gate
contains out "ended"
matches err 'asyncio.as_completed at changed.py:11: number 0 of the submitted, which came next then, did not end; others have'

# a job's own asyncio/tasks.py is not touched; one without asyncio does not load it
expect 0 run -o t.twinbit --pin observe -- "$PYTHON" -c 'import sys; assert not any("asyncio" in n or "_order" in n for n in sys.modules)'

# generators that are left for the end of the interpreter close without a word
cat >left.py <<'PY'
import asyncio

async def fails():
    raise ValueError("mine")

async def main():
    print([await c for c in asyncio.as_completed([fails() for i in range(3)])])

asyncio.run(main())
PY
"$PYTHON" left.py 2>plain >/dev/null || true
contains plain "ValueError: mine"
run -o l.twinbit -- "$PYTHON" left.py 2>err >/dev/null || true
contains err "ValueError: mine"
lacks err "KeyError"
