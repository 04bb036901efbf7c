/*
 * libFuzzer's entry: text is parsed, loaded, and its first kernels run for a moment. replay_exec.c
 * feeds the same function without a fuzzer; mutate_exec.c changes text a word or a line at a time.
 */
#include "tests/softgpu/exec/fuzz_exec.h"

#include "softgpu/exec/exec.h"

#include <stdlib.h>
#include <string.h>

#define VARS_BYTES (4u << 20)
#define DATA_BYTES (64u << 10)
#define PARAM_BYTES 4096u
#define KERNELS 3u

/* One process, one device: made by the first input, kept until the process ends. */
static struct {
    struct sg_mem *mem;
    struct sg_machine *machine;
    uint64_t vars, data;
    uint64_t vars_used;
} device;

static enum tb_status alloc_var(void *arg, size_t size, size_t align, bool managed, uint64_t *addr,
                                struct tb_error *err)
{
    (void)arg;
    (void)managed;
    uint64_t at = device.vars_used;

    if (align < SG_MEM_GRANULE)
        align = SG_MEM_GRANULE;
    at = (at + align - 1) & ~((uint64_t)align - 1);
    if (align > VARS_BYTES || at > VARS_BYTES || size > VARS_BYTES - at)
        return tb_fail(err, TB_ERR_NOMEM, "variables of more than 4 MiB");
    device.vars_used = at + size;
    *addr = device.vars + at;
    memset((void *)(uintptr_t)*addr, 0, size);
    return TB_OK;
}

static void free_var(void *arg, uint64_t addr)
{
    (void)arg;
    (void)addr;
}

static uint64_t region(uint64_t size)
{
    uint64_t at = 0;

    if (sg_mem_reserve(device.mem, size, 4096, 0, &at, NULL) != TB_OK ||
        sg_mem_commit(device.mem, at, size, NULL) != TB_OK)
        abort();
    sg_mem_allow(device.mem, at, size, 1, 1);
    return at;
}

static void start(void)
{
    const struct sg_machine_options options = {.workers = 1};

    if (device.mem != NULL)
        return;
    if (sg_mem_new(&device.mem, NULL) != TB_OK ||
        sg_machine_new(&options, device.mem, &device.machine, NULL) != TB_OK)
        abort();
    device.vars = region(VARS_BYTES);
    device.data = region(DATA_BYTES);
}

static void ignore_text(void *arg, const char *text, size_t n)
{
    (void)arg;
    (void)text;
    (void)n;
}

/* Every eight bytes of the parameters are a pointer to the data. */
static void run(const struct sg_kernel *k, uint64_t seed)
{
    const struct sg_kernel_info *info = sg_kernel_info(k);
    uint64_t params[PARAM_BYTES / 8];
    struct sg_fault fault = {.kind = SG_FAULT_NONE};
    struct sg_launch l = {.kernel = k,
                          .grid = {2, 1, 1},
                          .block = {33, 1, 1},
                          .cluster = {1, 1, 1},
                          .dynamic_shared = 1024,
                          .params = params,
                          .cooperative = seed & 1,
                          .in_order = seed & 2,
                          .sms = 1 + (seed >> 2 & 1),
                          .seed = seed,
                          .malloc_heap = 64 << 10,
                          .max_warp_insns = 4096,
                          .print = ignore_text};

    if (info->param_bytes > PARAM_BYTES)
        return;
    for (size_t i = 0; i < TB_ARRAY_LEN(params); i++)
        params[i] = device.data + 512 * (i % 64);
    if (sg_exec_run(device.machine, &l, &fault, NULL, NULL) == TB_OK && fault.kind != SG_FAULT_NONE)
        abort(); /* a fault is an error */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct sg_image_env env = {.arch = 90, .alloc_var = alloc_var, .free_var = free_var};
    struct sg_image_env full = env;
    struct sg_ptx_module *module = NULL;
    struct sg_image *image = NULL;
    struct tb_error err = {0};
    uint64_t seed = n;

    start();
    full.mem = device.mem;
    device.vars_used = 0;
    memset((void *)(uintptr_t)device.data, 0x3c, DATA_BYTES);
    if (sg_ptx_parse((const char *)data, n, "fuzz", &module, &err) != TB_OK)
        return 0;
    if (sg_image_new(&module, 1, "fuzz", &full, &image, &err) != TB_OK) {
        if (err.text[0] == 0)
            abort(); /* refused without a word */
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        seed = seed * 31 + data[i];
    for (size_t i = 0; i < sg_image_kernel_count(image) && i < KERNELS; i++)
        run(sg_image_kernel_at(image, i), seed);
    sg_image_free(image);
    return 0;
}

#ifdef SG_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    if (seed % 5 == 0)
        return LLVMFuzzerMutate(data, n, max);
    return mutate_ptx(data, n, max, seed);
}
#endif
