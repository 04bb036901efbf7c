/* From the first call of a process to its state: configuration, identity, log, forks. */
#include "deterministic/preload/pins_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "deterministic/preload/device.h"
#include "deterministic/preload/sys.h"

struct tb_pins_image tb_pins;
_Thread_local struct tb_pins_tls tb_pins_tls;

extern char **environ;

/* The C library's; pthread_atfork() is a wrapper in its static part. Weak: absent in others. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *dso) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void *map_file(const char *path, int flags, int protection, int sharing, uint64_t least,
                      uint64_t *size)
{
    long fd = tb_sys_open(path, flags | O_CLOEXEC, 0);
    struct stat st = {0};
    void *p = NULL;

    if (fd < 0)
        return NULL;
    if (tb_sys3(SYS_fstat, fd, (long)&st, 0) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_size >= least) {
        p = tb_sys_map((uint64_t)st.st_size, protection, sharing, (int)fd, 0);
        *size = (uint64_t)st.st_size;
    }
    tb_sys_close((int)fd);
    return p;
}

static void join(char *out, size_t size, const char *folder, const char *name)
{
    size_t n = strlen(folder), m = strlen(name);

    out[0] = 0;
    if (n + 1 + m + 1 > size)
        return;
    memcpy(out, folder, n);
    out[n] = '/';
    memcpy(out + n + 1, name, m + 1);
}

static void map_shared(void)
{
    char path[TB_PRELOAD_PATH + 32];
    struct tb_preload_shared *s;
    uint64_t size = 0;

    join(path, sizeof(path), tb_pins.config->folder, "processes");
    s = map_file(path, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED, sizeof(*s), &size);
    if (s && s->magic == TB_PRELOAD_MAGIC && s->version == TB_PRELOAD_VERSION &&
        s->size == sizeof(*s))
        tb_pins.shared = s;
}

static void read_program(void)
{
    char path[512];
    long n =
        tb_sys6(SYS_readlinkat, -100, (long)"/proc/self/exe", (long)path, sizeof(path) - 1, 0, 0);

    path[n > 0 ? n : 0] = 0;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    length = length < sizeof(tb_pins.program) ? length : sizeof(tb_pins.program) - 1;
    memcpy(tb_pins.program, name, length);
}

static struct tb_pins_proc *make_proc(void)
{
    uint64_t bytes = (sizeof(struct tb_pins_proc) + 4095) & ~4095ull;
    void *p = tb_sys_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    tb_pins.wiped = p && tb_sys3(SYS_madvise, (long)p, (long)bytes, MADV_WIPEONFORK) == 0;
    return p;
}

static bool open_image(void)
{
    const char *path = getenv(TB_PRELOAD_ENV);
    const struct tb_preload_config *c = NULL;
    uint64_t size = 0;

    if (path && path[0] == '/')
        c = map_file(path, O_RDONLY, PROT_READ, MAP_PRIVATE, sizeof(*c), &size);
    if (!c || !tb_preload_config_good(c))
        return false;
    tb_pins.config = c;
    map_shared();
    read_program();
    struct tb_pins_proc *p = make_proc();
    if (!p)
        return false;
    tb_pins_find_all();
    __atomic_store_n(&tb_pins.proc, p, __ATOMIC_RELEASE);
    return true;
}

/* The log of the run that is repeated: that of the process with this identity. */
static void map_replay(struct tb_pins_proc *p)
{
    const struct tb_preload_config *c = tb_pins.config;
    char path[TB_PRELOAD_PATH + 32];
    const struct tb_preload_file *f;
    uint64_t size = 0;

    if (!c->replay[0])
        return;
    join(path, sizeof(path), c->replay, strrchr(p->path, '/') + 1);
    f = map_file(path, O_RDONLY, PROT_READ, MAP_PRIVATE, sizeof(*f), &size);
    if (!f || !tb_preload_file_good(f, size) || f->id != p->id)
        return;
    p->replay_size = f->end < size ? f->end : size;
    p->replay = (const char *)f;
}

void tb_pins_become_child(struct tb_pins_proc *p, uint64_t id, uint32_t marks)
{
    uint64_t parent = tb_pins.last_id;

    p->pid = (uint32_t)tb_sys3(SYS_getpid, 0, 0, 0);
    p->parent = parent;
    p->id = id;
    p->marks = marks;
    tb_pins.last_id = id;
    memset(&tb_pins_tls, 0, sizeof(tb_pins_tls));
    tb_pins_tls.thread = TB_PRELOAD_MAIN;
    tb_pins_register(p->pid, (uint32_t)tb_sys3(SYS_getppid, 0, 0, 0), id, id);
    __atomic_store_n(&p->state, TB_NAMED, __ATOMIC_RELEASE);
}

/* Made by a call that runs no handlers, as clone(2) */
static void become_unseen_child(struct tb_pins_proc *p)
{
    uint64_t key = tb_pins_child_id(tb_pins.last_id, 0, TB_BY_CLONE, 0);
    bool busy = tb_pins_tls.busy;

    tb_pins_become_child(p, tb_preload_mix(key, tb_pins_count(key)), TB_PRELOAD_BY_ORDER);
    tb_pins_tls.busy = busy;
}

static void name(struct tb_pins_proc *p)
{
    if (tb_pins.named) {
        become_unseen_child(p);
        return;
    }
    tb_pins_name_image(p);
    tb_pins.last_id = p->id;
    tb_pins.named = true;
}

static void set_up(struct tb_pins_proc *p)
{
    uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);

    if ((state == TB_FRESH || state == TB_NAMED) &&
        __atomic_compare_exchange_n(&p->state, &state, TB_SETTING_UP, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
        if (state == TB_FRESH)
            name(p);
        tb_pins_log_create(p);
        map_replay(p);
        __atomic_store_n(&p->state, TB_ON, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < 100000 && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != TB_ON; i++)
        (void)tb_sys3(SYS_sched_yield, 0, 0, 0);
}

static void open_once(void)
{
    uint32_t seen = 0;

    if (__atomic_compare_exchange_n(&tb_pins.opened, &seen, 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        bool ok = open_image();
        __atomic_store_n(&tb_pins.opened, ok ? 2 : 3, __ATOMIC_RELEASE);
        if (ok)
            tb_pins_look_for_devices();
    }
    for (int i = 0; i < 100000 && __atomic_load_n(&tb_pins.opened, __ATOMIC_ACQUIRE) == 1; i++)
        (void)tb_sys3(SYS_sched_yield, 0, 0, 0);
    seen = 1; /* a child whose parent's other thread was opening: nobody ends that here */
    (void)__atomic_compare_exchange_n(&tb_pins.opened, &seen, 3, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED);
}

struct tb_pins_proc *tb_pins_set_up(void)
{
    struct tb_pins_proc *p;
    int saved;

    if (tb_pins_tls.busy || __atomic_load_n(&tb_pins.opened, __ATOMIC_ACQUIRE) == 3 || !environ)
        return NULL;
    saved = errno;
    tb_pins_tls.busy = true;
    if (__atomic_load_n(&tb_pins.opened, __ATOMIC_ACQUIRE) != 2)
        open_once();
    p = __atomic_load_n(&tb_pins.proc, __ATOMIC_ACQUIRE);
    if (p)
        set_up(p);
    tb_pins_tls.busy = false;
    errno = saved;
    return p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == TB_ON ? p : NULL;
}

static void before_fork(void)
{
    struct tb_pins_proc *p = tb_pins.proc;

    if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == TB_ON)
        tb_pins_know(p);
    tb_pins_tls.forks++;
}

/* The kernel may be too old to wipe the memory. */
static void in_child(void)
{
    struct tb_pins_proc *p = tb_pins.proc;
    uint64_t thread = tb_pins_tls.thread ? tb_pins_tls.thread : TB_PRELOAD_MAIN;

    if (p->state != TB_FRESH)
        memset(p, 0, sizeof(*p));
    tb_pins_become_child(
        p, tb_pins_child_id(tb_pins.last_id, thread, TB_BY_FORK, tb_pins_tls.forks), 0);
}

__attribute__((constructor)) static void at_load(void)
{
    struct tb_pins_proc *p = tb_pins_self();

    if (p) {
        tb_pins_know(p);
        tb_pins_tell_files(p);
        tb_pins_python();
    }
    if (p && __register_atfork)
        (void)__register_atfork(before_fork, NULL, in_child, &__dso_handle);
}
