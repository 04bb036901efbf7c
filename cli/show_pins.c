/* View of pins: what was asked for, what was seen, in which process, and who changed it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show.h"

enum { ID, STATE, ASKED, SEEN, SOURCE, PROCESS, STEP, WHERE, FIELDS };

static const char *const keys[FIELDS] = {"pin",    "state",   "requested", "observed",
                                         "source", "process", "step",      "where"};

static bool split(char *line, char *field[FIELDS])
{
    for (size_t i = 0; i < FIELDS; i++) {
        field[i] = line;
        line = line ? strchr(line, '\t') : NULL;
        if (line)
            *line++ = 0;
        else if (i + 1 < FIELDS)
            return false;
    }
    return true;
}

static void print_json(char *const field[FIELDS])
{
    putchar('{');
    for (size_t i = 0; i < FIELDS; i++)
        tb_show_field(keys[i], field[i][0] && strcmp(field[i], "-") != 0 ? field[i] : NULL, i == 0);
    putchar('}');
}

static void print_text(char *const field[FIELDS])
{
    printf("%-8s %-28s", field[STATE], field[ID]);
    if (field[ASKED][0])
        printf(" requested %s", field[ASKED]);
    if (field[SEEN][0])
        printf("%s observed %s", field[ASKED][0] ? "," : "", field[SEEN]);
    if (strcmp(field[STEP], "-") != 0)
        printf(", step %s", field[STEP]);
    if (field[WHERE][0])
        printf(", at %s", field[WHERE]);
    if (field[SOURCE][0])
        printf("  (%s)", field[SOURCE]);
    if (field[PROCESS][0])
        printf("  [%s]", field[PROCESS]);
    putchar('\n');
}

enum tb_status tb_show_pins(struct tb_show *s, struct tb_error *err)
{
    size_t n = 0;
    const char *text = tb_trace_text(s->trace, "pins", &n);
    char *copy = text ? strndup(text, n) : NULL, *rest = copy, *field[FIELDS];

    if (text && !copy)
        return tb_fail(err, TB_ERR_NOMEM, "no memory");
    if (!text) {
        tb_log("show: this trace has no pins: it was recorded by an earlier version, or by bisect");
        return TB_OK;
    }
    char *head = strsep(&rest, "\n");
    if (!s->json)
        puts(head);
    for (char *line; rest && (line = strsep(&rest, "\n")) != NULL && *line;) {
        (void)tb_plain(line, true);
        if (!split(line, field))
            continue;
        if (!tb_show_row(s))
            break;
        if (s->json)
            print_json(field);
        else
            print_text(field);
    }
    free(copy);
    return TB_OK;
}
