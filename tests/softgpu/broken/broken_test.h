/* broken_test - launches of kernel "k" on a device that is broken, and what its log says. */
#ifndef TESTS_SOFTGPU_BROKEN_TEST_H
#define TESTS_SOFTGPU_BROKEN_TEST_H

#include "tests/softgpu/exec/exec_test.h"

#include "softgpu/broken/broken_internal.h"

#include <unistd.h>

static char log_dir[64], log_path[96];

static int broken_setup(void **state)
{
    snprintf(log_dir, sizeof(log_dir), "/tmp/twinbit-broken-XXXXXX");
    if (mkdtemp(log_dir) == NULL)
        return -1;
    snprintf(log_path, sizeof(log_path), "%s/log", log_dir);
    return exec_setup(state);
}

static int broken_teardown(void **state)
{
    unlink(log_path);
    rmdir(log_dir);
    return exec_teardown(state);
}

static inline struct sg_broken_options broken_options(const char *specs)
{
    return (struct sg_broken_options){
        .specs = specs, .devices = 2, .sms = 4, .mem = test_mem, .log = log_path};
}

/* A device with these faults; its log is new. */
static inline struct sg_broken *broken_with(const struct sg_broken_options *opt)
{
    struct sg_broken *b = NULL;
    struct tb_error err = {0};

    if (opt->log != NULL && opt->log == log_path)
        unlink(log_path);
    if (sg_broken_new(opt, &b, &err) != TB_OK)
        fail_msg("%s", err.text);
    return b;
}

static inline struct sg_broken *broken(const char *specs)
{
    struct sg_broken_options opt = broken_options(specs);

    return broken_with(&opt);
}

struct broken_run {
    const char *kernel; /* NULL: "k" */
    uint32_t blocks, threads, device;
    uint64_t number, seed; /* number 0: 1 */
    uint64_t limit;        /* of warp instructions */
    struct sg_machine *machine;
    const struct sg_watcher *watcher; /* before that of the faults; NULL: none */
};

static inline enum sg_fault_kind run_broken(struct sg_broken *b, struct sg_image *image,
                                            struct broken_run r, void *param)
{
    uint64_t params[4] = {(uint64_t)(uintptr_t)param};
    struct sg_launch l = {.kernel = sg_image_kernel(image, r.kernel ? r.kernel : "k"),
                          .grid = {r.blocks, 1, 1},
                          .block = {r.threads, 1, 1},
                          .cluster = {1, 1, 1},
                          .params = params,
                          .device = r.device,
                          .sms = 4,
                          .seed = r.seed,
                          .grid_id = r.number ? r.number : 1,
                          .malloc_heap = 1 << 20,
                          .max_warp_insns = r.limit,
                          .print = test_print,
                          .watchers = {r.watcher}};
    struct sg_fault fault = {0};
    struct tb_error err = {0};
    struct sg_machine *m = r.machine ? r.machine : test_machine;
    enum tb_status st =
        b ? sg_broken_run(b, m, &l, &fault, NULL, &err) : sg_exec_run(m, &l, &fault, NULL, &err);

    assert_non_null(l.kernel);
    assert_true(st == TB_OK || st == TB_ERR_CUDA);
    return fault.kind;
}

/* Lines of the log that hold @what; the last one is in last_line. */
static char last_line[4096];

static inline unsigned log_lines(const char *what)
{
    FILE *f = fopen(log_path, "r");
    char line[4096];
    unsigned n = 0;

    last_line[0] = '\0';
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        if (strstr(line, what) != NULL) {
            n++;
            memcpy(last_line, line, sizeof(line));
        }
    fclose(f);
    return n;
}

#define FAULT "\"kind\":\"fault\""

#endif
