/* The profiler plugin of NCCL: what it asks for, what it says, and what it leaves alone */
#include "tests/recorder/exports.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/nccl/abi.h"
#include "recorder/nccl/nccl_internal.h"

extern const struct nccl_profiler ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6;

/* ---------------------------------------------------------------- the library */

static void test_nccl__it_exports_what_nccl_looks_for(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("nm -D --defined-only '" TEST_NCCL "' | awk '{print $3}' | LC_ALL=C sort"),
        "ncclProfiler_v4\nncclProfiler_v5\nncclProfiler_v6\n");
    check_needed(TEST_NCCL);
    check_imports(TEST_NCCL, NULL);
}

static void test_nccl__without_twinbit_it_asks_for_nothing(void **state)
{
    (void)state;
    assert_string_equal(output_of("env -u TWINBIT_SOCKET NCCL_PROFILER_PLUGIN='" TEST_NCCL
                                  "' '" TEST_NCCL_JOB "' 6 +x:0:2:1 1:AllReduce:4:RING:LL:1:4 -1"),
                        "version 6 events 0\n");
}

/* ---------------------------------------------------------------- values of variables */

static void test_nccl__lists_are_read_as_nccl_reads_them(void **state)
{
    static const struct {
        const char *list, *func, *word;
        bool allowed;
    } cases[] = {
        {"Ring", "AllReduce", "RING", true},
        {"Ring", "AllReduce", "TREE", false},
        {"ring,tree", "AllReduce", "TREE", true},
        {"^NVLS", "AllReduce", "NVLS", false},
        {"^NVLS", "AllReduce", "NVLS_TREE", true},
        {"^NVLS,NVLSTree", "AllReduce", "NVLS_TREE", false},
        {"CollnetDirect", "AllReduce", "COLLNET_DIRECT", true},
        {"allreduce:tree", "AllReduce", "TREE", true},
        {"allreduce:tree", "AllReduce", "RING", false},
        {"allreduce:tree", "Broadcast", "RING", true}, /* it is not in the list */
        {"ring;allreduce:tree", "AllReduce", "RING", false},
        {"ring;allreduce:tree", "Broadcast", "RING", true},
        {"ring;allreduce:tree", "Broadcast", "TREE", false},
        {"allreduce:tree;broadcast:^ring", "Broadcast", "RING", false},
        {"Simple", "AllReduce", "SIMPLE", true},
        {"LL", "AllReduce", "LL128", false},
        {"LL128", "AllReduce", "LL", false},
        {"Ring", "AllReduce", "Unknown", false},
        {"", "AllReduce", "TREE", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (nccl_allows(cases[i].list, cases[i].func, cases[i].word) != cases[i].allowed)
            fail_msg("'%s' and %s of %s", cases[i].list, cases[i].word, cases[i].func);
}

/* ---------------------------------------------------------------- what is said */

/* A child plays the job: this library's state is one for a process. The parent is the collector. */
static char said[1 << 16];

static void listen_at(char *folder, int *fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    assert_non_null(mkdtemp(folder));
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", folder);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(*fd, 100), 0);
    assert_int_equal(setenv(TB_WIRE_ENV, at.sun_path, 1), 0);
}

static void write_plan(const char *folder, const char *rows)
{
    char path[200];

    (void)snprintf(path, sizeof(path), "%s/pins", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "twinbit-pins 1 0 0\npython.hashseed\tenv\tset\tPYTHONHASHSEED\t0\n%s", rows);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(setenv(TB_WIRE_PINS, path, 1), 0);
}

static void collect(int fd)
{
    static struct tb_wire_msg msg;
    size_t used = 0;
    int c;

    said[0] = 0;
    while ((c = accept(fd, NULL, NULL)) >= 0) {
        assert_int_equal(recv(c, &msg, sizeof(msg), 0), sizeof(msg));
        assert_int_equal(msg.magic, TB_WIRE_MAGIC);
        assert_int_equal(msg.version, TB_WIRE_VERSION);
        assert_int_equal(msg.kind, TB_MSG_PIN);
        used += (size_t)snprintf(said + used, sizeof(said) - used, "%s", msg.text);
        assert_true(used < sizeof(said));
        close(c);
    }
}

static void play(const char *plan, void (*job)(void))
{
    char folder[] = "/tmp/twinbit-nccl-XXXXXX", command[100];
    int fd, status;

    listen_at(folder, &fd);
    write_plan(folder, plan);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        job();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    collect(fd);
    close(fd);
    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void has(const char *line)
{
    if (!strstr(said, line))
        fail_msg("not said: '%s', but:\n%s", line, said);
}

static void lacks(const char *text)
{
    if (strstr(said, text))
        fail_msg("said: '%s', in:\n%s", text, said);
}

static void *made(const char *name, int ranks, int rank)
{
    void *context = NULL;
    int mask = -1;

    if (ncclProfiler_v6.init.v5(&context, 99, &mask, name, 1, ranks, rank, NULL) != 0 || !context ||
        mask != (NCCL_EVENT_COLL | NCCL_EVENT_CE_COLL))
        exit(1);
    return context;
}

static void launch(void *context, const char *func, size_t count, const char *algo,
                   const char *proto, int channels)
{
    struct nccl_event e = {.type = NCCL_EVENT_COLL};
    void *handle = &e;

    e.coll = (struct nccl_coll){.func = func,
                                .count = count,
                                .datatype = "ncclFloat32",
                                .channels = (uint8_t)channels,
                                .warps = 17,
                                .algo = algo,
                                .proto = proto};
    if (ncclProfiler_v6.start(context, &handle, &e) != 0 || handle)
        exit(2);
}

#define STRICT                                                                                     \
    "nccl.algo\tenv\tset\tNCCL_ALGO\tRing\nnccl.proto\tenv\tset\tNCCL_PROTO\tSimple\n"             \
    "nccl.channels\tnone\tread\tx\t\nnccl.threads\tenv\tkeep\tNCCL_NTHREADS\t\n"                   \
    "nccl.nvls\tenv\tset\tNCCL_NVLS_ENABLE\t0\nnccl.collnet\tenv\tset\tNCCL_COLLNET_ENABLE\t0\n"   \
    "nccl.launch_order\tenv\tset\tNCCL_LAUNCH_ORDER_IMPLICIT\t1\nnccl.ranks\tnone\tread\tx\t\n"

static void as_asked(void)
{
    void *a = made("data", 8, 3), *b = made("", 2, 1);

    launch(a, "AllReduce", 1000, "RING", "SIMPLE", 8);
    launch(b, "Broadcast", 10, "RING", "SIMPLE", 1);
    launch(a, "AllReduce", 10, "RING", "SIMPLE", 2);
    ncclProfiler_v6.finalize(b);
}

static void test_nccl__what_was_asked_for_holds(void **state)
{
    (void)state;
    play(STRICT, as_asked);
    has("nccl.ranks\tread\t-\trank 3 of 8 on 1 host, host ");
    has("\tcommunicator 1 'data'\n");
    has("\tcommunicator 2\n");
    has("nccl.algo\tread\t-\tRING\tAllReduce in communicator 1 (rank 3 of 8)\n");
    has("nccl.algo\tread\t-\tRING\tBroadcast in communicator 2 (rank 1 of 2)\n");
    has("nccl.algo\theld\t-\tAllReduce RING, Broadcast RING\t\n");
    has("nccl.proto\theld\t-\tAllReduce SIMPLE, Broadcast SIMPLE\t\n");
    has("nccl.channels\tread\t-\tAllReduce 2..8, Broadcast 1\t\n");
    has("nccl.threads\theld\t-\tAllReduce 17 warps, Broadcast 17 warps\t\n");
    has("nccl.nvls\theld\t-\tnot used\t\n");
    has("nccl.collnet\theld\t-\tnot used\t\n");
    has("nccl.launch_order\tread\t-\t1 collectives, order ");
    has("nccl.launch_order\tread\t-\t3 collectives, order ");
    lacks("changed");
    lacks("missed");
}

static void otherwise(void)
{
    void *a = made("", 8, 0);

    launch(a, "AllReduce", 1000, "RING", "SIMPLE", 8);
    launch(a, "AllReduce", 1000, "TREE", "LL", 8);
    launch(a, "AllReduce", 1000, "RING", "SIMPLE", 4); /* told once */
    launch(a, "AllReduce", 2000, "NVLS", "SIMPLE", 4);
}

static void test_nccl__what_is_otherwise_is_told(void **state)
{
    (void)state;
    play(STRICT, otherwise);
    has("nccl.algo\tmissed\t-\tAllReduce RING+TREE\t\n");
    has("nccl.algo\tchanged\t-\tTREE\tAllReduce of 1000 ncclFloat32 in communicator 1 (rank 0 of "
        "8), "
        "RING before\n");
    has("nccl.proto\tchanged\t-\tLL\t");
    has("nccl.proto\tmissed\t-\tAllReduce SIMPLE+LL\t\n");
    has("nccl.channels\tchanged\t-\t4\tAllReduce of 1000 ncclFloat32 in communicator 1 (rank 0 of "
        "8), 8 before\n");
    has("nccl.nvls\tmissed\t-\tAllReduce NVLS\t\n");
    has("nccl.collnet\theld\t-\tnot used\t\n");
    lacks("TREE before");
}

static void copied(void)
{
    struct nccl_event e = {.type = NCCL_EVENT_CE_COLL};
    void *handle = &e, *a = made("", 2, 0);

    e.ce = (struct nccl_ce_coll){.func = "AllGather", .count = 7, .datatype = "ncclInt8"};
    if (ncclProfiler_v6.start(a, &handle, &e) != 0 || handle)
        exit(2);
    launch(a, "AllGather", 7, "RING", "SIMPLE", 1);
}

static void test_nccl__copy_engines_have_no_algorithm(void **state)
{
    (void)state;
    play(STRICT, copied);
    has("nccl.algo\theld\t-\tAllGather CE+RING\t\n");
    lacks("missed");
}

static void test_nccl__the_jobs_own_value_is_no_failure(void **state)
{
    (void)state;
    play("nccl.algo\tenv\tjob\tNCCL_ALGO\tRing\nnccl.proto\tenv\tleave\tNCCL_PROTO\t\n", otherwise);
    has("nccl.algo\tread\t-\tRING\tAllReduce in communicator 1 (rank 0 of 8)\n");
    lacks("missed");
    lacks("nccl.proto");
    lacks("AllReduce RING+TREE");
}

static void unasked(void)
{
    void *context = &context;
    int mask = -1;

    if (ncclProfiler_v5.init.v5(&context, 1, &mask, NULL, 1, 2, 0, NULL) != 0 || context || mask)
        exit(1);
    if (ncclProfiler_v4.init.v4(&context, &mask, NULL, 1, 1, 2, 0, NULL) != 0 || context || mask)
        exit(1);
}

static void test_nccl__without_a_request_it_asks_for_nothing(void **state)
{
    (void)state;
    play("nccl.algo\tenv\tleave\tNCCL_ALGO\t\n", unasked);
    assert_string_equal(said, "");
}

/* The collector is gone: the job goes on, and nothing is waited for */
static void test_nccl__nobody_may_listen(void **state)
{
    char folder[] = "/tmp/twinbit-nccl-XXXXXX", command[100];

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_plan(folder, STRICT);
    assert_int_equal(setenv(TB_WIRE_ENV, "/nowhere/socket", 1), 0);
    assert_string_equal(output_of("NCCL_PROFILER_PLUGIN='" TEST_NCCL "' timeout 10 '" TEST_NCCL_JOB
                                  "' 5 +x:0:2:1 1:AllReduce:4:RING:LL:1:4 -1"),
                        "version 5 events 2\n");
    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* ---------------------------------------------------------------- many of everything */

static void *launches(void *context)
{
    char func[24];

    for (int i = 0; i < 3000; i++) { /* more sizes and functions than there is room for */
        (void)snprintf(func, sizeof(func), "Function%d", i % 20);
        launch(context, func, (size_t)i, i % 7 ? "RING" : "TREE", "SIMPLE", 1 + i % 5);
    }
    ncclProfiler_v6.finalize(context);
    return NULL;
}

static void many(void)
{
    pthread_t thread[8];

    for (int i = 0; i < 8; i++)
        if (pthread_create(&thread[i], NULL, launches, made("", 8, i)) != 0)
            exit(3);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
}

static void test_nccl__threads_and_communicators_are_counted(void **state)
{
    (void)state;
    play("nccl.launch_order\tenv\tset\tx\t1\n", many);
    for (int i = 0; i < 8; i++) {
        char line[100];
        (void)snprintf(line, sizeof(line), "\tcommunicator %d (rank %d of 8)\n", i + 1, i);
        has(line);
    }
    has("\t24000 collectives, order ");
    has("\t3000 collectives, order ");
}

static void parent_and_child(void)
{
    void *a = made("", 2, 0);
    int status;

    launch(a, "AllReduce", 1, "RING", "SIMPLE", 1);
    pid_t pid = fork();
    if (pid == 0) {
        launch(a, "AllReduce", 1, "TREE", "SIMPLE", 1); /* the parent's: not looked at */
        ncclProfiler_v6.finalize(a);
        launch(made("", 4, 1), "Reduce", 1, "RING", "SIMPLE", 1);
        exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        exit(4);
}

static void test_nccl__a_child_begins_anew(void **state)
{
    (void)state;
    play(STRICT, parent_and_child);
    has("nccl.algo\theld\t-\tReduce RING\t\n");
    has("Reduce in communicator 1 (rank 1 of 4)\n");
    lacks("TREE");
    lacks("\t2 collectives");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nccl__it_exports_what_nccl_looks_for),
        cmocka_unit_test(test_nccl__without_twinbit_it_asks_for_nothing),
        cmocka_unit_test(test_nccl__lists_are_read_as_nccl_reads_them),
        cmocka_unit_test(test_nccl__what_was_asked_for_holds),
        cmocka_unit_test(test_nccl__what_is_otherwise_is_told),
        cmocka_unit_test(test_nccl__copy_engines_have_no_algorithm),
        cmocka_unit_test(test_nccl__the_jobs_own_value_is_no_failure),
        cmocka_unit_test(test_nccl__without_a_request_it_asks_for_nothing),
        cmocka_unit_test(test_nccl__nobody_may_listen),
        cmocka_unit_test(test_nccl__threads_and_communicators_are_counted),
        cmocka_unit_test(test_nccl__a_child_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
