/* exec_test - runs kernels given as PTX text, for the tests of softgpu/exec. */
#ifndef TESTS_SOFTGPU_EXEC_TEST_H
#define TESTS_SOFTGPU_EXEC_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softgpu/exec/exec.h"
#include "softgpu/exec/watch.h"

/* One process, one address space; made by the group's setup. */
static struct sg_mem *test_mem;
static struct sg_machine *test_machine;

static enum tb_status alloc_test_var(void *arg, size_t size, size_t align, bool managed,
                                     uint64_t *addr, struct tb_error *err)
{
    (void)arg;
    (void)managed;
    enum tb_status st = sg_mem_reserve(test_mem, size, align < 512 ? 512 : align, 0, addr, err);
    if (st == TB_OK)
        st = sg_mem_commit(test_mem, *addr, size, err);
    if (st == TB_OK)
        sg_mem_allow(test_mem, *addr, size, 1, 1);
    return st;
}

static void free_test_var(void *arg, uint64_t addr)
{
    (void)arg;
    sg_mem_release(test_mem, addr);
}

static int exec_setup(void **state)
{
    (void)state;
    struct tb_error err = {0};

    if (sg_mem_new(&test_mem, &err) != TB_OK ||
        sg_machine_new(&(struct sg_machine_options){.workers = 2}, test_mem, &test_machine, &err) !=
            TB_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int exec_teardown(void **state)
{
    (void)state;
    sg_machine_free(test_machine);
    sg_mem_free(test_mem);
    return 0;
}

static inline void *device_bytes(size_t n)
{
    struct tb_error err = {0};
    uint64_t addr = 0;

    if (alloc_test_var(NULL, n, 512, false, &addr, &err) != TB_OK)
        fail_msg("%s", err.text);
    return (void *)(uintptr_t)addr;
}

static inline void device_free(void *p)
{
    sg_mem_release(test_mem, (uint64_t)(uintptr_t)p);
}

#define PTX_HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/* TB_OK and the image, or the status of what went wrong, text in @err. */
static inline enum tb_status load_texts(const char *const *texts, size_t n, struct sg_image **image,
                                        struct tb_error *err)
{
    const struct sg_image_env env = {
        .mem = test_mem, .arch = 80, .alloc_var = alloc_test_var, .free_var = free_test_var};
    struct sg_ptx_module *mods[8];

    for (size_t i = 0; i < n; i++) {
        enum tb_status st = sg_ptx_parse(texts[i], strlen(texts[i]), "test", &mods[i], err);
        if (st != TB_OK) {
            while (i-- > 0)
                sg_ptx_free(mods[i]);
            return st;
        }
    }
    return sg_image_new(mods, n, "test", &env, image, err);
}

static inline struct sg_image *load_ptx(const char *text)
{
    struct sg_image *image = NULL;
    struct tb_error err = {0};

    if (load_texts(&text, 1, &image, &err) != TB_OK)
        fail_msg("%s", err.text);
    return image;
}

/* Text that printf gave. */
static char printed[8192];

static void test_print(void *arg, const char *text, size_t n)
{
    (void)arg;
    size_t have = strlen(printed);
    if (have + n < sizeof(printed)) {
        memcpy(printed + have, text, n);
        printed[have + n] = 0;
    }
}

struct test_run {
    uint32_t blocks, threads, dynamic_shared;
    uint32_t cluster; /* blocks of each, 0: 1 */
    uint64_t seed;
    bool cooperative, in_order;
    const struct sg_watcher *watcher;
};

/* With SG_TEST_WATCHED every launch has a watcher that does nothing: results stay what they were.
 */
static inline const struct sg_watcher *test_watcher(void)
{
    static const struct sg_watcher nobody;

    return getenv("SG_TEST_WATCHED") != NULL ? &nobody : NULL;
}

/* Runs kernel "k" with one pointer as its parameter; the fault's kind. */
static inline enum sg_fault_kind run_image(struct sg_image *image, struct test_run r, void *param,
                                           struct sg_fault *fault)
{
    struct tb_error err = {0};
    struct sg_fault local;
    uint64_t params[4] = {(uint64_t)(uintptr_t)param};
    struct sg_launch l = {.kernel = sg_image_kernel(image, "k"),
                          .grid = {r.blocks, 1, 1},
                          .block = {r.threads, 1, 1},
                          .cluster = {r.cluster ? r.cluster : 1, 1, 1},
                          .dynamic_shared = r.dynamic_shared,
                          .params = params,
                          .cooperative = r.cooperative,
                          .in_order = r.in_order,
                          .sms = 4,
                          .seed = r.seed,
                          .malloc_heap = 1 << 20,
                          .print = test_print,
                          .watchers = {r.watcher ? r.watcher : test_watcher()}};

    assert_non_null(l.kernel);
    if (fault == NULL)
        fault = &local;
    printed[0] = 0;
    enum tb_status st = sg_exec_run(test_machine, &l, fault, NULL, &err);
    assert_int_equal(st == TB_OK, fault->kind == SG_FAULT_NONE);
    return fault->kind;
}

/* The same from text; must not fault. */
static inline void run_ptx(const char *text, struct test_run r, void *param)
{
    struct sg_image *image = load_ptx(text);
    struct sg_fault fault;

    if (run_image(image, r, param, &fault) != SG_FAULT_NONE)
        fail_msg("%s", fault.text);
    sg_image_free(image);
}

/* How a launch of kernel "k" of the text ends. */
static inline enum sg_fault_kind fault_of(const char *text, void *p, struct test_run r)
{
    struct sg_image *image = load_ptx(text);
    struct sg_fault fault;
    enum sg_fault_kind kind = run_image(image, r, p, &fault);

    sg_image_free(image);
    return kind;
}

/* A text that grows; it is an error of the test if it does not fit. */
struct text {
    char s[32768];
    size_t n;
};

static inline void TB_PRINTF(2, 3) text_add(struct text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
    va_end(ap);
    assert_true(t->n < sizeof(t->s));
}

/* An entry "k(.u64 p)" around a body; %rd1 holds p, %r1 the thread's number in the block, %r2 the
 * block's, %rd9 the address of p[block * ntid + tid] for 32-bit elements. */
#define KERNEL(decls, body)                                                                        \
    PTX_HEAD decls ".visible .entry k(.param .u64 p)\n{\n"                                         \
                   ".reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %rd<30>;\n"   \
                   ".reg .f32 %f<30>; .reg .f64 %fd<20>;\n"                                        \
                   "ld.param.u64 %rd1, [p];\n"                                                     \
                   "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\n"         \
                   "mad.lo.u32 %r4, %r2, %r3, %r1;\nmul.wide.u32 %rd8, %r4, 4;\n"                  \
                   "add.u64 %rd9, %rd1, %rd8;\n" body "ret;\n}\n"

#endif
