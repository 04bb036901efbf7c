# timeout: 120
# Errors that pass the functions around as_completed(), wait(), executors, pools, asyncio and generators have Python's own frames
# and none of ours.
need_python
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "Python 3.11 and later"

cat >job.py <<'END_OF_JOB'
import asyncio, os, random, sys, threading, time, traceback
import concurrent.futures as cf
import multiprocessing.pool


async def forever():
    await asyncio.sleep(100)


async def some():
    await asyncio.wait({asyncio.ensure_future(forever())}, return_when="FIRST_COMPLETED")


async def late():
    await asyncio.wait_for(some(), 0.05)


async def ends():
    for c in asyncio.as_completed([forever()], timeout=0.05):
        await c


async def of(x):
    for c in asyncio.as_completed(x):
        await c


def fails(x):
    raise ValueError(x)


def unordered():
    with multiprocessing.pool.ThreadPool(1) as p:
        list(p.imap_unordered(fails, [1]))


def no_time():
    with multiprocessing.pool.ThreadPool(1) as p:
        p.imap_unordered(time.sleep, [0.3]).next(0.01)


def thrown():
    it = cf.as_completed(pending[:] + done)
    next(it)
    it.throw(KeyError("thrown"))


def no_thread():
    def start(self):
        raise RuntimeError("can't start new thread")
    before, threading.Thread.start = threading.Thread.start, start
    try:
        cf.ThreadPoolExecutor(1).submit(int)
    finally:
        threading.Thread.start = before


done, pending = [cf.Future()], [cf.Future(), cf.Future()] # done is the first by submission, too
done[0].set_result(1)
for wrong in (thrown,) if os.environ.get("THROWN") else (lambda: cf.wait(3), lambda: cf.wait([3]), lambda: list(cf.as_completed([3])), lambda: list(cf.as_completed(3)),
              lambda: cf.ThreadPoolExecutor(0), lambda: list(cf.as_completed(pending, timeout=0.01)),
              lambda: cf.wait(pending, 0.01, "no"), lambda: asyncio.run(late()), lambda: asyncio.run(asyncio.wait(3)),
              lambda: asyncio.run(asyncio.wait([])), lambda: asyncio.run(ends()), lambda: asyncio.run(of(3)), unordered, no_time,
              no_thread, lambda: multiprocessing.pool.ThreadPool(0), lambda: random.Random(1).seed({}),
              lambda: random.Random().setstate(3)):
    try:
        wrong()
        print("nothing was raised", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
END_OF_JOB
expect 0 "$PYTHON" job.py
sed 's/0x[0-9a-f]*/0x/g' err >plain
lacks plain "nothing was raised"
for pins in observe data.completion_order strict,data.worker_generator; do
    expect 0 "$TWINBIT" run --quiet --force -o t.twinbit --pin $pins -- "$PYTHON" job.py
    lacks err /_order
    lacks err _generators.py
    sed 's/0x[0-9a-f]*/0x/g' err >seen
    [ $pins = data.completion_order ] || # its time-outs are raised by us: no frame is there
        diff plain seen || fail "$pins: the tracebacks differ"
    THROWN=1 expect 0 "$TWINBIT" run --quiet --force -o u.twinbit --pin $pins -- "$PYTHON" job.py # passes a generator of ours
    lacks err /_order
    expect 0 "$TWINBIT" replay --force -o u.twinbit t.twinbit
    for ours in /_order _decisions.py _generators.py; do
        lacks err $ours
    done
done

"$PYTHON" -c 'import torch' 2>/dev/null || exit 0
cat >data.py <<'END_OF_JOB'
import sys, traceback
import torch
from torch.utils.data import DataLoader, DistributedSampler


class Broken:
    def __len__(self):
        return 2

    def __iter__(self):
        yield [0]
        raise ValueError("broken")


class Short(DistributedSampler):
    def __iter__(self):
        self.dataset = 3
        return super().__iter__()


for wrong in (lambda: list(DataLoader([1, 2], batch_sampler=Broken())), lambda: list(Short([1, 2], 1, 0))):
    try:
        wrong()
        print("nothing was raised", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
END_OF_JOB
expect 0 "$PYTHON" data.py
cp err plain
expect 0 "$TWINBIT" run --quiet --force -o t.twinbit --pin observe -- "$PYTHON" data.py
diff plain err || fail "the tracebacks of loaders differ"
