# Instructions that nobody can answer, in the libraries of Python packages: one row a program, in short, and no line.
need_program gcc
need_python
[ "$(uname -m)" = x86_64 ] || skip "the job is written for x86-64"
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }
pins() { "$TWINBIT" show t.twinbit pins | grep -E "^[a-z]+ +system\.rd$1 " >pin || fail "no row of system.rd$1"; }

printf '#include <x86intrin.h>\nunsigned long long clock_of(void) { return __rdtsc(); }\n' >lib.c
printf 'int plain(void) { return 0x310f; }\n' >plain.c
mkdir -p lib/site-packages/alpha lib/site-packages/beta.libs
gcc -O1 -shared -fPIC lib.c -o lib/site-packages/alpha/one.so
cp lib/site-packages/alpha/one.so lib/site-packages/alpha/two.so
cp lib/site-packages/alpha/one.so lib/site-packages/beta.libs/libbeta.so
cp lib/site-packages/alpha/one.so lib/site-packages/gamma.abi3.so
gcc -O1 -shared -fPIC plain.c -o lib/site-packages/alpha/plain.so
cat >job.py <<'END_PY'
import ctypes, sys
for name in sys.argv[1:]:
    ctypes.CDLL(name)
END_PY

packages="lib/site-packages/alpha/one.so lib/site-packages/alpha/two.so lib/site-packages/beta.libs/libbeta.so
    lib/site-packages/gamma.abi3.so lib/site-packages/alpha/plain.so"
expect 0 run --pin strict -- "$PYTHON" job.py $packages
lacks err "by an instruction"
pins tsc
lines pin 1
matches pin 'nothing can answer an instruction: 4 in 4 files of Python packages \(alpha, beta, gamma\)  \(strict\)  \['

# the job's own come first, five of them by name
own=
for i in 1 2 3 4 5 6 7; do
    cp lib/site-packages/alpha/one.so own$i.so
    own="$own ./own$i.so"
done
expect 0 run --pin strict -- "$PYTHON" job.py $packages $own
matches err "read the CPU's counter by an instruction \(rdtsc\): 1 in own1.so \(clock_of\), .*1 in own5.so \(clock_of\), 2 in 2 files more: such values"
lacks err "alpha"
[ "$(grep -c "by an instruction" err)" -eq 1 ] || fail "more than a line: $(cat err)"
expect 0 "$TWINBIT" show t.twinbit coverage
[ "$(grep -c "instruction: " out)" -eq 1 ] || fail "more than a row: $(cat out)"
matches out "^note +11x rdtsc instruction: .*: 1 in $PWD/own1.so \(clock_of\), .*, 2 in 2 files more, 4 in 4 files of Python packages \(alpha, beta, gamma\): values are real"

# interpreters that are forked or started have no rows of their own; one that is ended by os._exit() has what it began with
cat >children.py <<'END_PY'
import ctypes, multiprocessing, os, subprocess, sys
def work(_):
    return 1
if __name__ == "__main__":
    ctypes.CDLL("./own1.so")
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert sum(pool.map(work, range(4))) == 4
    subprocess.run([sys.executable, "-c", "import os; os._exit(0)"], check=True)
END_PY
expect 0 run --pin strict -- "$PYTHON" children.py
pins tsc
lines pin 1
contains pin "1 in own1.so (clock_of)"
