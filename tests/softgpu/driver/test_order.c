#include "queue.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Orders depend on the seed, which is read when the driver starts: every case runs in a process of
 * its own. */

#define SEEDS 20

struct outcome {
    uint32_t n;
    uint32_t marks[LOG_MAX];
};

/* What @body leaves in the log when it is run with a seed. */
static struct outcome run(void (*body)(const struct queue *), unsigned seed, const char *order)
{
    struct outcome *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct outcome out;
    int status = -1;
    pid_t pid;

    assert_ptr_not_equal(shared, MAP_FAILED);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        static struct queue q;
        char text[16];

        snprintf(text, sizeof(text), "%u", seed);
        setenv("SOFTGPU_SEED", text, 1);
        if (order)
            setenv("SOFTGPU_ORDER", order, 1);
        queue_open(&q);
        body(&q);
        OK(cuCtxSynchronize());
        shared->n = queue_count(&q);
        memcpy(shared->marks, &q.log[1], sizeof(shared->marks));
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    out = *shared;
    munmap(shared, sizeof(*shared));
    return out;
}

static bool same(const struct outcome *a, const struct outcome *b)
{
    return a->n == b->n && memcmp(a->marks, b->marks, a->n * sizeof(uint32_t)) == 0;
}

static void race(const struct queue *q)
{
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);

    OK(queue_mark(q, a, 1));
    OK(queue_mark(q, b, 2));
}

static void test_order__a_race_shows_both_orders(void **state)
{
    unsigned first[3] = {0};

    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        struct outcome o = run(race, seed, NULL);

        assert_int_equal(o.n, 2);
        assert_in_range(o.marks[0], 1, 2);
        first[o.marks[0]]++;
    }
    assert_in_range(first[1], 3, SEEDS - 3);
}

static void many(const struct queue *q)
{
    CUstream s[8];
    CUevent e = queue_event();

    for (uint32_t i = 0; i < 8; i++)
        s[i] = queue_stream(i & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    for (uint32_t i = 0; i < 80; i++) {
        OK(queue_mark(q, s[i * 7 % 8], i));
        if (i % 20 == 9)
            OK(cuEventRecord(e, s[i % 8]));
        if (i % 20 == 14)
            OK(cuStreamWaitEvent(s[i % 8], e, 0));
        if (i == 40)
            cuStreamQuery(s[3]);
        if (i == 60)
            OK(cuStreamSynchronize(s[1]));
    }
}

static void test_order__one_seed_gives_one_order(void **state)
{
    struct outcome other = run(many, 1, NULL);
    unsigned different = 0;

    (void)state;
    for (unsigned seed = 0; seed < 5; seed++) {
        struct outcome a = run(many, seed, NULL), b = run(many, seed, NULL);

        assert_int_equal(a.n, 80);
        assert_true(same(&a, &b));
        different += !same(&a, &other);
    }
    assert_in_range(different, 3, 4); /* seed 1 itself is equal */
}

static void many_in_order(const struct queue *q)
{
    CUstream s[8];

    for (uint32_t i = 0; i < 8; i++)
        s[i] = queue_stream(CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < 80; i++)
        OK(queue_mark(q, s[i * 5 % 8], i));
}

static void test_order__by_index_is_as_submitted(void **state)
{
    struct outcome o = run(many_in_order, 3, "index");

    (void)state;
    assert_int_equal(o.n, 80);
    for (uint32_t i = 0; i < 80; i++)
        assert_int_equal(o.marks[i], i);
}

static void priorities(const struct queue *q)
{
    CUstream high, low;

    OK(cuStreamCreateWithPriority(&low, CU_STREAM_NON_BLOCKING, 0));
    OK(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -5));
    OK(queue_mark(q, low, 1));
    OK(queue_mark(q, high, 2));
}

static void test_order__priority_is_a_hint(void **state)
{
    unsigned first[3] = {0};

    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++)
        first[run(priorities, seed, NULL).marks[0]]++;
    assert_in_range(first[2], SEEDS * 3 / 4, SEEDS);
}

/* Non-blocking streams and the legacy stream have no order. */
static void beside_legacy(const struct queue *q)
{
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);

    OK(queue_mark(q, NULL, 1));
    OK(queue_mark(q, s, 2));
}

static void test_order__a_non_blocking_stream_does_not_wait_for_the_legacy_one(void **state)
{
    unsigned first[3] = {0};

    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++)
        first[run(beside_legacy, seed, NULL).marks[0]]++;
    assert_in_range(first[2], 3, SEEDS - 3);
}

/* Independent nodes of a graph, of which one comes first and one last. */
static void graph_nodes(const struct queue *q)
{
    CUgraph g;
    CUgraphExec x;
    CUgraphNode node[6];
    CUdeviceptr log = (CUdeviceptr)(uintptr_t)q->log;

    OK(cuGraphCreate(&g, 0));
    for (uint32_t i = 0; i < 6; i++) {
        CUDA_KERNEL_NODE_PARAMS p = {.func = q->mark,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = (void *[]){&log, &i}};
        size_t n = i == 0 ? 0 : i == 5 ? 4 : 1;

        OK(cuGraphAddKernelNode(&node[i], g, i == 5 ? &node[1] : &node[0], n, &p));
    }
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphLaunch(x, NULL));
}

static void test_order__independent_graph_nodes_are_drawn(void **state)
{
    struct outcome before = {0};
    unsigned different = 0;

    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        struct outcome o = run(graph_nodes, seed, NULL);

        assert_int_equal(o.n, 6);
        assert_int_equal(o.marks[0], 0);
        assert_int_equal(o.marks[5], 5);
        different += seed && !same(&o, &before);
        before = o;
    }
    assert_in_range(different, SEEDS / 2, SEEDS);
}

static void blocking_launches(const struct queue *q)
{
    CUstream s = queue_stream(0);

    OK(queue_mark(q, s, 1));
    assert_int_equal(queue_count(q), 1); /* has run */
    OK(queue_mark(q, NULL, 2));
    assert_int_equal(queue_count(q), 2);
}

static void test_order__launch_blocking_runs_kernels_at_once(void **state)
{
    struct outcome o;

    (void)state;
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    o = run(blocking_launches, 0, NULL);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    assert_int_equal(o.n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order__a_race_shows_both_orders),
        cmocka_unit_test(test_order__one_seed_gives_one_order),
        cmocka_unit_test(test_order__by_index_is_as_submitted),
        cmocka_unit_test(test_order__priority_is_a_hint),
        cmocka_unit_test(test_order__a_non_blocking_stream_does_not_wait_for_the_legacy_one),
        cmocka_unit_test(test_order__independent_graph_nodes_are_drawn),
        cmocka_unit_test(test_order__launch_blocking_runs_kernels_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
