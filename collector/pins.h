/*
 * pins.h - pins of a run, as pins.c puts them in and takes answers, and as pins_text.c tells them.
 * Start at struct tb_pins.
 */
#ifndef TB_COLLECTOR_PINS_H
#define TB_COLLECTOR_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "deterministic/plan.h"

#define TB_PINS_VALUE 160
#define TB_PINS_NCCL_PROFILER "NCCL_PROFILER_PLUGIN"

/** struct tb_pins_row - what one process said of one pin, the newest that matters */
struct tb_pins_row {
    pid_t pid;
    uint32_t index; /* order of attach of the process then known by this pid, 0: none */
    size_t choice;
    bool part; /* of several that the process said of this pin, told apart by `where` */
    enum tb_pin_state state;
    uint64_t changes;
    char step[24], value[TB_PINS_VALUE], where[TB_PINS_VALUE];
    char argv[TB_PINS_VALUE]; /* of a process that had not attached then */
};

struct tb_pins {
    struct tb_pin_plan *plan;        /* a copy: what "@cache" stands for is put into it */
    const struct tb_pin_plan *asked; /* as it was asked for */
    struct tb_pin *variable;         /* of each choice that another variable holds, its pin */
    bool *jobs;                 /* of each choice: the job's environment or process has its own */
    char (*own)[TB_PINS_VALUE]; /* ... and this */
    bool refused_aslr;
    char path[160];
    char profiler[TB_PINS_VALUE]; /* of NCCL, which the job has by itself; "": it gets ours */
    struct tb_pins_row *row;
    uint32_t rows, room;
};

/** tb_pins_value_of - what a user calls the value of choice @i: not the folder that this run made
 */
static inline const char *tb_pins_value_of(const struct tb_pins *p, size_t i)
{
    return p->asked->choice[i].value;
}

#endif
