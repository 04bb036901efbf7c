/*
 * run --stress: other orders for the job's threads than the machine would give them, so that what
 * depends on an order shows it more often. One thread on each of our CPUs that is busy in bursts,
 * and one that lets the job's threads, now this one, now that, run only when nothing else would.
 * Nothing that a job can see is changed for long: no mask, no priority, no signal.
 */
#include "collector/collector_internal.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_BURNERS 64u
#define MAX_TASKS 1024u
#define MAX_HELD 8u /* threads held back at once */
#define BURST_US 20000u
#define HOLD_US 30000u

struct burner {
    const struct tb_stress *stress;
    pthread_t thread;
    int cpu;
    uint64_t random;
};

struct tb_stress {
    uint32_t stop; /* atomic */
    pid_t job;
    uint64_t random;
    uint32_t burners;
    bool meddles;
    pthread_t meddler;
    struct burner burner[MAX_BURNERS];
    pid_t task[MAX_TASKS];
    uint32_t tasks;
    pid_t held[MAX_HELD];
    uint32_t holding;
};

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15ull; /* SplitMix64 */

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

static bool stopped(const struct tb_stress *s)
{
    return __atomic_load_n(&s->stop, __ATOMIC_ACQUIRE) != 0;
}

static void rest(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000u), (long)(us % 1000000u) * 1000};

    (void)nanosleep(&t, NULL);
}

static uint64_t now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* ---------------------------------------------------------------- bursts */

static void *burn(void *arg)
{
    struct burner *b = arg;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)b->cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    while (!stopped(b->stress)) {
        uint64_t end = now_us() + draw(&b->random) % BURST_US;
        while (now_us() < end && !stopped(b->stress))
            ;
        rest(draw(&b->random) % BURST_US);
    }
    return NULL;
}

static void start_burners(struct tb_stress *s)
{
    cpu_set_t ours;

    CPU_ZERO(&ours);
    if (sched_getaffinity(0, sizeof(ours), &ours) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && s->burners < MAX_BURNERS; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &ours))
            continue;
        struct burner *b = &s->burner[s->burners];
        *b = (struct burner){.stress = s, .cpu = cpu, .random = draw(&s->random)};
        if (pthread_create(&b->thread, NULL, burn, b) != 0)
            return;
        s->burners++;
    }
}

/* ---------------------------------------------------------------- holding back */

static void collect(void *arg, pid_t pid)
{
    struct tb_stress *s = arg;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && s->tasks < MAX_TASKS)
            s->task[s->tasks++] = (pid_t)strtol(e->d_name, NULL, 10);
    if (d)
        (void)closedir(d);
    tb_proc_children(pid, collect, s);
}

static void release_all(struct tb_stress *s)
{
    const struct sched_param none = {0};

    while (s->holding > 0)
        (void)sched_setscheduler(s->held[--s->holding], SCHED_OTHER, &none);
}

/* Only what has the usual policy: others have chosen theirs */
static void hold_some(struct tb_stress *s)
{
    const struct sched_param none = {0};
    uint64_t n = 1 + draw(&s->random) % MAX_HELD;

    s->tasks = 0;
    collect(s, s->job);
    while (s->tasks > 0 && n-- > 0) {
        pid_t task = s->task[draw(&s->random) % s->tasks];
        if (sched_getscheduler(task) == SCHED_OTHER &&
            sched_setscheduler(task, SCHED_IDLE, &none) == 0)
            s->held[s->holding++] = task;
    }
}

static void *meddle(void *arg)
{
    struct tb_stress *s = arg;

    while (!stopped(s)) {
        hold_some(s);
        rest(1000 + draw(&s->random) % HOLD_US);
        release_all(s);
        rest(draw(&s->random) % HOLD_US);
    }
    return NULL;
}

/* ---------------------------------------------------------------- start, stop */

struct tb_stress *tb_stress_start(pid_t job, uint64_t seed)
{
    struct tb_stress *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->job = job;
    s->random = seed;
    start_burners(s);
    s->meddles = pthread_create(&s->meddler, NULL, meddle, s) == 0;
    return s;
}

void tb_stress_stop(struct tb_stress *s)
{
    if (!s)
        return;
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < s->burners; i++)
        (void)pthread_join(s->burner[i].thread, NULL);
    if (s->meddles)
        (void)pthread_join(s->meddler, NULL);
    free(s);
}
