/* How the jobs of two runs ended. */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *status_text(const char *status, char *out, size_t size)
{
    long n = strtol(status, NULL, 10);

    if (n > 128 && n < 128 + 65)
        (void)snprintf(out, size, "%ld (signal %ld)", n, n - 128);
    else
        (void)snprintf(out, size, "%ld", n);
    return out;
}

/* Equal traces of jobs that did not end equally: one did something that was not recorded */
enum tb_status note_ends(struct report_builder *rb)
{
    struct tb_diff_report *rep = rb->rep;

    for (size_t i = 0; i < rb->a->procs; i++) {
        const struct run_process *p = &rb->a->proc[i];
        if (p->mate < 0)
            continue;
        const char *a = tb_trace_meta(rb->a->trace[p->file], "exit_status");
        const char *b = tb_trace_meta(rb->b->trace[rb->b->proc[p->mate].file], "exit_status");
        char ta[48], tb[48];
        if (!a || !b || (strcmp(a, b) == 0 && strcmp(a, "0") == 0))
            continue;
        (void)status_text(a, ta, sizeof(ta));
        (void)status_text(b, tb, sizeof(tb));
        if (strcmp(a, b) == 0)
            return add_line(&rep->notes, &rep->note_count, 1,
                            "the job of both runs ended with status %s", ta);
        note_incomplete(rb, "the job of run A ended with status %s, that of run B with %s", ta, tb);
        return add_line(&rep->notes, &rep->note_count, 1,
                        "the job of run A ended with status %s, that of run B with %s", ta, tb);
    }
    return TB_OK;
}
