#include "softgpu/driver/lend.h"

#include "softgpu/driver/guard.h"
#include "softgpu/driver/strict.h"

#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096u
#define PAGES 4096u /* a page is lent anew when all others have been */

enum { FREE = 0, LENT, TOUCHED /* stays open */ };

/* The one state of this file; pages are made once, under @lock, and kept. */
static struct {
    pthread_mutex_t lock;
    unsigned next;
    struct {
        uint8_t state;
        const char *what;
        struct sg_by by; /* the call that was told of */
    } pages[PAGES];
    _Atomic uintptr_t base; /* 0: none yet */
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. */
static bool ready(void)
{
    void *p;

    if (ring.base)
        return true;
    p = mmap(NULL, (size_t)PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    if (p == MAP_FAILED || !sg_guard_listen())
        return false;
    ring.base = (uintptr_t)p;
    return true;
}

static void *page_at(unsigned i)
{
    return (void *)(ring.base + (uintptr_t)i * PAGE);
}

void *sg_lend(size_t size, const char *what)
{
    void *page = NULL;

    if (!sg_strict() || size > PAGE)
        return NULL;
    pthread_mutex_lock(&ring.lock);
    for (unsigned tries = 0; ready() && tries < PAGES && !page; tries++) {
        unsigned i = ring.next++ % PAGES;

        if (ring.pages[i].state != FREE || mprotect(page_at(i), PAGE, PROT_READ | PROT_WRITE) != 0)
            continue;
        ring.pages[i].state = LENT;
        ring.pages[i].what = what;
        ring.pages[i].by = sg_strict_by();
        page = page_at(i);
    }
    pthread_mutex_unlock(&ring.lock);
    return page;
}

void sg_take_back(void *lent)
{
    if (!lent)
        return;
    pthread_mutex_lock(&ring.lock);
    mprotect(lent, PAGE, PROT_NONE);
    ring.pages[((uintptr_t)lent - ring.base) / PAGE].state = FREE;
    pthread_mutex_unlock(&ring.lock);
}

static void tell(const char *what, const struct sg_by *by, uint64_t addr, bool write,
                 uintptr_t site)
{
    struct sg_finding f = {.rule = SG_RULE_STALE_CALLBACK_DATA, .address = addr};
    char text[256];

    f.at.by = (struct sg_by){.call = "host code", .site = site};
    f.at.access = write ? "write" : "read";
    f.other.by = *by;
    sg_strict_site_text(site, text, sizeof(text));
    snprintf(f.text, sizeof(f.text), "data of %s%s%s are used at %s after the callback", what,
             by->call ? " for " : "", by->call ? by->call : "", *text ? text : "?");
    sg_report(&f);
}

bool sg_lent_touched(uint64_t addr, bool write, uintptr_t site)
{
    uint64_t off = addr - ring.base;
    const char *what;
    struct sg_by by;
    unsigned i;

    if (!ring.base || off >= (uint64_t)PAGES * PAGE)
        return false;
    i = (unsigned)(off / PAGE);
    pthread_mutex_lock(&ring.lock);
    what = ring.pages[i].what;
    by = ring.pages[i].by;
    if (ring.pages[i].state == FREE) {
        ring.pages[i].state = TOUCHED;
        mprotect(page_at(i), PAGE, PROT_READ | PROT_WRITE);
    }
    pthread_mutex_unlock(&ring.lock);
    if (what)
        tell(what, &by, addr, write, site);
    return true;
}
