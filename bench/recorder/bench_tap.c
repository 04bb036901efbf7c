/*
 * A tap that measures what the recorder costs its caller, from inside a job under a real collector.
 * Each operator of the fake torch is one round; figures are printed as bench/README.md wants them.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "recorder/recorder.h"
#include "tests/recorder/fake_torch.h"

#define ROUNDS 400
#define BURST 1000 /* events that fit into a ring of 256 KiB */

FAKE_EXPORT int twinbit_tap_init(const struct tb_rec_api *api);

static const struct tb_rec_api *R;
static double self_ns[ROUNDS], event_ns[ROUNDS], empty_ns[ROUNDS], copy_ns[ROUNDS], find_ns[ROUNDS];
static int rounds;

static const char site_text[] = "torch\naten::add.Tensor\nr f32 cpu [4] - self\n"
                                "r f32 cpu [4] - other\nw f32 cpu [4] - out\n";
static const char step_text[] = "torch\nmark\n";

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static uint32_t site(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n)
{
    uint32_t id = R->site_find(t, key);

    return id ? id : R->site_define(t, key, text, n);
}

static double time_events(struct tb_rec_thread *t, uint32_t id, uint32_t accesses)
{
    struct tb_wire_access a[3] = {{1, 0, 2, 3}, {2, 0, 0, 0}, {3, 0, 0, 0}};
    double begin = now_ns();

    for (int i = 0; i < BURST; i++) {
        struct tb_wire_event e = {.kind = TB_EV_OP, .accesses = accesses, .site = id};
        e.args = (uint64_t)i;
        (void)R->event(t, &e, a);
    }
    return (now_ns() - begin) / BURST;
}

static double time_self(void)
{
    double begin = now_ns();

    for (int i = 0; i < 100000; i++) {
        struct tb_rec_thread *volatile t = R->self();
        (void)t;
    }
    return (now_ns() - begin) / 100000;
}

static double time_find(struct tb_rec_thread *t)
{
    double begin = now_ns();

    for (int i = 0; i < 100000; i++) {
        volatile uint32_t id = R->site_find(t, 1);
        (void)id;
    }
    return (now_ns() - begin) / 100000;
}

/* The least an event can cost: a copy of its bytes and the time of day. */
static double time_copy(void)
{
    static uint8_t buffer[1 << 18];
    uint8_t record[192] = {1};
    double begin = now_ns();

    for (int i = 0; i < BURST; i++) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        memcpy(record, &t, sizeof(t));
        memcpy(buffer + (size_t)i * 192 % (sizeof(buffer) - 192), record, sizeof(record));
        __asm__ volatile("" : : "r"(buffer) : "memory");
    }
    return (now_ns() - begin) / BURST;
}

static void print(const char *name, const double *sample, const char *goal)
{
    printf("{\"metric\": \"%s\", \"unit\": \"ns\"%s, \"samples\": [", name, goal);
    for (int i = 0; i < rounds; i++)
        printf("%s%.2f", i ? ", " : "", sample[i]);
    printf("]}\n");
}

static void on_op(uint64_t tag, int kind)
{
    struct tb_rec_thread *t = R->self();

    (void)tag;
    if (kind == FAKE_STEP || !t || rounds == ROUNDS) {
        print("self", self_ns, ", \"goal\": \"<=10\"");
        print("event_3_accesses", event_ns, ", \"goal\": \"<=200\"");
        print("event_0_accesses", empty_ns, "");
        print("copy_and_clock", copy_ns, "");
        print("site_find", find_ns, "");
        fflush(stdout);
        return;
    }
    self_ns[rounds] = time_self();
    find_ns[rounds] = time_find(t);
    copy_ns[rounds] = time_copy();
    event_ns[rounds] = time_events(t, site(t, 1, site_text, sizeof(site_text) - 1), 3);
    usleep(20000); /* the ring is drained */
    empty_ns[rounds] = time_events(t, site(t, 2, step_text, sizeof(step_text) - 1), 0);
    usleep(20000);
    rounds++;
}

int twinbit_tap_init(const struct tb_rec_api *api)
{
    R = api;
    fake_torch_observe(on_op);
    return 0;
}
