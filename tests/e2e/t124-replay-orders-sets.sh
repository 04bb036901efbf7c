# timeout: 120
# What asyncio's wait() returns is gone through in one order, of submission: the same in a replay; and it is a set.
need_python
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "asyncio's functions are left alone before Python 3.10"

cat >job.py <<'END'
import asyncio, time
async def slow(i):
    await asyncio.sleep((time.perf_counter_ns() * 40503 >> 8 & 0xFFFF) % 4 / 200)
    return i
async def main():
    made, junk = 0, []
    pending = set()
    while made < 60 or pending:
        while len(pending) < 6 and made < 60:
            junk.append(bytearray((time.perf_counter_ns() * 40503 >> 8 & 0xFFF)))  # addresses differ
            pending.add(asyncio.ensure_future(slow(made)))
            made += 1
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        print([t.result() for t in done], [t.get_name() for t in pending])
    ts = [asyncio.create_task(slow(i)) for i in range(30)]
    done, pending = await asyncio.wait(ts, timeout=0.008)
    print([ts.index(t) for t in done], [ts.index(t) for t in pending])
    done, _ = await asyncio.wait(ts)
    print([t.result() for t in done])
asyncio.run(main())
END
expect 0 "$TWINBIT" run --quiet --force -o a.twinbit --pin observe -- "$PYTHON" job.py
cp out first
contains out "[$(seq -s ', ' 0 29)]"
for i in 1 2 3; do
    expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
    grep -v '^replay: ' out | cmp - first || fail "the replay differs: $(diff out first)"
    lacks err "not as recorded"
done

cat >kinds.py <<'END'
import asyncio, copy, gc, weakref
async def one(i):
    return i
class Big:
    pass
async def big():
    return Big()
async def main():
    ts = [asyncio.ensure_future(one(i)) for i in range(9)]
    done, pending = await asyncio.wait(ts)
    assert isinstance(done, set) and type(done).__name__ == "set" and repr(pending) == "set()" and not pending
    assert done == set(ts) == frozenset(done) and len(done) == 9 and ts[3] in done and not hasattr(done, "__dict__")
    assert type(copy.copy(done)) is set and done.copy() == done
    other = asyncio.get_running_loop().create_future()
    for how in (lambda s: s.discard(ts[1]), lambda s: s.remove(ts[2]), lambda s: s.add(other), lambda s: s.update([other], ts[:2]),
                lambda s: s.difference_update(ts[:3]), lambda s: s.intersection_update(iter(ts[4:])), lambda s: s.clear(),
                lambda s: s.symmetric_difference_update([other, ts[0]]), lambda s: s.__ior__({other}), lambda s: s.__iand__({ts[0]}),
                lambda s: s.__isub__({ts[0]}), lambda s: s.__ixor__({ts[0], other})):
        ours, own = done.copy(), set(done)
        assert (how(ours) is ours) == (how(own) is own)
        assert ours == own and set(iter(ours)) == own and len(list(ours)) == len(own)
    for how in (lambda s: s | {other}, lambda s: s & {ts[0]}, lambda s: s - {ts[0]}, lambda s: s ^ {ts[0], other},
                lambda s: {other} | s, lambda s: set(ts[:2]) & s, lambda s: s.union([other], iter(ts)), lambda s: s.difference(ts[:4]),
                lambda s: s.intersection(iter(ts[:4])), lambda s: s.symmetric_difference([other]), lambda s: s >= {ts[0]}):
        assert how(done) == how(set(done))
    for wrong in (lambda: done | 3, lambda: done.remove(3), lambda: pending.pop(), lambda: done.update(3), lambda: hash(done)):
        try:
            wrong()
        except (TypeError, KeyError) as e:
            print(type(e).__name__, e)
    seen = set()
    while done:
        seen.add(done.pop())
    assert seen == set(ts)
    done, _ = await asyncio.wait([asyncio.ensure_future(big()) for _ in range(4)])
    refs = [weakref.ref(t.result()) for t in done]
    while done:
        done.discard(next(iter(done)))
    gc.collect()
    assert not any(r() for r in refs), "a result is held"
asyncio.run(main())
END
expect 0 "$PYTHON" kinds.py
cp out plain
for pins in observe data.completion_order; do
    expect 0 "$TWINBIT" run --quiet --force -o t.twinbit --pin $pins -- "$PYTHON" kinds.py
    cmp out plain || fail "$pins: $(diff out plain)"
done
