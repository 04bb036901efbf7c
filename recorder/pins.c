/*
 * Reading pins back: the environment as this process has it, and properties of the process. What is
 * asked for stands in a file that the parent wrote (deterministic/plan.h, tb_pin_plan_write()).
 * Once, at attach; libraries are asked later and from Python, for a question may start them.
 */
#include "recorder/recorder_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLAN_BYTES (64u * 1024u)

struct row {
    char *id, *mechanism, *request, *sets, *value;
};

/* Answers until a message is full */
struct answer {
    struct tb_wire_msg *msg;
    size_t used;
};

static char *read_file(const char *path, size_t size)
{
    char *text = tb_rt_pool(size);
    size_t n = 0;
    ssize_t got = 1;
    int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    while (fd >= 0 && got > 0 && n < size - 1) {
        got = read(fd, text + n, size - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    if (n == 0 && text) {
        tb_rt_unmap(text, size);
        text = NULL;
    }
    return text;
}

/* The line at *@at, cut at its tabs; false at the end */
static bool next_row(char **at, struct row *r)
{
    char **field[] = {&r->id, &r->mechanism, &r->request, &r->sets, &r->value};
    char *line = *at;
    size_t i = 0, len = strcspn(line, "\n");

    if (!*line)
        return false;
    *at = line + len + (line[len] == '\n');
    line[len] = 0;
    for (; i < TB_ARRAY_LEN(field); i++) {
        char *tab = strchr(line, '\t');
        *field[i] = line;
        line = tab ? tab + 1 : line + strlen(line);
        if (tab)
            *tab = 0;
    }
    return true;
}

static void put(struct answer *a, const char *text)
{
    size_t room = sizeof(a->msg->text) - a->used;

    for (size_t i = 0; i < 512 && room > 2 && text[i]; i++, room--) {
        char c = text[i];
        a->msg->text[a->used++] = c == '\n' || c == '\t' ? ' ' : c;
    }
}

static void mark(struct answer *a, char c)
{
    if (a->used < sizeof(a->msg->text) - 1)
        a->msg->text[a->used++] = c;
}

static void flush(struct answer *a)
{
    if (a->used)
        (void)tb_rt_call(a->msg, -1, NULL, NULL, 500);
    memset(a->msg->text, 0, sizeof(a->msg->text));
    a->used = 0;
}

static void say(struct answer *a, const char *id, const char *state, const char *value)
{
    if (a->used + 700 > sizeof(a->msg->text))
        flush(a);
    put(a, id);
    mark(a, '\t');
    put(a, state);
    mark(a, '\t');
    mark(a, '-');
    mark(a, '\t');
    put(a, value);
    mark(a, '\t');
    mark(a, '\n');
}

/* ---------------------------------------------------------------- the environment */

/* Value of the first variable of "A, B"; *@same: all have it */
static const char *variable(const char *sets, bool *same)
{
    const char *first = NULL;
    char name[128];

    *same = true;
    for (const char *p = sets; *p;) {
        size_t n = strcspn(p, ",");
        if (n >= sizeof(name))
            return NULL;
        memcpy(name, p, n);
        name[n] = 0;
        const char *value = getenv(name);
        if (p == sets)
            first = value;
        else if (!value || !first || strcmp(value, first) != 0)
            *same = false;
        p += n + strspn(p + n, ", ");
    }
    return first;
}

static void environment(struct answer *a, const struct row *r)
{
    bool same, held = false;
    const char *value = variable(r->sets, &same), *state = "read";

    if (strcmp(r->request, "set") == 0)
        held = value && same && strcmp(value, r->value) == 0;
    else if (strcmp(r->request, "add") == 0)
        held = value && strstr(value, r->value);
    if (strcmp(r->request, "set") == 0 || strcmp(r->request, "add") == 0)
        state = held ? "given" : "missed";
    say(a, r->id, state, value ? value : "(unset)");
}

/* ---------------------------------------------------------------- the process */

static char *number(char *out, unsigned n)
{
    char digits[12];
    size_t k = 0;

    do
        digits[k++] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    while (k)
        *out++ = digits[--k];
    *out = 0;
    return out;
}

/* "0-3,8" */
static void affinity(struct answer *a, const struct row *r)
{
    static cpu_set_t set; /* written by the thread that attaches, once */
    char text[512], *end = text;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    for (unsigned from = 0, to; from < CPU_SETSIZE && end < text + sizeof(text) - 32;
         from = to + 1) {
        to = from;
        if (!CPU_ISSET(from, &set))
            continue;
        while (to + 1 < CPU_SETSIZE && CPU_ISSET(to + 1, &set))
            to++;
        if (end > text)
            *end++ = ',';
        end = number(end, from);
        if (to > from) {
            *end++ = '-';
            end = number(end, to);
        }
    }
    *end = 0;
    say(a, r->id, "read", text);
}

/* As /proc has it: umask(2) can only be asked by changing it */
static void file_mode(struct answer *a, const struct row *r)
{
    char *status = read_file("/proc/self/status", 8192);
    char *line = status ? strstr(status, "\nUmask:") : NULL;

    if (line) {
        line += 7 + strspn(line + 7, " \t");
        line[strcspn(line, "\n")] = 0;
        line += strlen(line) > 3; /* "0022" */
        say(a, r->id,
            strcmp(r->request, "set") != 0 ? "read"
            : strcmp(line, r->value) == 0  ? "held"
                                           : "missed",
            line);
    }
    if (status)
        tb_rt_unmap(status, 8192);
}

static void process(struct answer *a, const struct row *r)
{
    if (strcmp(r->id, "cpu.affinity") == 0) {
        affinity(a, r);
    } else if (strcmp(r->id, "system.umask") == 0) {
        file_mode(a, r);
    } else if (strcmp(r->id, "system.aslr") == 0) {
        bool off = personality(0xffffffff) & ADDR_NO_RANDOMIZE; /* asks, changes nothing */
        say(a, r->id,
            strcmp(r->request, "set") != 0 ? "read"
            : off                          ? "held"
                                           : "missed",
            off ? "on" : "off");
    }
}

void tb_rt_pins(void)
{
    const char *path = getenv(TB_WIRE_PINS);
    char *text = path && path[0] == '/' ? read_file(path, PLAN_BYTES) : NULL, *at = text;
    struct answer a = {.msg = text ? tb_rt_message(TB_MSG_PIN) : NULL};
    struct row r;

    if (!a.msg || !next_row(&at, &r)) /* its head */
        goto out;
    while (next_row(&at, &r)) {
        if (strcmp(r.request, "leave") == 0)
            continue;
        if (strcmp(r.mechanism, "env") == 0)
            environment(&a, &r);
        else if (strcmp(r.mechanism, "process") == 0)
            process(&a, &r);
    }
    flush(&a);
out:
    tb_rt_message_done(a.msg);
    if (text)
        tb_rt_unmap(text, PLAN_BYTES);
}
