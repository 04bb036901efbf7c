/* The time of day: who asks for it is written down once a place, and counted. Never changed. */
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/seeds.h"

static void seen(uint64_t clock, const void *pc)
{
    struct tb_pins_proc *p = tb_pins_self();
    struct tb_preload_record *r;
    uint64_t offset;

    if (!p || tb_pins.config->time == TB_PRELOAD_OFF)
        return;
    struct tb_pins_site s = tb_pins_site(p, pc);
    if (s.count != 1)
        return;
    tb_pins_thread(p);
    r = tb_pins_log_room(p, 0, &offset);
    if (!r)
        return;
    r->kind = TB_PRELOAD_TIME;
    r->marks = TB_PRELOAD_REAL;
    r->site = s.number;
    r->caller = s.caller;
    r->thread = tb_pins_tls.thread;
    r->asked = clock;
    tb_pins_log_whole(r, offset);
}

TB_EXPORT int clock_gettime(clockid_t clock, struct timespec *out)
{
    bool day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;

    if (day)
        seen((uint64_t)clock, TB_HERE);
    int r = TB_NEXT(clock_gettime)(clock, out);
    if (day && r == 0)
        tb_pins_saw_clock((uint64_t)out->tv_sec * 1000000000u + (uint64_t)out->tv_nsec);
    return r;
}

TB_EXPORT time_t time(time_t *out)
{
    seen(CLOCK_REALTIME_COARSE, TB_HERE);
    return TB_NEXT(time)(out);
}

TB_EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    const struct timeval *volatile at = out; /* may be NULL, though it is declared not to be */

    seen(CLOCK_REALTIME, TB_HERE);
    int r = TB_NEXT(gettimeofday)(out, zone);
    if (at && r == 0)
        tb_pins_saw_clock((uint64_t)at->tv_sec * 1000000000u + (uint64_t)at->tv_usec * 1000);
    return r;
}

TB_EXPORT int timespec_get(struct timespec *out, int base)
{
    int r;

    if (base == TIME_UTC)
        seen(CLOCK_REALTIME, TB_HERE);
    r = TB_NEXT(timespec_get)(out, base);
    if (base == TIME_UTC && r == base)
        tb_pins_saw_clock((uint64_t)out->tv_sec * 1000000000u + (uint64_t)out->tv_nsec);
    return r;
}

/* It is never changed, but a seed that is the pid is (seeds.c). */
TB_EXPORT pid_t getpid(void)
{
    tb_pins_saw_pid();
    return TB_NEXT(getpid)();
}
