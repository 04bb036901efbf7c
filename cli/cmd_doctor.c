#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct doctor {
    bool json;
    const char *libdir;
};

#define AT(member) offsetof(struct doctor, member)

static const struct tb_cli_option options[] = {
    {"--json", NULL, TB_CLI_FLAG, AT(json), NULL, "one JSON document, see docs/cli.md"},
    {"--libdir", NULL, TB_CLI_STRING, AT(libdir), "DIR",
     "folder of libtwinbit.so (also: TWINBIT_LIBDIR)"},
};

static const struct tb_cli_command command = {
    .name = "doctor",
    .synopsis = "[options]",
    .about = "Says what works on this machine, what is missing, and the command that mends it. "
             "Builds the torch\n"
             "tap for the torch of $TWINBIT_PYTHON (python3 if that is not set) where the cache "
             "lacks it.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes = "exit status: 0 all that recording needs is there, 1 something is missing.\n",
};

/* In this order: later checks use what earlier ones found */
static const struct {
    const char *name;
    void (*fn)(struct tb_doctor *d, struct tb_doctor_check *c);
} checks[] = {
    {"kernel", tb_doctor_kernel},
    {"memfd", tb_doctor_memfd},
    {"pidfd", tb_doctor_pidfd},
    {"/dev/shm", tb_doctor_shm},
    {"file system", tb_doctor_filesystem},
    {"hash", tb_doctor_hash},
    {"library", tb_doctor_libdir},
    {"python", tb_doctor_python},
    {"preload", tb_doctor_preload},
    {"torch", tb_doctor_torch},
    {"compiler", tb_doctor_compiler},
    {"tap", tb_doctor_tap},
    {"cuda", tb_doctor_cuda},
};

static const char *const states[] = {"ok", "note", "missing"};

void tb_doctor_say(struct tb_doctor_check *c, enum tb_doctor_state state, const char *fmt, ...)
{
    va_list ap;

    c->state = state;
    va_start(ap, fmt);
    (void)vsnprintf(c->text, sizeof(c->text), fmt, ap);
    va_end(ap);
}

void tb_doctor_mend(struct tb_doctor_check *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(c->mend, sizeof(c->mend), fmt, ap);
    va_end(ap);
}

bool tb_doctor_find(const char *name, char *out, size_t size)
{
    const char *path = getenv("PATH");

    if (strchr(name, '/'))
        return access(name, X_OK) == 0 && snprintf(out, size, "%s", name) < (int)size;
    for (const char *p = path ? path : "/usr/bin:/bin"; p;) {
        size_t n = strcspn(p, ":");
        int len = snprintf(out, size, "%.*s%s%s", (int)n, p, n ? "/" : "./", name);
        if (len > 0 && (size_t)len < size && access(out, X_OK) == 0)
            return true;
        p = p[n] ? p + n + 1 : NULL;
    }
    return false;
}

static void child(char *const *argv, const char *preload, int out)
{
    int null = open("/dev/null", O_RDWR);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0)
        _exit(127);
    if (preload && setenv("LD_PRELOAD", preload, 1) != 0)
        _exit(127);
    execvp(argv[0], argv);
    _exit(127);
}

static size_t read_all(int fd, char *out, size_t size)
{
    size_t used = 0;
    char rest[4096];

    for (;;) {
        bool full = used + 1 >= size;
        ssize_t n = full ? read(fd, rest, sizeof(rest)) : read(fd, out + used, size - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return used;
        used += full ? 0 : (size_t)n;
    }
}

int tb_doctor_capture(char *const *argv, const char *preload, char *out, size_t size)
{
    int ends[2], status = 0;

    out[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 127;
    pid_t pid = fork();
    if (pid == 0)
        child(argv, preload, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        out[read_all(ends[0], out, size)] = '\0';
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    if (pid < 0)
        return 127;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void print(const char *name, const struct tb_doctor_check *c, bool json, bool first)
{
    if (!json) {
        printf("%-8s %-12s %s\n", states[c->state], name, c->text);
        if (c->mend[0])
            printf("%-8s %-12s mend: %s\n", "", "", c->mend);
        return;
    }
    printf("%s\n  {\"name\": \"%s\", \"state\": \"%s\", \"text\": ", first ? "" : ",", name,
           states[c->state]);
    tb_json_string(stdout, c->text);
    fputs(", \"mend\": ", stdout);
    if (c->mend[0])
        tb_json_string(stdout, c->mend);
    else
        fputs("null", stdout);
    putchar('}');
}

static int examine(struct tb_doctor *d, bool json)
{
    int status = TB_EXIT_OK;

    if (json)
        printf("{\"version\": \"%s\", \"checks\": [", TB_CLI_VERSION);
    for (size_t i = 0; i < TB_ARRAY_LEN(checks); i++) {
        struct tb_doctor_check c = {.state = TB_DOCTOR_MISSING};
        checks[i].fn(d, &c);
        print(checks[i].name, &c, json, i == 0);
        (void)fflush(stdout); /* some take seconds */
        if (c.state == TB_DOCTOR_MISSING)
            status = TB_EXIT_DIFFERS;
    }
    if (json)
        puts("\n]}");
    return tb_cli_flush(status);
}

int tb_cmd_doctor(int argc, char **argv)
{
    struct doctor o = {.json = false};
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&command, argc, argv, &o, &rest, &status))
        return status;
    if (rest.count > 0)
        return tb_cli_usage(&command, "unexpected argument '%s'", rest.item[0]);
    struct tb_doctor *d = calloc(1, sizeof(*d));
    if (!d)
        return TB_EXIT_ERROR;
    d->given_libdir = o.libdir;
    status = examine(d, o.json);
    free(d);
    return status;
}
