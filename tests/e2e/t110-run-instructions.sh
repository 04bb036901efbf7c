# Instructions that nobody can answer (rdrand, rdtsc): which files of the job hold them, in which functions; never their
# bytes elsewhere.
need_program gcc
[ "$(uname -m)" = x86_64 ] || skip "the job is written for x86-64"
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }
pins() { "$TWINBIT" show t.twinbit pins | grep -E "^[a-z]+ +system\.rd$1 " >pin || fail "no row of system.rd$1"; }

cat >lib.c <<'END_C'
#include <x86intrin.h>
__attribute__((target("rdrnd,rdseed"))) unsigned NAME(void)
{
    unsigned x = 0;
    _rdrand32_step(&x);
    _rdseed32_step(&x);
    return x & 0;
}
END_C
cat >job.c <<'END_C'
#include <dlfcn.h>
#include <stdio.h>
#include <x86intrin.h>
unsigned linked(void);
__attribute__((noinline)) unsigned long long seed_of(void) { return __rdtsc() & 0; }
__attribute__((noinline)) unsigned long long twice(void) { unsigned a; return (__rdtsc() ^ __rdtscp(&a)) & 0; }
int main(int argc, char **argv)
{
    void *l = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    unsigned (*opened)(void) = l ? (unsigned (*)(void))dlsym(l, "opened") : linked;
    (void)argv;
    printf("%d\n", (int)(seed_of() + twice() + (opened ? 0 : 1)));
    return 0;
}
END_C
cat >plain.c <<'END_C'
#include <stdio.h>
const unsigned char data[] = {0x0F, 0x31, 0x0F, 0x01, 0xF9, 0x0F, 0xC7, 0xF0};
volatile unsigned sink;
int main(void)
{
    sink = 0x310F310Fu; /* the bytes of rdtsc, in another instruction */
    sink += 0xF0C70F00u + data[sink & 1];
    puts("plain");
    return 0;
}
END_C
mkdir own
gcc -O1 -shared -fPIC -DNAME=linked lib.c -o liblinked.so
gcc -O1 -shared -fPIC -DNAME=opened lib.c -o own/libopened.so
gcc -O1 job.c -o job -L. -llinked -Wl,-rpath,"$PWD" -ldl
gcc -O1 plain.c -o plain

# the program, a library that it is linked with, and one that it opens by a relative path
expect 0 run --pin strict -- ./job own/libopened.so
[ "$(cat out)" = 0 ] || fail "the job: $(cat out)"
matches err "pins: '.*/job' can draw random numbers of the CPU by an instruction \(rdrand or rdseed\): 2 in liblinked.so \(linked\), 2 in libopened.so \(opened\): such values are real: nothing can answer it"
matches err "pins: '.*/job' can read the CPU's counter by an instruction \(rdtsc\): 3 in job \(seed_of, twice\): "
pins rand
matches pin '^unseen .*requested @seed, observed real, nothing can answer an instruction: 2 in liblinked.so \(linked\), 2 in libopened.so \(opened\)  \(strict\)  \[job\]$'
pins tsc
matches pin '^read .* observed real, nothing can answer an instruction: 3 in job \(seed_of, twice\)  \(strict\)  \[job\]$'
lines pin 1
expect 0 "$TWINBIT" show t.twinbit coverage
matches out "^note +4x rdrand or rdseed instruction: .*/job: 2 in $PWD/liblinked.so \(linked\), 2 in $PWD/own/libopened.so \(opened\): values are real: nothing can answer an instruction"
matches out "^note +3x rdtsc instruction: .*/job: 3 in job \(seed_of, twice\): values are real"

# once more: the same rows, and no difference for diff
cp t.twinbit first.twinbit
"$TWINBIT" show first.twinbit pins | grep system.rd >first
expect 0 run --quiet --pin strict -- ./job own/libopened.so
"$TWINBIT" show t.twinbit pins | grep system.rd | cmp first - || fail "two runs have other rows"
"$TWINBIT" diff first.twinbit t.twinbit >out || true
lacks out "instruction"
lacks out "system.rd"

# their bytes in numbers and in data are none
expect 0 run --pin strict -- ./plain
lacks err "by an instruction"
pins tsc
matches pin 'observed no such instruction in 1 file  \(strict\)  \[the job\]$'
"$TWINBIT" show t.twinbit pins | grep -q '^unseen *system.rdrand' || fail "the row of system.rdrand"
expect 0 "$TWINBIT" show t.twinbit coverage
lacks out "instruction"

# other profiles; nobody asks
expect 0 run --pin basic -- ./job
contains err "can read the CPU's counter"
pins tsc
matches pin '3 in job \(seed_of, twice\)  \(basic\)'
expect 0 run --pin observe -- ./job
pins rand
matches pin '^read .*2 in liblinked.so \(linked\)  \(observe\)'
expect 0 run -- ./job
lacks err "by an instruction"
"$TWINBIT" show t.twinbit pins | grep -q 'nothing can answer' && fail "nobody asked"
expect 0 "$TWINBIT" show t.twinbit coverage
lacks out "instruction"

# children that live a millisecond have a row each, one for the same program; one with the environment cut is looked at, too
cp job other
expect 0 run --pin strict -- sh -c './job; ./job; env -i ./other; ./plain'
pins tsc
lines pin 2
contains pin "[job]"
contains pin "3 in other (seed_of, twice)"
if gcc -O1 -static plain.c -o static_plain && gcc -O1 -static -DNAME=linked lib.c job.c -o static_job 2>/dev/null; then
    expect 0 run --pin strict -- sh -c './static_job; ./static_plain'
    pins tsc
    lines pin 1 # what libc itself has is not told
    contains pin "3 in static_job (seed_of, twice)"
fi

# stripped: no names of functions; gone: it cannot be looked into, which is told
strip job
expect 0 run --pin strict -- ./job
matches err "read the CPU's counter by an instruction \(rdtsc\): 3 in job: "
expect 0 run --pin strict -- sh -c 'cp plain gone; ./gone; rm gone'
pins tsc
matches pin 'no such instruction in [0-9]+ files?; 1 not looked into'
expect 0 "$TWINBIT" show t.twinbit coverage
matches out '^note +1x instructions: files not looked into: they cannot be read any more'

# a library that is closed again, or left behind by _exit(), or opened in a child; abort() leaves no list
cat >ends.c <<'END_C'
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    pid_t child = argc > 2 && !strcmp(argv[2], "fork") ? fork() : 0;
    if (child > 0)
        return waitpid(child, NULL, 0) != child;
    void *l = dlopen(argv[1], RTLD_NOW);
    unsigned (*opened)(void) = l ? (unsigned (*)(void))dlsym(l, "opened") : NULL;
    if (!opened || opened() != 0)
        return 1;
    if (argc > 2 && !strcmp(argv[2], "close"))
        dlclose(l);
    if (argc > 2 && !strcmp(argv[2], "abort"))
        abort();
    _exit(0);
}
END_C
gcc -O1 ends.c -o ends -ldl
for how in "" close fork; do
    expect 0 run --pin strict -- ./ends own/libopened.so $how
    pins rand
    matches pin 'nothing can answer an instruction: 2 in libopened.so \(opened\)  \(strict\)  \[ends\]$'
done
expect 134 run --pin strict -- ./ends own/libopened.so abort
pins tsc
matches pin "no such instruction in 1 file, of those known at a process's start  \(strict\)"
expect 0 "$TWINBIT" show t.twinbit coverage
matches out '^note +1x instructions: files of processes not known at their end: killed'

# the loader called by name: the program itself is looked into
loader=$(readelf -p .interp other | grep -o '/[^ ]*ld[^ ]*')
expect 0 run --pin strict -- "$loader" --library-path . ./other
pins tsc
matches pin '3 in other \(seed_of, twice\)  \(strict\)  \[other\]$'

# nothing was looked into: no all-clear
cat >none.c <<'END_C'
#include <unistd.h>
int main(void) { return unlink("none"); }
END_C
gcc -O1 none.c -o none
expect 0 run --pin strict -- ./none
pins tsc
matches pin "not known: no file of the job's was looked into; 1 not looked into  \(strict\)"

# more bytes that look like one than are looked at: what was found until then
cat >many.c <<'END_C'
#include <x86intrin.h>
__attribute__((noinline)) unsigned long long first(void) { return __rdtsc() & 0; }
__asm__(".text\n.rept 1100000\n addl $0x310f, %eax\n.endr\n ret\n");
int main(void) { return (int)first(); }
END_C
gcc -O0 -fno-toplevel-reorder many.c -o many
expect 0 run --pin strict -- ./many
pins tsc
matches pin 'real, nothing can answer an instruction: at least 1 in many \(first\)'
expect 0 "$TWINBIT" show t.twinbit coverage
matches out '^note +1x instructions: files looked into in part: limits of a file: 1048576 places'

# pins --verify has a line for both
export TMPDIR=$PWD/tmp
mkdir tmp
"$TWINBIT" pins --verify -- ./job >out 2>err || true
matches out '^unseen +system\.rdrand +@seed +real, nothing can answer an instruction: 2 in liblinked\.so \(linked\)$'
matches out '^read +system\.rdtsc +@read +real, nothing can answer an instruction: 3 in job$'
"$TWINBIT" pins --verify -- ./plain >out 2>err || true
matches out '^unseen +system\.rdrand +@seed +- +nothing in the job used it, or could tell$'
matches out '^read +system\.rdtsc +@read +no such instruction in 1 file$'
