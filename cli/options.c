#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- values */

bool tb_cli_parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *out = v;
    return true;
}

bool tb_cli_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char digits[32];
    size_t len = strlen(text);
    unsigned shift = 0;
    uint64_t v;

    if (len == 0 || len >= sizeof(digits))
        return false;
    const char *unit = strchr(units, toupper((unsigned char)text[len - 1]));
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        len--;
    }
    memcpy(digits, text, len);
    digits[len] = '\0';
    if (!tb_cli_parse_number(digits, &v) || v > UINT64_MAX >> shift)
        return false;
    *out = v << shift;
    return true;
}

/* By hand: strtod() reads a comma in some locales, and "inf". Digits that are too small to matter
 * are read all the same. */
bool tb_cli_parse_share(const char *text, uint32_t *out)
{
    double value = 0, unit = 1;
    size_t digits = 0;
    bool fraction = false;

    for (; *text; text++) {
        if (*text == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (*text < '0' || *text > '9')
            return false;
        digits++;
        unit = fraction ? unit / 10 : 1;
        value = fraction ? value + unit * (*text - '0') : value * 10 + (*text - '0');
    }
    if (digits == 0 || !(value > 0) || value > 1)
        return false;
    *out = value * 65536 < 1 ? 1 : (uint32_t)(value * 65536 + 0.5);
    return true;
}

bool tb_cli_parse_steps(const char *text, struct tb_cli_steps *out)
{
    struct tb_cli_steps s = {.from = 0, .to = UINT64_MAX, .given = true};
    const char *dots = strstr(text, "..");
    char low[24] = "";

    if (!dots) {
        if (!tb_cli_parse_number(text, &s.from))
            return false;
        s.to = s.from;
    } else {
        size_t n = (size_t)(dots - text);
        if (n >= sizeof(low) || (n == 0 && dots[2] == '\0'))
            return false;
        memcpy(low, text, n);
        if (n > 0 && !tb_cli_parse_number(low, &s.from))
            return false;
        if (dots[2] != '\0' && !tb_cli_parse_number(dots + 2, &s.to))
            return false;
    }
    if (s.from > s.to)
        return false;
    *out = s;
    return true;
}

static bool parse_choice(const char *words, const char *text, unsigned *out)
{
    size_t len = strlen(text);
    unsigned index = 0;

    for (const char *w = words; w; index++) {
        const char *bar = strchr(w, '|');
        size_t n = bar ? (size_t)(bar - w) : strlen(w);
        if (n == len && memcmp(w, text, n) == 0) {
            *out = index;
            return true;
        }
        w = bar ? bar + 1 : NULL;
    }
    return false;
}

static bool add_to_list(struct tb_cli_list *list, const char *text)
{
    if (list->count == TB_CLI_LIST_MAX)
        return false;
    list->item[list->count++] = text;
    return true;
}

/* What a bad value should have been; NULL: it was good and is stored */
static const char *store_value(const struct tb_cli_option *o, void *at, const char *text)
{
    switch (o->kind) {
    case TB_CLI_FLAG:
        *(bool *)at = true;
        return NULL;
    case TB_CLI_STRING:
        *(const char **)at = text;
        return *text ? NULL : "a value that is not empty";
    case TB_CLI_LIST:
        return add_to_list(at, text) ? NULL : "at most 64 of them";
    case TB_CLI_NUMBER:
        return tb_cli_parse_number(text, at) ? NULL : "a number";
    case TB_CLI_SIZE:
        return tb_cli_parse_size(text, at) ? NULL : "a size such as 512M (K, M, G or T)";
    case TB_CLI_SHARE:
        return tb_cli_parse_share(text, at) ? NULL : "a share above 0, at most 1, such as 0.01";
    case TB_CLI_STEPS:
        return tb_cli_parse_steps(text, at) ? NULL : "steps such as 3..9";
    case TB_CLI_CHOICE:
        return parse_choice(o->value, text, at) ? NULL : o->value;
    }
    return "nothing";
}

/* ---------------------------------------------------------------- help and errors */

static const char *program_of(const struct tb_cli_command *cmd)
{
    return cmd->program ? cmd->program : "twinbit";
}

void tb_cli_help(const struct tb_cli_command *cmd, FILE *out)
{
    fprintf(out, "usage: %s %s%s%s\n\n%s", program_of(cmd), cmd->name, *cmd->synopsis ? " " : "",
            cmd->synopsis, cmd->about);
    fputs("\noptions:\n", out);
    for (size_t i = 0; i < cmd->option_count; i++) {
        const struct tb_cli_option *o = &cmd->options[i];
        char left[64];
        if (!o->help) /* for tests */
            continue;
        int n = snprintf(left, sizeof(left), "%s%s%s%s%s", o->letter ? o->letter : "",
                         o->letter ? ", " : "", o->name, o->kind == TB_CLI_FLAG ? "" : " ",
                         o->kind == TB_CLI_FLAG ? "" : o->value);
        if (n > 22)
            fprintf(out, "  %s\n  %-22s %s\n", left, "", o->help);
        else
            fprintf(out, "  %-22s %s\n", left, o->help);
    }
    fprintf(out, "  %-22s %s\n", "-h, --help", "print this and exit");
    if (cmd->notes)
        fprintf(out, "\n%s", cmd->notes);
}

int tb_cli_usage(const struct tb_cli_command *cmd, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    tb_log("%s: %s (see '%s %s -h')", cmd->name, text, program_of(cmd), cmd->name);
    return TB_EXIT_ERROR;
}

int tb_cli_error(const char *command, const struct tb_error *err)
{
    tb_log("%s: %s", command, err->text[0] ? err->text : tb_status_name(err->status));
    return TB_EXIT_ERROR;
}

/* ---------------------------------------------------------------- command line */

static const struct tb_cli_option *find_option(const struct tb_cli_command *cmd, const char *arg,
                                               size_t len)
{
    for (size_t i = 0; i < cmd->option_count; i++) {
        const struct tb_cli_option *o = &cmd->options[i];
        if (strlen(o->name) == len && memcmp(o->name, arg, len) == 0)
            return o;
        if (o->letter && strlen(o->letter) == len && memcmp(o->letter, arg, len) == 0)
            return o;
    }
    return NULL;
}

/* Taken for a forgotten value; who really means it writes --option=VALUE. */
static bool is_option(const struct tb_cli_command *cmd, const char *arg)
{
    return strcmp(arg, "--") == 0 ||
           (strncmp(arg, "--", 2) == 0 && find_option(cmd, arg, strcspn(arg, "=")));
}

/* One option at argv[*i]; advances *i past a value of its own */
static bool parse_option(const struct tb_cli_command *cmd, int argc, char **argv, int *i,
                         void *values, int *status)
{
    const char *arg = argv[*i];
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    const struct tb_cli_option *o = find_option(cmd, arg, len);
    const char *value = equals ? equals + 1 : NULL;

    if (!o) {
        *status = tb_cli_usage(cmd, "unknown option '%.*s'", (int)len, arg);
        return false;
    }
    if (o->kind == TB_CLI_FLAG && value) {
        *status = tb_cli_usage(cmd, "option '%s' takes no value", o->name);
        return false;
    }
    if (o->kind != TB_CLI_FLAG && !value) {
        if (*i + 1 >= argc) {
            *status = tb_cli_usage(cmd, "option '%s' needs a value (%s)", o->name, o->value);
            return false;
        }
        if (is_option(cmd, argv[*i + 1])) {
            *status = tb_cli_usage(cmd, "option '%s' needs a value (%s), and '%s' is an option",
                                   o->name, o->value, argv[*i + 1]);
            return false;
        }
        value = argv[++*i];
    }
    const char *expected = store_value(o, (char *)values + o->offset, value);
    if (expected)
        *status = tb_cli_usage(cmd, "option '%s': '%s' is not acceptable, expected %s", o->name,
                               value ? value : "", expected);
    return expected == NULL;
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0;
}

bool tb_cli_parse(const struct tb_cli_command *cmd, int argc, char **argv, void *values,
                  struct tb_cli_rest *rest, int *status)
{
    int kept = 1; /* operands move to argv[1..kept) */
    int i = 1;

    for (; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if (cmd->job)
                break;
            argv[kept++] = argv[i];
            continue;
        }
        if (is_help(argv[i])) {
            tb_cli_help(cmd, stdout);
            *status = tb_cli_flush(TB_EXIT_OK);
            return false;
        }
        if (!parse_option(cmd, argc, argv, &i, values, status))
            return false;
    }
    while (i < argc)
        argv[kept++] = argv[i++];
    argv[kept] = NULL;
    *rest = (struct tb_cli_rest){.item = argv + 1, .count = kept - 1};
    return true;
}
