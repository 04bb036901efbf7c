/*
 * Is a seed the time or the pid? A fixed one may be any number, so what is taken for chance is
 * narrow: moments of the last day by their whole value, parts of a moment only if they are of one
 * of the last readings of this thread, the pid only if the thread has asked for it a short while
 * ago.
 */
#include <string.h>
#include <time.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/seeds.h"
#include "deterministic/preload/sys.h"

#define SECOND 1000000000u
#define DAY 86400u
#define SMALLEST 10000u /* part of a moment: smaller ones are constants that people write */
#define PID_STAYS                                                                                  \
    256u /* readings of the clock after which a pid that was asked for is forgotten                \
          */

static uint64_t cut(uint64_t x, unsigned bits)
{
    return bits > 0 && bits < 64 ? x & ((1ull << bits) - 1) : x;
}

/* A whole time of the last day or, as ranks and workers are added to it, of the next one; @unit:
 * parts of a second that it counts */
static bool is_whole(uint64_t x, uint64_t now, uint64_t unit)
{
    uint64_t at = now / (SECOND / unit);

    return x - (at - DAY * unit) <= 2 * DAY * unit;
}

/* The low 32 bits of a moment ago. As a fixed seed may be any number, the window is so narrow that
 * one falls into it in one of 200,000 runs, and small ones never do. */
static bool is_low(uint64_t x, uint64_t now, uint64_t unit, uint64_t window)
{
    uint64_t at = now / (SECOND / unit);

    return x >= 1u << 20 && x <= UINT32_MAX && cut(at - x, 32) <= window;
}

static bool is_time(uint64_t x, unsigned bits, uint64_t now)
{
    bool wide = bits > 32 &&
                (is_whole(x, now, 1000) || is_whole(x, now, 1000000) || is_whole(x, now, SECOND));

    return wide || is_whole(x, now, 1) || is_low(x, now, 1000, 1000) ||
           is_low(x, now, 1000000, 20000);
}

static bool is_double_time(uint64_t bits, uint64_t now)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    if (!(x > 1e8 && x < 1e19))
        return false;
    return is_whole((uint64_t)x, now, 1) || is_whole((uint64_t)x, now, 1000) ||
           is_whole((uint64_t)x, now, 1000000) || is_whole((uint64_t)x, now, SECOND);
}

void tb_pins_saw_clock(uint64_t ns)
{
    struct tb_pins_readings *r = &tb_pins_tls.readings;

    r->clock[r->n++ % TB_PINS_CLOCKS] = ns;
}

void tb_pins_saw_pid(void)
{
    tb_pins_tls.readings.pid_at = tb_pins_tls.readings.n + 1;
}

/* 0: the thread has not asked for it */
static uint64_t pid_read(void)
{
    const struct tb_pins_readings *r = &tb_pins_tls.readings;

    return r->pid_at && r->n + 1 - r->pid_at < PID_STAYS ? (uint64_t)tb_sys3(SYS_getpid, 0, 0, 0)
                                                         : 0;
}

/* A part of the moment @ns, or its seconds and such a part mixed in one of the usual ways */
static bool is_part(uint64_t x, unsigned bits, uint64_t ns)
{
    uint64_t s = ns / SECOND, n = ns % SECOND, u = n / 1000;
    uint64_t parts[] = {n, u, s ^ n, s + n, s * n, s ^ u, s + u, s * u, s ^ (u << 16)};

    for (size_t i = 0; n && x >= SMALLEST && i < TB_ARRAY_LEN(parts); i++)
        if (x == cut(parts[i], bits))
            return true;
    return false;
}

/* What is left of a moment's nano- or microseconds where a seed must be small */
static bool is_rest(uint64_t x, uint64_t ns)
{
    static const uint64_t limits[] = {1ull << 32, UINT32_MAX, 1ull << 31,
                                      INT32_MAX,  SECOND,     100000000};

    for (size_t i = 0; i < TB_ARRAY_LEN(limits); i++)
        if (x >= SMALLEST && (x == ns % limits[i] || x == ns / 1000 % limits[i]))
            return true;
    return false;
}

static bool is_reading(uint64_t x, unsigned bits, uint64_t pid)
{
    const struct tb_pins_readings *r = &tb_pins_tls.readings;

    for (size_t i = 0; i < TB_PINS_CLOCKS; i++)
        if (r->clock[i] && (is_part(x, bits, r->clock[i]) || is_rest(x, r->clock[i]) ||
                            (pid && (is_part(cut(x ^ pid, bits), bits, r->clock[i]) ||
                                     is_part(cut(x - pid, bits), bits, r->clock[i]) ||
                                     x == cut(r->clock[i] / SECOND * pid, bits)))))
            return true;
    return false;
}

static bool is_number(uint64_t x, unsigned bits, uint64_t now)
{
    uint64_t pid = pid_read();

    return (pid >= 1000 && x == pid) || is_time(x, bits, now) || is_reading(x, bits, pid) ||
           (pid &&
            (is_whole(x ^ pid, now, 1) || is_whole(x - pid, now, 1) || is_whole(x + pid, now, 1)));
}

/* Days since 1970 of a date of the Gregorian calendar */
static int64_t days(int64_t y, int64_t m, int64_t d)
{
    y -= m <= 2;
    int64_t era = y / 400, yoe = y - era * 400,
            doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;

    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* Whatever time zone it is told in: 14 hours ahead of UTC at most, and 12 behind it */
static bool is_local(int64_t at, uint64_t now)
{
    int64_t s = (int64_t)(now / SECOND);

    return at > s - (int64_t)DAY - 12 * 3600 && at < s + 14 * 3600 + 2;
}

static bool is_date(const unsigned part[6], uint64_t now)
{
    if (part[0] < 1970 || part[1] < 1 || part[1] > 12 || part[2] < 1 || part[2] > 31 ||
        part[3] > 23 || part[4] > 59 || part[5] > 60)
        return false;
    return is_local(days(part[0], part[1], part[2]) * (int64_t)DAY + part[3] * 3600 + part[4] * 60 +
                        part[5],
                    now);
}

/* YYYYMMDDHHMMSS, as strftime() gives it; with parts of a second behind it, or without the century
 */
static bool is_digits_date(uint64_t x, uint64_t now)
{
    unsigned part[6];

    while (x >= 100000000000000u) /* 15 digits or more */
        x /= 10;
    if (x < 10000000000000u)
        x += x >= 10000000000u && x < 1000000000000u ? 20000000000000u : 0;
    for (int i = 5; i > 0; i--, x /= 100)
        part[i] = (unsigned)(x % 100);
    part[0] = (unsigned)x;
    return is_date(part, now);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    return TB_NEXT(clock_gettime)(CLOCK_REALTIME, &t) == 0
               ? (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec
               : 0;
}

/* Within the rounding of a double */
static bool is_double_reading(uint64_t bits)
{
    const struct tb_pins_readings *r = &tb_pins_tls.readings;
    double x;

    memcpy(&x, &bits, sizeof(x));
    for (size_t i = 0; x > 1e8 && x < 1e10 && i < TB_PINS_CLOCKS; i++)
        if ((uint64_t)(x * 1e9) + 1000 - r->clock[i] < 2000)
            return true;
    return false;
}

bool tb_pins_is_own_reading(uint64_t x, unsigned bits)
{
    uint64_t now = now_ns();

    if (bits == TB_SEED_DOUBLE)
        return is_double_reading(x);
    return !is_whole(x, now, 1) && is_reading(x, bits, pid_read());
}

bool tb_pins_is_chance(uint64_t x, unsigned bits)
{
    uint64_t now = now_ns();

    if (!now)
        return false;
    if (bits == TB_SEED_DOUBLE)
        return is_double_time(x, now);
    if (bits == TB_SEED_48) /* three words, as of seed48(): the clock's may be in two of them */
        return is_number(cut(x, 32), 32, now) || is_number(x >> 16, 32, now) ||
               is_number(x, 48, now);
    return is_number(x, bits, now) || (bits > 32 && is_digits_date(x, now));
}

/* "2026-12-01 10:46:00", with any one character between two numbers */
size_t tb_pins_date_in(const char *text, size_t n)
{
    static const unsigned char width[] = {4, 2, 2, 2, 2, 2};
    unsigned part[6];
    size_t at = 0;

    for (int i = 0; i < 6; i++) {
        part[i] = 0;
        at += i > 0; /* what stands between */
        for (unsigned k = 0; k < width[i]; k++, at++) {
            if (at >= n || text[at] < '0' || text[at] > '9')
                return 0;
            part[i] = part[i] * 10 + (unsigned)(text[at] - '0');
        }
    }
    return is_date(part, now_ns()) ? at : 0;
}
