# system.malloc_fill: what it says is what blocks hold, small and large, in a C program and in Python; a value that fills nothing
# is refused; the job's own variable wins.
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

cat >job.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    static const size_t sizes[] = {24, 400, 1032, 2000, 200000};
    for (int i = 0; i < 5; i++) {
        size_t n = sizes[i];
        unsigned char *volatile used = malloc(n);
        memset(used, 0x5e, n);
        free(used);
        unsigned char *volatile p = malloc(n);
        size_t same = 1;
        while (same < n && p[same] == p[0])
            same++;
        printf("%zu %02x %s\n", n, p[0], same == n ? "whole" : "not whole");
        free(p);
    }
    return 0;
}
C
cc -O0 -w -o job job.c
for pair in 165=5a 255=00 1=fe; do
    expect 0 run --pin system.malloc_fill=${pair%=*} -- ./job
    [ "$(sort -u <out | cut -d' ' -f2- | sort -u)" = "${pair#*=} whole" ] || fail "${pair%=*}: $(cat out)"
done
for word in 0 256; do
    rm -f t.twinbit
    expect 2 run --pin system.malloc_fill=$word -- touch ran
    contains err "a number from 1 to 255"
    [ ! -e ran ] || fail "it was run"
done

# what the job has by itself is its own, unless pins are forced
MALLOC_PERTURB_=1 expect 0 run --pin system.malloc_fill=165 -- sh -c 'echo "$MALLOC_PERTURB_,$GLIBC_TUNABLES"'
[ "$(cat out)" = 1, ] || fail "the job's own: $(cat out)"
MALLOC_PERTURB_=1 expect 0 run --pin system.malloc_fill=165 --force-pins -- sh -c 'echo "$MALLOC_PERTURB_,$GLIBC_TUNABLES"'
[ "$(cat out)" = 165,glibc.malloc.tcache_count=0 ] || fail "not forced: $(cat out)"
GLIBC_TUNABLES=glibc.malloc.arena_max=2 expect 0 run --pin system.malloc_fill=165 -- sh -c 'echo "$GLIBC_TUNABLES"'
contains out "glibc.malloc.arena_max=2"
contains out "glibc.malloc.tcache_count=0"

need_python
cat >job.py <<'PY'
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
for n in (40, 400, 2000, 200000):
    libc.free(libc.malloc(n))
    p = libc.malloc(n)
    print(n, set(ctypes.string_at(p, n)))
    libc.free(p)
PY
expect 0 run --pin system.malloc_fill -- "$PYTHON" job.py
[ "$(cut -d' ' -f2 out | sort -u)" = "{90}" ] || fail "in Python: $(cat out)"
"$TWINBIT" show t.twinbit pins >rows
lacks rows "held     system.malloc_fill" # nobody looks into a block
