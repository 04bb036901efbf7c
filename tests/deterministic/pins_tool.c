/*
 * For tests of the preloaded library that are not in C.
 *
 *   pins_tool write FOLDER pin|log|replay SEED [REPLAYED]  FOLDER/config and FOLDER/log
 *   pins_tool dump FOLDER      a line an answer: kind, bytes asked, marks, module, program
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"

static int refuse(const struct tb_error *err)
{
    (void)fprintf(stderr, "pins_tool: %s\n", err->text);
    return 1;
}

static int write_config(char **argv)
{
    struct tb_preload_config c = {.time = TB_PRELOAD_LOG};
    struct tb_error err = {0};
    char path[TB_PRELOAD_PATH];

    c.entropy = strcmp(argv[1], "log") == 0   ? TB_PRELOAD_LOG
                : strcmp(argv[1], "pin") == 0 ? TB_PRELOAD_PIN
                                              : TB_PRELOAD_REPLAY;
    c.listing = c.tempnames = c.entropy;
    c.seed = strtoull(argv[2], NULL, 0);
    (void)snprintf(path, sizeof(path), "%s/config", argv[0]);
    (void)snprintf(c.folder, sizeof(c.folder), "%s/log", argv[0]);
    if (argv[3])
        (void)snprintf(c.replay, sizeof(c.replay), "%s/log", argv[3]);
    return tb_preload_config_write(path, &c, &err) == TB_OK ? 0 : refuse(&err);
}

static int dump(const char *folder)
{
    struct tb_preload_logs *logs = NULL;
    struct tb_preload_log *log = NULL;
    struct tb_preload_event e;
    struct tb_error err = {0};
    char path[TB_PRELOAD_PATH];

    (void)snprintf(path, sizeof(path), "%s/log", folder);
    if (tb_preload_logs_open(path, &logs, &err) != TB_OK)
        return refuse(&err);
    for (size_t i = 0; i < tb_preload_logs_count(logs); i++) {
        if (tb_preload_log_at(logs, i, &log, &err) != TB_OK)
            return refuse(&err);
        while (tb_preload_log_next(log, &e))
            if (e.record->kind >= TB_PRELOAD_GETRANDOM)
                printf("%s\t%llu\t%x\t%s\t%s\n", tb_preload_kind_name(e.record->kind),
                       (unsigned long long)e.record->asked, e.record->marks, e.module,
                       tb_preload_log_file(log)->program);
        tb_preload_log_close(log);
    }
    tb_preload_logs_close(logs);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 5 && strcmp(argv[1], "write") == 0)
        return write_config(argv + 2);
    if (argc == 3 && strcmp(argv[1], "dump") == 0)
        return dump(argv[2]);
    (void)fputs("usage: pins_tool write FOLDER pin|log|replay SEED [REPLAYED] | dump FOLDER\n",
                stderr);
    return 2;
}
