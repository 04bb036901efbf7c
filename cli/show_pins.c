/* View of pins: what was asked for, what was seen, in which process, and who changed it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/pins.h"
#include "cli/show.h"

static const char *const keys[TB_PIN_ROW_FIELDS] = {"pin",    "state",   "requested", "observed",
                                                    "source", "process", "step",      "where"};

static void print_json(char *const field[TB_PIN_ROW_FIELDS])
{
    putchar('{');
    for (size_t i = 0; i < TB_PIN_ROW_FIELDS; i++)
        tb_show_field(keys[i], field[i][0] && strcmp(field[i], "-") != 0 ? field[i] : NULL, i == 0);
    putchar('}');
}

static void print_text(char *const field[TB_PIN_ROW_FIELDS])
{
    printf("%-8s %-28s", field[TB_PIN_ROW_STATE], field[TB_PIN_ROW_ID]);
    if (field[TB_PIN_ROW_ASKED][0])
        printf(" requested %s", field[TB_PIN_ROW_ASKED]);
    if (field[TB_PIN_ROW_SEEN][0])
        printf("%s observed %s", field[TB_PIN_ROW_ASKED][0] ? "," : "", field[TB_PIN_ROW_SEEN]);
    if (strcmp(field[TB_PIN_ROW_STEP], "-") != 0)
        printf(", step %s", field[TB_PIN_ROW_STEP]);
    if (field[TB_PIN_ROW_WHERE][0])
        printf(", at %s", field[TB_PIN_ROW_WHERE]);
    if (field[TB_PIN_ROW_SOURCE][0])
        printf("  (%s)", field[TB_PIN_ROW_SOURCE]);
    if (field[TB_PIN_ROW_PROCESS][0])
        printf("  [%s]", field[TB_PIN_ROW_PROCESS]);
    putchar('\n');
}

enum tb_status tb_show_pins(struct tb_show *s, struct tb_error *err)
{
    size_t n = 0;
    const char *text = tb_trace_text(s->trace, "pins", &n);
    char *copy = text ? strndup(text, n) : NULL, *rest = copy, *field[TB_PIN_ROW_FIELDS];

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
        if (!tb_pin_row_split(line, field))
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
