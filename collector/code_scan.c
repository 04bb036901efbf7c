/* Candidates of a file, the functions that they are in, and which of them are instructions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/code.h"

#define CHUNK ((size_t)1 << 20)
#define WINDOW ((size_t)64 << 10)
#define LITTLE ((size_t)4 << 10)
#define UNKNOWN UINT64_MAX
#define BEFORE 256u /* where no table has a function: decoding finds its step within some bytes */
#define REACH 65536u
#define NAMES 3u
#define MOST_STEPS ((uint64_t)64 << 20) /* symbols by what they cover: more is damage */

/* A place where the bytes of an instruction are */
struct spot {
    uint64_t address, begin; /* begin of its function, or UNKNOWN */
    uint64_t symbol;         /* address of the symbol that covers it, or the last before it */
    uint32_t name;
    uint8_t table;
    bool named, covered;
};

struct scan {
    struct tb_code_elf elf;
    const struct tb_code_cpu *cpu;
    struct spot *spot;
    size_t spots, room;
    uint8_t *buffer;
    uint64_t at, function; /* decoding has come to here, from the begin of this one */
    uint64_t window;       /* address of what is in the buffer, and how much of it */
    size_t filled;
    bool last; /* the file ends there */
    uint64_t decoded, steps;
    struct tb_code_found *out;
};

/* ---------------------------------------------------------------- candidates */

static bool add_spot(struct scan *s, uint64_t address)
{
    if (s->spots == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        void *grown = room <= TB_CODE_SPOTS ? realloc(s->spot, room * sizeof(*s->spot)) : NULL;
        if (!grown)
            return false;
        s->spot = grown;
        s->room = room;
    }
    s->spot[s->spots++] = (struct spot){.address = address, .begin = UNKNOWN};
    return true;
}

/* Chunks overlap, so that none is cut: in all but the last one the end is the next one's */
static void find_spots(struct scan *s, const struct tb_code_range *r)
{
    for (uint64_t at = 0, n = 0; at < r->size; at += n) {
        uint64_t rest = r->size - at, want = rest < CHUNK ? rest : CHUNK;
        size_t got = tb_code_read(&s->elf, r->offset + at, s->buffer, (size_t)want);
        memset(s->buffer + got, 0, TB_CODE_AHEAD + 1);
        n = got == want && want < rest ? got - TB_CODE_AHEAD : got;
        for (size_t i = s->cpu->next(s->buffer, n, 0); i < n; i = s->cpu->next(s->buffer, n, i + 1))
            if (!add_spot(s, r->address + at + i)) {
                s->out->cut = true;
                return;
            }
        if (got < want)
            break; /* the file has become shorter */
    }
}

/* ---------------------------------------------------------------- functions */

/* The first spot at @address or behind it; spots of one range are in order */
static size_t first_from(const struct scan *s, uint64_t address)
{
    size_t low = 0, high = s->spots;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->spot[mid].address < address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A symbol without a size reaches to the next one, and not for long */
static void take_symbol(void *arg, uint64_t address, uint64_t size, unsigned table, uint32_t name)
{
    struct scan *s = arg;
    uint64_t end = address + (size ? size : REACH);

    for (size_t i = first_from(s, address); i < s->spots && s->spot[i].address < end; i++) {
        struct spot *p = &s->spot[i];
        if (s->steps++ > MOST_STEPS)
            return;
        if (p->named &&
            (p->covered > (size != 0) || (p->covered == (size != 0) && p->symbol >= address)))
            continue;
        p->named = true;
        p->covered = size != 0;
        p->symbol = address;
        p->table = (uint8_t)table;
        p->name = name;
    }
}

static int by_address(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;

    return (x->address > y->address) - (x->address < y->address);
}

static void find_functions(struct scan *s)
{
    uint64_t begin = 0, end = 0;

    qsort(s->spot, s->spots, sizeof(*s->spot), by_address);
    tb_code_each_symbol(&s->elf, take_symbol, s);
    for (size_t i = 0; i < s->spots; i++) {
        struct spot *p = &s->spot[i];
        if ((p->address >= begin && p->address < end) ||
            tb_code_function(&s->elf, p->address, &begin, &end))
            p->begin = begin;
        else if (p->named)
            p->begin = p->symbol;
    }
}

/* ---------------------------------------------------------------- decoding */

static const struct tb_code_range *range_of(const struct scan *s, uint64_t address)
{
    for (unsigned i = 0; i < s->elf.codes; i++)
        if (address >= s->elf.code[i].address &&
            address - s->elf.code[i].address < s->elf.code[i].size)
            return &s->elf.code[i];
    return NULL;
}

/* Bytes of the range from s->at on, behind @address or as many as fit; *@n of them */
static const uint8_t *bytes_at(struct scan *s, const struct tb_code_range *r, uint64_t address,
                               size_t *n)
{
    uint64_t end = address + TB_CODE_AHEAD, want = end - s->at;

    if (s->at < s->window || end > s->window + s->filled) {
        want = want > WINDOW ? WINDOW : want < LITTLE ? LITTLE : want;
        s->window = s->at;
        s->filled = tb_code_read(&s->elf, r->offset + (s->at - r->address), s->buffer, want);
        s->last = s->filled < want;
    }
    *n = s->filled - (size_t)(s->at - s->window);
    return s->buffer + (s->at - s->window);
}

/* Decodes on from s->at; true: it is one */
static bool is_instruction(struct scan *s, const struct spot *p, enum tb_code_kind *kind)
{
    const struct tb_code_range *r = range_of(s, p->address);
    bool found = false;

    if (!r)
        return false;
    if (s->at < r->address)
        s->at = r->address;
    while (!found && s->at <= p->address) {
        size_t at = 0, to = (size_t)(p->address - s->at), n;
        const uint8_t *bytes = bytes_at(s, r, p->address, &n);
        found = s->cpu->decode(bytes, n, s->last || n > to, &at, to, kind);
        s->decoded += at;
        s->at = at ? s->at + at : UNKNOWN; /* the file has become shorter */
    }
    return found;
}

/* Where to decode from, into s->at: on from where it is, if that is in the same function. Where no
 * table has one, some bytes before do */
static void go_to(struct scan *s, const struct spot *p)
{
    uint64_t near = p->address > BEFORE ? p->address - BEFORE : 0;
    bool on = p->begin == s->function && (p->begin != UNKNOWN || s->at >= near);

    if (!on)
        s->at = p->begin == UNKNOWN ? near : p->begin;
    s->function = p->begin;
}

static bool has_name(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ','))
            return true;
    return false;
}

/* Of a static program: a pause of chance in a loop that waits for a lock */
static bool is_libcs(const char *name)
{
    static const char lock[] = "pthread_mutex_lock";
    size_t n = strlen(name);

    return n >= sizeof(lock) - 1 && strcmp(name + n - (sizeof(lock) - 1), lock) == 0;
}

static void count_one(struct scan *s, const struct spot *p, enum tb_code_kind kind, unsigned *names)
{
    char *list = s->out->functions[kind], name[TB_CODE_NAMES / NAMES - 5] = "";
    size_t used = strlen(list);

    if (p->named)
        tb_code_name(&s->elf, p->table, p->name, name, sizeof(name));
    (void)tb_plain(name, false);
    if (is_libcs(name))
        return;
    s->out->count[kind]++;
    if (name[0] && !has_name(list, name) && ++*names <= NAMES + 1)
        (void)snprintf(list + used, TB_CODE_NAMES - used, "%s%s", used ? ", " : "",
                       *names > NAMES ? "..." : name);
}

static void count_instructions(struct scan *s)
{
    unsigned names[TB_CODE_KINDS] = {0};
    enum tb_code_kind kind = TB_CODE_CLOCK;

    s->window = s->filled = 0;
    s->function = s->at = 0;
    for (size_t i = 0; i < s->spots; i++) {
        const struct spot *p = &s->spot[i];
        if (s->decoded > TB_CODE_DECODED) {
            s->out->cut = true;
            return;
        }
        go_to(s, p); /* behind it: it is inside of the instruction that was decoded last */
        if (is_instruction(s, p, &kind))
            count_one(s, p, kind, &names[kind]);
    }
}

/* ---------------------------------------------------------------- a file */

static const struct tb_code_cpu *cpu_of(const struct tb_code_elf *e)
{
#ifdef __x86_64__
    if (e->machine == tb_code_x86.machine)
        return &tb_code_x86;
#endif
    return e->machine == tb_code_arm.machine ? &tb_code_arm : NULL;
}

static enum tb_status look(struct scan *s, uint64_t most, const char *path, struct tb_error *err)
{
    for (unsigned i = 0; i < s->elf.codes; i++)
        s->out->bytes += s->elf.code[i].size;
    s->cpu = cpu_of(&s->elf);
    if (!s->cpu)
        return tb_fail(err, TB_ERR_FORMAT, "'%s' is for another kind of CPU", path);
    if (s->out->bytes > most)
        return tb_fail(err, TB_ERR_LIMIT, "'%s' has too much code", path);
    s->buffer = malloc(CHUNK + TB_CODE_AHEAD + 1);
    if (!s->buffer)
        return tb_fail(err, TB_ERR_NOMEM, "no memory to look into '%s'", path);
    for (unsigned i = 0; i < s->elf.codes; i++)
        find_spots(s, &s->elf.code[i]);
    if (s->spots) {
        find_functions(s);
        count_instructions(s);
    }
    return TB_OK;
}

enum tb_status tb_code_look(const char *path, uint64_t most, struct tb_code_found *out,
                            struct tb_error *err)
{
    struct scan s = {.out = out};

    *out = (struct tb_code_found){0};
    enum tb_status st = tb_code_open(path, &s.elf, err);
    if (st != TB_OK)
        return st;
    st = look(&s, most, path, err);
    tb_code_close(&s.elf);
    free(s.spot);
    free(s.buffer);
    return st;
}
