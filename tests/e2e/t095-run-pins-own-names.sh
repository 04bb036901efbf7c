# A job whose files have the names of Python's modules gets its own files under pins, and is not told of seeds of theirs; what
# it did not import is not there before its first line.
need_python
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

# nothing but ours, and what Python has by itself, is there at the job's first line
cat >first.py <<'END'
import sys
print(*sorted(n for n in sys.modules if n not in sys.builtin_module_names and n[0] != "_"))
END
"$PYTHON" first.py >plain
for options in "--pin strict" "--pin observe" "--pin basic --force-pins"; do
    expect 0 run $options -- "$PYTHON" first.py
    cmp out plain || fail "$options: $(diff out plain)"
done

# its own files are found, whatever of Python's has that name
mkdir names
names="sitecustomize token tokenize ast dis opcode inspect linecache bisect select selectors socket array struct random ctypes threading functools
    collections"
for name in $names; do
    mkdir "names/$name"
    echo 'def seed(a=None): return "mine", a' >"names/$name/$name.py"
    printf 'import %s, sys\nprint(%s.seed(3), %s.__file__)\n' "$name" "$name" "$name" >"names/$name/main.py"
    "$PYTHON" "names/$name/main.py" >plain 2>/dev/null || continue # Python itself needs it, or has it before the job
    expect 0 run --pin strict --force-pins -- "$PYTHON" "names/$name/main.py"
    cmp out plain || fail "its own $name: $(cat out err)"
    lacks err "pin python.random"
done
expect 0 run --pin strict -- "$PYTHON" names/random/main.py
"$TWINBIT" show t.twinbit pins >pins
matches pins '^unseen  *python\.random '

# Python's random, imported by a job with files of the names that we need: still seeded
printf 'import random, struct\nprint(random.random(), struct.seed(1))\n' >names/struct/main.py
for i in 1 2; do
    expect 0 run --pin strict -- "$PYTHON" names/struct/main.py
    cp out struct.$i
done
cmp struct.1 struct.2 || fail "random is not seeded: $(cat struct.?)"
contains struct.1 "('mine', 1)"

# children that import random after their fork draw numbers of their own
cat >forks.py <<'END'
import os
for i in range(2):
    if os.fork() == 0:
        import random
        print(random.random(), flush=True)
        os._exit(0)
    os.wait()
import random
print(random.random())
END
for i in 1 2; do
    expect 0 run --pin basic -- "$PYTHON" forks.py
    cp out forks.$i
done
cmp forks.1 forks.2 || fail "forks draw other numbers"
[ "$(sort -u forks.1 | wc -l)" -eq 3 ] || fail "forks draw the same: $(cat forks.1)"

# a seed that Python refuses is refused with pins, forced or not, and is no seed of the job's
cat >refused.py <<'END'
import random
for seed in ([1], object(), {}):
    try:
        random.seed(seed)
    except TypeError as e:
        print(str(e)[:30])
print(random.random())
END
"$PYTHON" refused.py >all
head -n 3 all >plain
for options in "--pin basic" "--pin basic --force-pins"; do
    expect 0 run $options -- "$PYTHON" refused.py
    head -n 3 out | cmp - plain || fail "$options: $(cat out)"
    lacks err "pin python.random"
    "$TWINBIT" show t.twinbit pins >pins
    lacks pins "the job asked for"
done
printf 'import random\nrandom.seed(bytearray(b"x"))\nprint(random.random())\n' >array.py
expect 0 run --pin basic -- "$PYTHON" array.py
contains err "pin python.random: the job has a value of type bytearray at array.py:2, which wins over"
expect 0 run --pin basic --force-pins -- "$PYTHON" array.py
cp out array.1
expect 0 run --pin basic -- "$PYTHON" -c 'import random; print(random.random())'
cmp out array.1 || fail "the seed was not forced: $(cat out array.1)"

# a job in a folder that is gone: its line has the whole path, and nothing is raised into it
cat >gone.py <<'END'
import os, random, tempfile
folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
random.seed(3)
END
expect 0 run --pin basic -- "$PYTHON" gone.py
matches err "pin python\.random: the job has 3 at .*/gone\.py:5, which wins over"
