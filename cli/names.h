/*
 * names.h - event names (diff/diff.h) of a process, counted while its events go by; private to
 * cli/.
 *
 * The number at the end of a name counts the events of one thread, step, module path and operator
 * since the step began, so a name is known only to who has seen all of the step: feed events in
 * order.
 */
#ifndef TB_CLI_NAMES_H
#define TB_CLI_NAMES_H

#include "common/common.h"
#include "store/store.h"

struct tb_cli_names;

/** tb_cli_names_new - NULL if memory could not be had; free with tb_cli_names_free() */
struct tb_cli_names *tb_cli_names_new(struct tb_trace *t, const struct tb_trace_process *process);
void tb_cli_names_free(struct tb_cli_names *n);

/**
 * tb_cli_names_next - whole name of the next event of the process
 * @text: set on success; valid until the next call
 */
enum tb_status tb_cli_names_next(struct tb_cli_names *n, const struct tb_trace_event *e,
                                 const char **text, struct tb_error *err) TB_MUST_CHECK;

/** tb_cli_range_field - n-th tab-separated field of a range ("phase\tmodule-path\tuser") into @out
 */
const char *tb_cli_range_field(const char *range, unsigned n, char *out, size_t size);

#endif
