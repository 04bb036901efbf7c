/* Who a process is: config.h says how. Rows of the shared table, found by pid. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

#define PROBES 32u
#define FILLING 0xFFFFFFFFu

uint64_t tb_pins_child_id(uint64_t parent, uint64_t thread, enum tb_pins_how how, uint64_t n)
{
    return tb_preload_mix(tb_preload_mix(parent, thread), ((uint64_t)how << 48) ^ n);
}

uint64_t tb_pins_ranks(void)
{
    static const char *const names[] = {"RANK", "LOCAL_RANK", "SLURM_PROCID", "PMI_RANK",
                                        "OMPI_COMM_WORLD_RANK"};
    uint64_t h = 0;

    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (value)
            h = tb_preload_hash(h + i, value, strlen(value));
    }
    return h;
}

uint64_t tb_pins_count(uint64_t key)
{
    key = key ? key : 1;
    for (uint32_t i = 0; tb_pins.shared && i < TB_PRELOAD_COUNTERS; i++) {
        struct tb_preload_counter *c = &tb_pins.shared->counter[(key + i) % TB_PRELOAD_COUNTERS];
        uint64_t seen = 0;
        if (__atomic_compare_exchange_n(&c->key, &seen, key, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) ||
            seen == key)
            return __atomic_fetch_add(&c->count, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

struct tb_preload_process *tb_pins_row(uint32_t pid)
{
    for (uint32_t i = 0; tb_pins.shared && i < PROBES; i++) {
        struct tb_preload_process *row = &tb_pins.shared->process[(pid + i) % TB_PRELOAD_PROCESSES];
        if (__atomic_load_n(&row->pid, __ATOMIC_ACQUIRE) == pid)
            return row;
    }
    return NULL;
}

static bool is_dead(uint32_t pid)
{
    return tb_sys3(SYS_kill, (int)pid, 0, 0) == -3; /* ESRCH */
}

/* A row of its own: the one it had, a free one, or that of a process that is gone. */
static struct tb_preload_process *claim_row(uint32_t pid)
{
    for (uint32_t pass = 0; tb_pins.shared && pass < 2; pass++)
        for (uint32_t i = 0; i < PROBES; i++) {
            struct tb_preload_process *row =
                &tb_pins.shared->process[(pid + i) % TB_PRELOAD_PROCESSES];
            uint32_t seen = __atomic_load_n(&row->pid, __ATOMIC_ACQUIRE);
            if (seen == FILLING || (seen != 0 && seen != pid && (pass == 0 || !is_dead(seen))))
                continue;
            if (__atomic_compare_exchange_n(&row->pid, &seen, FILLING, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED))
                return row;
        }
    return NULL;
}

void tb_pins_register(uint32_t pid, uint32_t parent, uint64_t id, uint64_t now)
{
    struct tb_preload_process *row = claim_row(pid);

    if (!row) {
        if (tb_pins.shared)
            __atomic_add_fetch(&tb_pins.shared->rows_lost, 1, __ATOMIC_RELAXED);
        return;
    }
    row->parent = parent;
    row->id = id;
    row->now = now;
    row->spawns = 0;
    __atomic_store_n(&row->pid, pid, __ATOMIC_RELEASE);
}

/* Fourth word of /proc/PID/stat; the second is in brackets and may hold any. 0: not known */
static uint32_t parent_of(uint32_t pid)
{
    char path[32] = "/proc/", text[512], digits[12];
    size_t at = 6, n = 0;

    for (uint32_t x = pid; x > 0; x /= 10)
        digits[n++] = (char)('0' + x % 10);
    while (n > 0)
        path[at++] = digits[--n];
    memcpy(path + at, "/stat", 6);
    long fd = tb_sys_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long got = tb_sys3(SYS_read, fd, (long)text, sizeof(text) - 1);
    tb_sys_close((int)fd);
    text[got > 0 ? got : 0] = 0;
    const char *bracket = strrchr(text, ')');
    uint32_t parent = 0;
    if (!bracket || strlen(bracket) < 5)
        return 0;
    for (const char *c = bracket + 4; *c >= '0' && *c <= '9'; c++)
        parent = parent * 10 + (uint32_t)(*c - '0');
    return parent;
}

/* Its parent is in the middle of posix_spawn(), and says in a moment whose child this is. */
static struct tb_preload_process *wait_for_row(uint32_t pid, const struct tb_preload_process *from)
{
    const int64_t pause[2] = {0, 50000};

    for (int i = 0; i < 4000 && __atomic_load_n(&from->spawns, __ATOMIC_ACQUIRE) > 0; i++) {
        if (tb_pins_row(pid))
            break;
        (void)tb_sys3(SYS_nanosleep, (long)pause, 0, 0);
    }
    return tb_pins_row(pid);
}

/* Row of this process, if it is not left over from another one with its pid. */
static struct tb_preload_process *own_row(uint32_t pid, uint32_t parent)
{
    struct tb_preload_process *row = tb_pins_row(pid), *from;

    if (row && (row->parent == parent || is_dead(row->parent)))
        return row;
    from = tb_pins_row(parent);
    row = from && __atomic_load_n(&from->spawns, __ATOMIC_ACQUIRE) > 0 ? wait_for_row(pid, from)
                                                                       : NULL;
    return row && row->parent == parent ? row : NULL;
}

/* Nobody said whose child it is: the nearest forefather that is known, and the order of start. */
static void by_order(struct tb_pins_proc *p, uint32_t parent)
{
    struct tb_preload_process *row = NULL;

    for (int i = 0; i < 16 && parent > 1 && !(row = tb_pins_row(parent)); i++)
        parent = parent_of(parent);
    p->parent = row ? row->now ? row->now : row->id : 0;
    uint64_t key = tb_preload_mix(p->parent, tb_pins_ranks());
    uint64_t n = tb_pins_count(key);
    p->id = tb_preload_mix(key, n);
    p->marks = row || n > 0 || !tb_pins.shared ? TB_PRELOAD_BY_ORDER : 0;
}

void tb_pins_name_image(struct tb_pins_proc *p)
{
    uint32_t pid = (uint32_t)tb_sys3(SYS_getpid, 0, 0, 0);
    uint32_t parent = (uint32_t)tb_sys3(SYS_getppid, 0, 0, 0);
    struct tb_preload_process *row = own_row(pid, parent);

    p->pid = pid;
    if (row && row->now) {
        p->parent = row->now;
        p->id = tb_pins_child_id(row->now, 0, TB_BY_EXEC, 1);
    } else if (row) {
        const struct tb_preload_process *from = tb_pins_row(parent);
        p->parent = from ? from->now : 0;
        p->id = row->id;
    } else {
        by_order(p, parent);
    }
    if (row)
        __atomic_store_n(&row->now, p->id, __ATOMIC_RELEASE);
    else
        tb_pins_register(pid, parent, p->id, p->id);
}
