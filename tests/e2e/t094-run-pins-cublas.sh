# timeout: 180
# Pins of cuBLAS, with stand-ins for its libraries: handles get NOT_ALLOWED, a job that asks for ALLOWED wins and is named;
# the algorithms that cuBLASLt names are put back in a replay. Linked, opened with RTLD_LOCAL, and two versions at once.
command -v cc >/dev/null || skip "no C compiler"
mkdir tmp
export TMPDIR=$PWD/tmp
run() { "$TWINBIT" run --force "$@"; }

cat >lt.c <<'END_C'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
struct result { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; };
static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}
size_t cublasLtGetVersion(void) { return number("STAND_VERSION", VERSION); }
int cublasLtMatmulAlgoGetHeuristic(void *lt, void *op, void *a, void *b, void *c, void *d, void *pref, int asked,
                                   struct result *r, int *given)
{
    /* the last one is none of the preference's attributes: no part of what the product is */
    uint64_t first = number("STAND_FIRST", 1) + ((uint64_t *)a)[2] + ((uint64_t *)pref)[31];
    *given = asked < 3 ? asked : 3;
    for (int i = 0; i < *given; i++)
        r[i] = (struct result){.algo = {first + (uint64_t)i, VERSION}, .workspace = 16 * (first + (uint64_t)i)};
    return 0;
}
int cublasLtMatmulAlgoCheck(void *lt, void *op, void *a, void *b, void *c, void *d, const uint64_t *algo, struct result *r)
{
    if (getenv("STAND_REFUSE"))
        return 15;
    *r = (struct result){.workspace = 16 * algo[0]};
    return 0;
}
static int get(uint64_t *words, int attribute, void *value, size_t bytes, size_t *written)
{
    if (attribute > 31)
        return 7; /* an old version */
    memcpy(value, &words[attribute], bytes);
    *written = bytes;
    return 0;
}
int cublasLtMatmulDescGetAttribute(void *d, int a, void *v, size_t n, size_t *w) { return get(d, a, v, n, w); }
int cublasLtMatrixLayoutGetAttribute(void *d, int a, void *v, size_t n, size_t *w) { return get(d, a, v, n, w); }
int cublasLtMatmulPreferenceGetAttribute(void *d, int a, void *v, size_t n, size_t *w) { return get(d, a, v, n, w); }
END_C
cat >blas.c <<'END_C'
#include <stdlib.h>
int cublasCreate_v2(int **handle)
{
    if (getenv("STAND_NO_GPU"))
        return 3;
    *handle = malloc(sizeof(int));
    **handle = 1; /* not as the real one: so it is seen that it was set */
    return 0;
}
int cublasSetAtomicsMode(int *handle, int mode) { *handle = mode; return 0; }
int cublasGetAtomicsMode(int *handle, int *mode) { *mode = *handle; return 0; }
END_C
cat >use.c <<'END_C'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct result { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; };
int cublasCreate_v2(void **), cublasSetAtomicsMode(void *, int), cublasGetAtomicsMode(void *, int *);
int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *, void *, void *, void *, void *, int, struct result *, int *);
void use(int allow, int products)
{
    void *handle;
    int mode = -1, given = -1, status = cublasCreate_v2(&handle);
    if (status == 0 && allow)
        cublasSetAtomicsMode(handle, 1);
    if (status == 0)
        cublasGetAtomicsMode(handle, &mode);
    printf("created %d, mode %d\n", status, mode);
    for (int i = 0; i < products; i++) {
        uint64_t op[40] = {0}, layout[40] = {0}, pref[40] = {0};
        struct result r[4];
        op[8] = (uintptr_t)malloc(1 << 20); /* a bias: elsewhere in each run */
        layout[2] = (uint64_t)(i % 4);
        pref[1] = 1600;
        memset(r, 0xff, sizeof(r));
        status = cublasLtMatmulAlgoGetHeuristic(NULL, op, layout, layout, layout, layout, pref, 4, r, &given);
        printf("product %d: status %d, %d:", i, status, given);
        for (int k = 0; k < given; k++)
            printf(" %d of %d, %zu bytes, state %d;", (int)r[k].algo[0], (int)r[k].algo[1], r[k].workspace, r[k].state);
        printf("\n");
    }
}
END_C
cat >job.c <<'END_C'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef LINKED
void use(int allow, int products);
#endif
int main(int argc, char **argv)
{
    int allow = atoi(argv[1]), products = atoi(argv[2]);
#ifdef LINKED
    use(allow, products);
#endif
    for (int i = 3; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        void (*f)(int, int) = library ? (void (*)(int, int))dlsym(library, "use") : NULL;
        if (!f) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        f(allow, products);
    }
    return 0;
}
END_C
for v in 12 13; do
    cc -shared -fPIC -w -DVERSION=$v -Wl,-soname,libcublasLt.so.$v -o libcublasLt.so.$v lt.c
    cc -shared -fPIC -w -Wl,-soname,libcublas.so.$v -o libcublas.so.$v blas.c
    cc -shared -fPIC -o libuse$v.so use.c "$PWD/libcublas.so.$v" "$PWD/libcublasLt.so.$v" -Wl,-rpath,"$PWD"
done
cc -DLINKED -o linked job.c use.c "$PWD/libcublas.so.13" "$PWD/libcublasLt.so.13" -Wl,-rpath,"$PWD" -ldl
cc -o opened job.c -ldl
pins=cuda.cublas_atomics,cuda.cublaslt_heuristics

for how in ./linked "./opened"; do
    set -- 0 6
    [ "$how" = ./linked ] || set -- 0 6 "$PWD/libuse13.so"
    "$how" "$@" >plain
    contains plain "created 0, mode 1"

    # it is held, and nothing else is changed
    expect 0 run --pin $pins -o a.twinbit -- "$how" "$@"
    sed 's/mode 1/mode 0/' plain | cmp - out || fail "$how: $(diff plain out)"
    "$TWINBIT" show a.twinbit pins >rows
    matches rows '^held +cuda\.cublas_atomics .*NOT_ALLOWED for 1 handle '
    matches rows '^read +cuda\.cublaslt_heuristics .* 4 products, algorithms [0-9a-f]{16} '
    lacks err "cuda.cublas"

    # the job wins, and is named; unless pins are forced
    user=${how#./}
    [ "$how" = ./linked ] && user="the program" || user=libuse13.so
    expect 0 run --pin $pins -o b.twinbit -- "$how" 1 "${@:2}"
    contains out "mode 1"
    matches err "twinbit: pin cuda\.cublas_atomics: the job has ALLOWED, asked for by $user\+0x[0-9a-f]+, which wins over NOT_ALLOWED"
    "$TWINBIT" show b.twinbit pins >rows
    matches rows '^job +cuda\.cublas_atomics .*ALLOWED, asked for by '
    expect 0 run --force-pins --pin $pins -o b.twinbit -- "$how" 1 "${@:2}"
    contains out "mode 0"
    "$TWINBIT" show b.twinbit pins >rows
    matches rows "^held +cuda\.cublas_atomics .*NOT_ALLOWED for 1 handle, though ALLOWED was asked for by $user"

    # a replay: another order of the same algorithms, others altogether
    sed 's/mode 1/mode 0/' plain >wanted
    expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
    grep -v '^replay: ' out | cmp - wanted || fail "$how: the replay differs: $(diff out wanted)"
    lacks err "cuBLASLt"
    for first in 0 30; do
        export STAND_FIRST=$first
        expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
        unset STAND_FIRST
        for i in 0 1 2 3 4 5; do
            matches out "^product $i: status 0, [34]: $((i % 4 + 1)) of 13, $(((i % 4 + 1) * 16)) bytes, state 0;"
        done
        contains err "replay: of algorithms of cuBLASLt 4 were others than recorded, and put back, 0 were not accepted any more"
        matches err "the first asked for by $user\+0x"
        "$TWINBIT" show c.twinbit pins >rows
        matches rows '^read +cuda\.cublaslt_heuristics .* 4 products, algorithms [0-9a-f]{16}, 4 put back '
    done
    contains out "4: 1 of 13, 16 bytes, state 0; 30 of 13, 480 bytes, state 0; 31 of 13" # there was room for one more

    # the replay of a replay has them, too
    expect 0 "$TWINBIT" replay --force -o d.twinbit c.twinbit
    grep -v '^replay: ' out | cmp - wanted || fail "$how: the replay of a replay: $(diff out wanted)"

    # refused by cuBLASLt, of another version of it, or asked about other products: told, and left alone
    for why in STAND_REFUSE=1 STAND_VERSION=7; do
        export "${why?}" STAND_FIRST=30
        expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
        unset "${why%=*}" STAND_FIRST
        contains out "product 0: status 0, 3: 30 of 13"
        contains err "0 were others than recorded, and put back, 4 were not accepted any more, 0 were not in the log"
    done
    expect 0 run --pin $pins -o b.twinbit -- "$how" 0 2 "${@:3}"
    expect 0 "$TWINBIT" replay --force -o c.twinbit b.twinbit -- "$how" 0 3 "${@:3}"
    contains err "0 were not accepted any more, 1 was not in the log"
done

# an algorithm that needs more than the job's workspace is not put back
STAND_FIRST=101 run --quiet --pin $pins -o b.twinbit -- ./linked 0 1 >out
expect 0 "$TWINBIT" replay --force -o c.twinbit b.twinbit
contains out "product 0: status 0, 3: 1 of 13"
contains err "1 was not accepted any more"

# it names others within a run: each change is written down, and repeated
cat >changing.c <<'END_C'
#include <stdlib.h>
void use(int allow, int products);
int main(int argc, char **argv)
{
    setenv("STAND_FIRST", argv[1], 1);
    use(0, 2);
    setenv("STAND_FIRST", argv[2], 1);
    use(0, 2);
    return 0;
}
END_C
cc -o changing changing.c use.c "$PWD/libcublas.so.13" "$PWD/libcublasLt.so.13" -Wl,-rpath,"$PWD"
expect 0 run --quiet --pin $pins -o a.twinbit -- ./changing 10 20
cp out first
"$TWINBIT" show a.twinbit pins >rows
matches rows '2 products, algorithms [0-9a-f]{16}, 2 named anew '
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- ./changing 40 41
for i in 10 11 20 21; do contains out "4: $i of 13"; done
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit
grep -v '^replay: ' out | cmp - first || fail "the replay differs: $(diff out first)"

# each thread, and each process, has its own; all ask about one product
cat >many.c <<'END_C'
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
struct result { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; };
int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *, void *, void *, void *, void *, int, struct result *, int *);
static int base, slow;
static int one(int plus)
{
    uint64_t op[40] = {0}, layout[40] = {0}, pref[40] = {0};
    struct result r[4];
    int given;
    pref[1] = 1600;
    pref[31] = (uint64_t)(base + plus);
    cublasLtMatmulAlgoGetHeuristic(NULL, op, layout, layout, layout, layout, pref, 4, r, &given);
    return (int)r[0].algo[0];
}
static void *thread(void *arg)
{
    int *out = arg, plus = out[0];
    if (slow && plus == 10)
        usleep(200000); /* the other one is first */
    for (int i = 0; i < 3; i++)
        out[i] = one(plus + (i == 2));
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t t[2];
    int out[2][3] = {{10}, {20}};
    base = atoi(argv[1]);
    slow = argc > 2;
    printf("main %d\n", one(0));
    fflush(stdout);
    if (fork() == 0) {
        printf("child %d\n", one(30));
        return 0;
    }
    wait(NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, thread, out[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        printf("thread %d: %d %d %d\n", i, out[i][0], out[i][1], out[i][2]);
    }
    return 0;
}
END_C
cc -o many many.c "$PWD/libcublas.so.13" "$PWD/libcublasLt.so.13" -Wl,-rpath,"$PWD" -lpthread
cat >wanted <<'END_T'
main 1
child 31
thread 0: 11 11 12
thread 1: 21 21 22
END_T
expect 0 run --quiet --pin $pins -o a.twinbit -- ./many 0
cmp out wanted || fail "threads: $(diff out wanted)"
expect 0 "$TWINBIT" replay --force -o c.twinbit a.twinbit -- ./many 5 slow
grep -v '^replay: ' out | cmp - wanted || fail "threads: the replay differs: $(diff out wanted)"

# a caller without a dependency on cuBLAS, which finds it through the library that brought it
cc -shared -fPIC -o libmid.so use.c
cc -shared -fPIC -Wl,--no-as-needed -o libtop.so "$PWD/libmid.so" "$PWD/libcublas.so.13" "$PWD/libcublasLt.so.13" \
    -Wl,-rpath,"$PWD" -x c /dev/null
./opened 0 2 "$PWD/libtop.so" | sed 's/mode 1/mode 0/' >wanted
contains wanted "product 1: status 0"
expect 0 run --pin $pins -o b.twinbit -- ./opened 0 2 "$PWD/libtop.so"
cmp out wanted || fail "a library in the middle: $(diff out wanted)"

# two versions in one process: each caller gets its own
./opened 0 2 "$PWD/libuse12.so" "$PWD/libuse13.so" | sed 's/mode 1/mode 0/' >wanted
[ "$(grep -c ' of 12' wanted)" = 2 ] || fail "the stand-ins: $(cat wanted)"
expect 0 run --pin $pins -o b.twinbit -- ./opened 0 2 "$PWD/libuse12.so" "$PWD/libuse13.so"
cmp out wanted || fail "two versions: $(diff out wanted)"

# errors of cuBLAS stay its own; without cuBLAS, or without these pins, nothing happens
STAND_NO_GPU=1 run --quiet --pin $pins -o b.twinbit -- ./linked 0 1 >out
contains out "created 3, mode -1"
"$TWINBIT" show b.twinbit pins >rows
matches rows '^unseen +cuda\.cublas_atomics '
for pin in observe basic "strict,!cuda.cublas_atomics,!cuda.cublaslt_heuristics"; do
    expect 0 run --quiet --pin "$pin" -o b.twinbit -- sh -c 'echo "$LD_PRELOAD"'
    lacks out libtwinbit_cublas
done
expect 0 run --quiet --pin strict -o b.twinbit -- sh -c 'echo "$LD_PRELOAD"'
contains out libtwinbit_cublas.so
expect 2 run --pin cuda.cublas_atomics=ALLOWED -o b.twinbit -- true
