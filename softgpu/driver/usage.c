/* The writer's side of usage.h. */
#include "softgpu/driver/usage.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Made by the first cuInit, under its lock; kept until the process ends. */
static struct sg_usage *page;

static uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sg_usage_init(void)
{
    int fd = page ? -1 : memfd_create(SG_USAGE_FILE, MFD_CLOEXEC);
    void *p;

    if (fd < 0)
        return;
    if (ftruncate(fd, sizeof(*page)) != 0 ||
        (p = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        close(fd);
        return;
    }
    page = p;
    page->version = 1;
    page->pid = (uint32_t)getpid();
    atomic_thread_fence(memory_order_release);
    page->magic = SG_USAGE_MAGIC;
}

void sg_usage_context(int physical, int change)
{
    if (page)
        atomic_fetch_add(&page->devices[physical].contexts, (uint64_t)change);
}

void sg_usage_memory(int physical, uint64_t used)
{
    if (page)
        atomic_store_explicit(&page->devices[physical].used, used, memory_order_relaxed);
}

void sg_usage_begin(int physical)
{
    struct sg_usage_device *d = page ? &page->devices[physical] : NULL;

    if (d && atomic_fetch_add(&d->running, 1) == 0)
        atomic_store(&d->since, clock_ns());
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void sg_usage_end(int physical)
{
    struct sg_usage_device *d = page ? &page->devices[physical] : NULL;
    uint64_t now, from, window, start;

    if (!d || atomic_fetch_sub(&d->running, 1) != 1)
        return;
    now = clock_ns();
    from = atomic_load(&d->since);
    window = now / SG_USAGE_WINDOW;
    start = window * SG_USAGE_WINDOW;
    if (atomic_load(&d->window) != window) {
        uint64_t last = atomic_load(&d->window) + 1 == window ? atomic_load(&d->current) : 0;

        if (from < start)
            last += start - later(from, start - SG_USAGE_WINDOW);
        atomic_store(&d->last, last);
        atomic_store(&d->current, 0);
        atomic_store(&d->window, window);
    }
    atomic_fetch_add(&d->current, now - later(from, start));
}
