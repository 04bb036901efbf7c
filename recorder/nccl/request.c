/* What the run asks of NCCL's pins: the plan (deterministic/plan.h, tb_pin_plan_write()). */
#include "recorder/nccl/nccl_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLAN_BYTES (64u * 1024u)

static const char *const ids[NCCL_PINS] = {
    [NCCL_PIN_ALGO] = "nccl.algo",          [NCCL_PIN_PROTO] = "nccl.proto",
    [NCCL_PIN_CHANNELS] = "nccl.channels",  [NCCL_PIN_THREADS] = "nccl.threads",
    [NCCL_PIN_NVLS] = "nccl.nvls",          [NCCL_PIN_COLLNET] = "nccl.collnet",
    [NCCL_PIN_ORDER] = "nccl.launch_order", [NCCL_PIN_RANKS] = "nccl.ranks",
};

const char *nccl_pin_id(enum nccl_pin pin)
{
    return ids[pin];
}

/* ---------------------------------------------------------------- the plan */

/* The @n-th field of a line, up to its tab; *@len without it */
static const char *field(const char *line, int n, size_t *len)
{
    while (n--) {
        line += strcspn(line, "\t\n");
        line += *line == '\t';
    }
    *len = strcspn(line, "\t\n");
    return line;
}

static enum nccl_asked asked(const char *word, size_t len)
{
    static const char *const words[] = {"leave", "read", "keep", "set", "job"};
    static const enum nccl_asked what[] = {NCCL_ASKED_NOT, NCCL_ASKED_READ, NCCL_ASKED_KEEP,
                                           NCCL_ASKED_SET, NCCL_ASKED_JOB};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0)
            return what[i];
    return NCCL_ASKED_NOT;
}

static bool take_line(const char *line, struct nccl_request out[NCCL_PINS])
{
    size_t id, len;

    (void)field(line, 0, &id);
    for (int i = 0; i < NCCL_PINS; i++) {
        if (strlen(ids[i]) != id || memcmp(ids[i], line, id) != 0)
            continue;
        const char *word = field(line, 2, &len);
        out[i].asked = asked(word, len);
        const char *value = field(line, 4, &len);
        len = len < sizeof(out[i].value) ? len : sizeof(out[i].value) - 1;
        memcpy(out[i].value, value, len);
        out[i].value[len] = 0;
        return out[i].asked != NCCL_ASKED_NOT;
    }
    return false;
}

static size_t read_plan(char *text, size_t size)
{
    const char *path = getenv(TB_WIRE_PINS);
    int fd = path && path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    size_t n = 0;
    ssize_t got = 1;

    while (fd >= 0 && got > 0 && n < size - 1) {
        got = read(fd, text + n, size - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    text[n] = 0;
    return n;
}

bool nccl_requests_read(struct nccl_request out[NCCL_PINS])
{
    char *text = mmap(NULL, PLAN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool any = false;

    if (text == MAP_FAILED)
        return false;
    if (read_plan(text, PLAN_BYTES))
        for (const char *line = text; *line; line += line[0] == '\n') {
            any |= take_line(line, out);
            line += strcspn(line, "\n");
        }
    (void)munmap(text, PLAN_BYTES);
    return any;
}

/* ---------------------------------------------------------------- NCCL_ALGO, NCCL_PROTO */

static char plain(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* Is the text of @n bytes that name? */
static bool same(const char *text, size_t n, const char *name)
{
    const char *end = text + n;

    for (;;) {
        while (text < end && *text == '_')
            text++;
        while (*name == '_')
            name++;
        if (text == end || !*name)
            return text == end && !*name;
        if (plain(*text++) != plain(*name++))
            return false;
    }
}

static bool listed(const char *list, const char *end, const char *word)
{
    while (list < end) {
        size_t n = strcspn(list, ",;");
        n = n < (size_t)(end - list) ? n : (size_t)(end - list);
        if (same(list, n, word))
            return true;
        list += n + 1;
    }
    return false;
}

bool nccl_allows(const char *list, const char *func, const char *word)
{
    bool allowed = true; /* of what is not in the list NCCL chooses by itself */

    while (*list) {
        const char *end = list + strcspn(list, ";");
        const char *colon = memchr(list, ':', (size_t)(end - list));
        if (!colon || same(list, (size_t)(colon - list), func)) {
            const char *names = colon ? colon + 1 : list;
            bool but = *names == '^';
            allowed = listed(names + but, end, word) != but;
        }
        list = end + (*end == ';');
    }
    return allowed;
}
