"""What Python, NumPy and torch draw by themselves, under the preloaded library.

usage: check_preload_python.py python|torch PINS_TOOL LIBRARY

The interpreter is $TWINBIT_PYTHON, else the project's .venv, else this one. Status 77: nothing could be tested.
"""
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Each line of what it prints is one way; with nothing pinned, all of them differ between two runs.
PYTHON = """
import os, random, secrets, socket, subprocess, sys, tempfile, threading, uuid
print('urandom', os.urandom(16).hex())
print('random', random.Random().random(), random.random(), random.SystemRandom().random())
print('uuid4', uuid.uuid4())
print('secrets', secrets.token_hex(), secrets.randbelow(1 << 60))
print('device', open('/dev/urandom', 'rb').read(16).hex(), os.read(os.open('/dev/random', os.O_RDONLY), 8).hex())
print('hash', hash('a string'), list({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'k'}))
name = tempfile.mkdtemp(); os.rmdir(name)
print('tempfile', name, tempfile.mktemp())
got = {}
def draw(i):
    got[i] = os.urandom(8).hex()
threads = [threading.Thread(target=draw, args=(i,)) for i in range(6)]
[t.start() for t in threads]; [t.join() for t in threads]
print('threads', sorted(got.items()))
def child(i):
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, os.urandom(8).hex().encode()); os._exit(0)
    os.wait(); return os.read(r, 16).decode()
print('fork', child(0), child(1))
code = 'import os, random; print(os.urandom(4).hex(), random.random())'
many = [subprocess.Popen([sys.executable, '-S', '-c', code], stdout=subprocess.PIPE, text=True) for i in range(4)]
print('subprocess', [p.communicate()[0].strip() for p in many])
print('close_fds=False', subprocess.check_output([sys.executable, '-S', '-c', code], close_fds=False, text=True).strip())
print('shell', subprocess.check_output('mktemp -u', shell=True, text=True).strip())
"""

SPAWNED = """
import multiprocessing as mp, os, random
def work(i):
    return i, os.urandom(8).hex(), random.random()
if __name__ == '__main__':
    for method in 'spawn', 'forkserver':
        with mp.get_context(method).Pool(1) as pool:
            print(method, pool.map(work, range(3)))
"""

NUMPY = """
import numpy as np
print('default_rng', np.random.default_rng().integers(1 << 60), np.random.RandomState().randint(1 << 30))
print('SeedSequence', np.random.SeedSequence().entropy)
print('MT19937', np.random.Generator(np.random.MT19937()).integers(1 << 60))
"""

TORCH = """
import numpy as np
import torch
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return torch.tensor([i, int(np.random.default_rng().integers(1 << 50))])
def main():
    print('seed', torch.seed(), torch.Generator().seed())
    torch.seed()
    print('rand', torch.rand(2).tolist())
    for method in 'fork', 'spawn':
        torch.seed()
        loader = DataLoader(Data(), batch_size=2, shuffle=True, num_workers=2 if method == 'fork' else 1,
                            multiprocessing_context=method)
        print('DataLoader', method, [batch.tolist() for batch in loader])
if __name__ == '__main__':
    main()
"""

LISTDIR = """
import glob, os, pathlib, sys
d = sys.argv[1]
for got in (os.listdir(d), [e.name for e in os.scandir(d)], [p.name for p in pathlib.Path(d).iterdir()],
            [os.path.basename(p) for p in glob.glob(d + '/*')], next(os.walk(d))[2], os.listdir(os.open(d, 0))):
    assert got == sorted(got, key=os.fsencode), got
    assert len(got) == 40
print('sorted')
"""


def interpreter():
    for p in (os.environ.get("TWINBIT_PYTHON"), TOP + "/.venv/bin/python", sys.executable):
        if p == "none":
            skip("TWINBIT_PYTHON=none")
        if p and shutil.which(p):
            return shutil.which(p)
    return sys.executable


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


class Runs:
    def __init__(self, tool, library, python, top):
        self.tool, self.library, self.python, self.top, self.count = tool, library, python, top, 0

    def run(self, script, mode, seed=7, replayed=None, args=()):
        """Runs the text of a script; gives what it printed and the run's folder."""
        self.count += 1
        folder = os.path.join(self.top, "run%d" % self.count)
        os.mkdir(folder)
        subprocess.run([self.tool, "write", folder, mode, str(seed)] + ([replayed] if replayed else []), check=True)
        path = os.path.join(self.top, "script", "job.py")  # Python lists the script's folder: nothing else is in it
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(script)
        env = dict(os.environ, TWINBIT_PINS=folder + "/config", LD_PRELOAD=self.library)
        for name in "PYTHONHASHSEED", "RANK", "LOCAL_RANK":
            env.pop(name, None)
        done = subprocess.run([self.python, path, *args], env=env, stdout=subprocess.PIPE, text=True, timeout=200)
        assert done.returncode == 0, (script, done.returncode, done.stdout)
        return done.stdout, folder

    def answers(self, folder):
        text = subprocess.run([self.tool, "dump", folder], check=True, stdout=subprocess.PIPE, text=True).stdout
        return [line.split("\t") for line in text.splitlines()]


def check(runs, script, replay=True):
    """Equal for a seed; every line differs for two seeds, and in two runs that are only observed."""
    a, b = runs.run(script, "pin")[0], runs.run(script, "pin")[0]
    assert a == b, "two runs of one seed differ:\n%s\n%s" % (a, b)
    other = runs.run(script, "pin", 8)[0]
    seen, folder = runs.run(script, "log")
    assert len(a.splitlines()) == len(other.splitlines()) == len(seen.splitlines()) > 0
    for x, y, z in zip(a.splitlines(), other.splitlines(), seen.splitlines()):
        assert x != y and x != z, "the same for another seed, or unpinned: " + x
    if replay:
        again, folder = runs.run(script, "replay", 9, folder)
        assert again == seen, "the replay differs:\n%s\n%s" % (seen, again)
        missing = [r for r in runs.answers(folder) if int(r[2], 16) & 8]
        assert not missing, missing
    print("\n".join(line.split()[0] + ": pinned" + (" and replayed" if replay else "") for line in a.splitlines()))


def check_listing(runs):
    folder = os.path.join(runs.top, "names")
    os.mkdir(folder)
    for i in range(40):
        open(os.path.join(folder, "%x" % (i * 40503 % 65536)), "w").close()
    assert runs.run(LISTDIR, "pin", args=(folder,))[0] == "sorted\n"
    print("listdir: sorted")


def main():
    what, tool, library = sys.argv[1:]
    python = interpreter()
    has = lambda m: subprocess.run([python, "-c", "import " + m], stderr=subprocess.DEVNULL).returncode == 0
    if what == "torch" and not has("torch"):
        skip("no torch in '%s'" % python)
    with tempfile.TemporaryDirectory() as top:
        runs = Runs(tool, library, python, top)
        if what == "torch":
            check(runs, TORCH)
            return
        check(runs, PYTHON)
        check(runs, SPAWNED)
        check_listing(runs)
        if has("numpy"):
            check(runs, NUMPY)


main()
