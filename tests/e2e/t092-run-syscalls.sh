# Pin system.syscalls: what programs draw by system calls of their own follows from the seed; refused, it is said; the
# job outlives twinbit.
need_program gcc
run() { timeout 60 "$TWINBIT" run --force -o t.twinbit "$@"; }
pin() { "$TWINBIT" show t.twinbit pins | grep -E "^[a-z]+ +$1 " >pin || fail "no row of '$1'"; }

cat >draw.c <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/time.h>
#include <unistd.h>
static void show(const char *what, const unsigned char *b, int n)
{
    printf("%s ", what);
    for (int i = 0; i < n; i++)
        printf("%02x", b[i]);
    puts("");
    fflush(stdout);
}
static void nothing(int s) { (void)s; }
static unsigned sum(const unsigned char *b, size_t n)
{
    unsigned h = 0;
    while (n--)
        h = h * 31 + *b++;
    return h;
}
int main(int argc, char **argv)
{
    unsigned char b[16];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (getrandom(b, 16, 0) != 16)
        return 1;
    show("getrandom", b, 16);
    if (read(fd, b, 16) != 16)
        return 2;
    show("device", b, 16);
    if (argc > 1 && strcmp(argv[1], "random") == 0)
        show("AT_RANDOM", (unsigned char *)getauxval(AT_RANDOM), 16);
    if (argc > 1 && strcmp(argv[1], "much") == 0) {
        static unsigned char big[3000001];
        struct itimerval often = {{0, 500}, {0, 500}};
        struct sigaction a = {.sa_handler = nothing, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &a, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        for (int i = 0; i < 20; i++)
            if (getrandom(big, sizeof(big), 0) != sizeof(big))
                return 3;
        printf("big %08x\n", sum(big, sizeof(big)));
        size_t n = 0;
        while (n < sizeof(big)) {
            ssize_t got = read(fd, big + n, sizeof(big) - n);
            if (got <= 0)
                return 4;
            n += got;
        }
        printf("big %08x\n", sum(big, sizeof(big)));
        if (getrandom((void *)8, 16, 0) != -1 || getrandom(b, 0, 0) != 0)
            return 5;
    }
    if (argc > 1 && strcmp(argv[1], "later") == 0) {
        usleep(1000 * atoi(argv[2]));
        int again = open("/dev/random", O_RDONLY), other = open("/etc/passwd", O_RDONLY);
        if (getrandom(b, 16, 0) != 16 || read(fd, b, 16) != 16 || read(again, b, 16) != 16 || other < 0)
            return 6;
        for (int i = 0; i < 30; i++) { /* more than the pipe held */
            char page[4096];
            if (read(fd, page, sizeof(page)) <= 0)
                return 7;
        }
        puts("still well");
    }
    return 0;
}
END
gcc -w draw.c -o dynamic
gcc -w -static draw.c -o static || skip "no static libc"

# without it: real
expect 0 run --pin strict -- ./static
cp out first
expect 0 run --pin strict -- ./static
cmp -s out first && fail "it is pinned without the pin"

# another filter with a listener, or a kernel that is too old: said, and the job goes on
expect 0 run --pin strict,system.syscalls -- ./static random
cp out first
pin system.syscalls
if grep -q '^refused' pin; then
    contains err "pin system.syscalls: requested, refused: it is off: "
    skip "seccomp(2) gives no listener here: $(cat pin)"
fi
matches pin '^held +system.syscalls .* observed [23] draws, AT_RANDOM .*\[.*/static\]'
lacks err "entropy, order of folders"
matches err "pins: not in '.*/static' \(1 time\): its order of folders and temporary names are real"
expect 0 run --pin strict,system.syscalls -- ./static random
cmp out first || fail "two runs differ"
lines first 3
expect 0 run --pin system.syscalls --pin-seed 1 -- ./static random
cmp -s out first && fail "another seed gives the same"

# signals do not break draws off; devices give as much as is read; nonsense stays nonsense
for i in 1 2; do
    expect 0 run --pin system.syscalls -- ./static much
    cp out much.$i
done
cmp much.1 much.2 || fail "much: two runs differ"
lines much.1 4

# who is reached by the preloaded library is answered by it, with or without
expect 0 run --pin strict -- ./dynamic
cp out dynamic.out
expect 0 run --pin strict,system.syscalls -- ./dynamic
cmp out dynamic.out || fail "the preloaded library's answers differ"

# children: static, without their environment; each its own numbers, the same in each run
job='./static; env -i ./dynamic; ./static; env -i sh -c "./dynamic; ./static"; ./dynamic'
for i in 1 2; do
    expect 0 run --pin strict,system.syscalls -- sh -c "$job"
    cp out children.$i
done
cmp children.1 children.2 || fail "children: two runs differ"
[ "$(sort -u children.1 | wc -l)" -eq 12 ] || fail "children draw the same: $(cat children.1)"
if command -v musl-gcc >/dev/null && musl-gcc -w -static draw.c -o musl 2>musl.err; then
    for i in 1 2; do
        expect 0 run --pin system.syscalls -- ./musl random
        cp out musl.$i
    done
    cmp musl.1 musl.2 || fail "musl: two runs differ"
fi

# a replay answers them from the seed again
expect 0 run --pin observe,system.syscalls -- ./static
cp out first
expect 0 timeout 60 "$TWINBIT" replay --force -o r.twinbit t.twinbit
grep -v '^replay: ' out | cmp - first || fail "the replay differs"

# cryptography keeps real entropy where the library is not in
cat >crypto.c <<'END'
#include <stdio.h>
#include <sys/random.h>
void draw(void)
{
    unsigned char b[16];
    if (getrandom(b, 16, 0) == 16)
        printf("%02x%02x%02x%02x%02x%02x\n", b[0], b[1], b[2], b[3], b[4], b[5]);
}
END
gcc -shared -fPIC crypto.c -o libcrypto.so.9
echo 'void draw(void); int main(void) { draw(); return 0; }' >user.c
gcc user.c ./libcrypto.so.9 -Wl,-rpath,"$PWD" -o user
for i in 1 2; do
    expect 0 run --pin strict,system.syscalls -- env -i ./user
    cp out crypto.$i
done
cmp -s crypto.1 crypto.2 && fail "a library for cryptography is answered"
pin system.syscalls
contains pin "real ones beside a library for cryptography"
for i in 1 2; do
    expect 0 run --pin strict,system.syscalls,entropy=all -- env -i ./user
    cp out crypto.$i
done
cmp crypto.1 crypto.2 || fail "entropy=all: two runs differ"

# one listener at a time: the inner one is told, and its job goes on
expect 0 run --pin system.syscalls -- "$TWINBIT" run --force -o inner.twinbit --pin system.syscalls -- ./static
contains err "pin system.syscalls: requested, refused: it is off: another program answers"
"$TWINBIT" show inner.twinbit pins | grep -E '^refused +system.syscalls' >/dev/null || fail "no row of the refusal"

# a command that is not there; statuses
expect 127 run --pin system.syscalls -- ./absent
expect 7 run --pin system.syscalls -- sh -c 'exit 7'

# what lives on when twinbit has ended, or was killed, is served by the kernel again
expect 0 run --pin system.syscalls -- sh -c './static later 7000 >daemon.out 2>&1 & sleep 0.3'
"$TWINBIT" run --quiet --force -o k.twinbit --pin system.syscalls -- sh -c './static later 1500 >killed.out 2>&1; echo $? >status' &
pid=$!
sleep 0.7
kill -9 "$pid"
wait "$pid" && fail "twinbit was not killed"
[ ! -e status ] || fail "the job had ended before"
for i in $(seq 100); do
    if [ -s status ] && grep -q well daemon.out; then break; fi
    sleep 0.1
done
contains killed.out "still well"
[ "$(cat status)" = 0 ] || fail "the job whose twinbit was killed ended with $(cat status)"
contains daemon.out "still well"

# another user than root: without new rights (sudo would have none), and as well
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 777 . && mkdir -p home && chmod 777 home
    as() { env HOME="$PWD/home" setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
    for i in 1 2; do
        expect 0 as timeout 60 "$TWINBIT" run --force -o "$PWD/u.twinbit" --pin system.syscalls -- \
            sh -c './static; grep NoNewPrivs /proc/self/status'
        cp out user.$i
    done
    cmp user.1 user.2 || fail "as another user two runs differ"
    contains user.1 "NoNewPrivs:	1"
    lines user.1 3
fi
