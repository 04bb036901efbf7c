/*
 * A stand-in for the CUDA recorder, for tests of what the torch tap asks of it: a script loads it
 * by ctypes and says fake_install(). It waits for the stream that it is given, and that one alone,
 * then hashes where the bytes lie (device memory of softgpu is memory of the process): with a wrong
 * stream it finds what was there before. The last call and how many there were can be asked for.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "recorder/recorder.h"

#define FAKE_EXPORT __attribute__((visibility("default")))
#define MAX_BLOCKS 4096

FAKE_EXPORT int fake_install(void);
FAKE_EXPORT uint64_t fake_get(const char *what);
FAKE_EXPORT const char *fake_name(void);
FAKE_EXPORT uint64_t fake_block(uint64_t address);

static const struct tb_rec_api *R;
static int (*stream_synchronize)(void *);
static int (*stream_is_capturing)(void *, int *);
/* Written by whoever calls, read by the script when nobody does. */
static uint64_t hashes, refused, copies, begins, ends, blocks, names, last_stream, last_device,
    last_bytes, last_ndim, worst_depth;
static _Thread_local uint64_t depth;
static char last_name[256];
static struct {
    uint64_t address, bytes;
} block_list[MAX_BLOCKS];

static uint64_t count(uint64_t *n)
{
    return __atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

static bool ready(void *stream)
{
    int status = 0;

    return stream_is_capturing(stream, &status) == 0 && status == 0 &&
           stream_synchronize(stream) == 0;
}

static struct tb_fp look(const struct tb_rec_view *v)
{
    const void *p = (const void *)(uintptr_t)v->address;
    struct tb_fp_layout l = {v->elem, v->ndim, v->sizes, v->strides};

    return v->sizes ? R->fp_strided(p, &l, NULL) : R->fp_host_pool(p, v->bytes, 0, NULL);
}

static bool hash(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                 struct tb_wire_access *out)
{
    last_stream = (uint64_t)(uintptr_t)stream;
    last_device = (uint64_t)device;
    last_bytes = v->bytes;
    last_ndim = (uint64_t)v->ndim;
    if (!ready(stream)) {
        R->cover(t, 1, TB_REC_NO_SEQ, "capture", "fake", "a stream that is captured", 1);
        count(&refused);
        return false;
    }
    struct tb_fp fp = look(v);
    out->alloc |= (uint64_t)(v->sizes ? TB_FP_ROWMAJOR : TB_FP_BYTES) << 48;
    out->fp_a = fp.a;
    out->fp_b = fp.b;
    count(&hashes);
    return true;
}

static bool snapshot(struct tb_rec_thread *t, int device, void *stream, const struct tb_rec_view *v,
                     uint64_t seq, uint32_t access)
{
    void *handle = NULL;

    (void)device;
    if (v->sizes || !ready(stream))
        return false;
    char *out = R->snapshot_open(t, v->bytes, &handle);
    if (!out)
        return false;
    memcpy(out, (const void *)(uintptr_t)v->address, v->bytes);
    R->snapshot_send(t, handle, seq, access);
    count(&copies);
    return true;
}

static void op_begin(void)
{
    count(&begins);
    if (++depth > worst_depth)
        worst_depth = depth;
}

static void op_end(void)
{
    count(&ends);
    depth--;
}

static void block(int device, uint64_t address, uint64_t bytes)
{
    uint64_t at = count(&blocks);

    (void)device;
    for (uint64_t i = 0; i < MAX_BLOCKS && i < at; i++)
        if (block_list[i].address == address)
            block_list[i].bytes = 0;
    if (bytes && at < MAX_BLOCKS) {
        block_list[at].address = address;
        block_list[at].bytes = bytes;
    }
}

static uint64_t alloc(uint64_t address, uint64_t *offset, uint64_t *bytes)
{
    for (uint64_t i = 0; i < MAX_BLOCKS; i++)
        if (address - block_list[i].address < block_list[i].bytes) {
            *offset = address - block_list[i].address;
            *bytes = block_list[i].bytes;
            return 1000000 + i;
        }
    return 0;
}

static void name(void *function, const char *text)
{
    if (!function)
        return;
    (void)snprintf(last_name, sizeof(last_name), "%s", text);
    count(&names);
}

static const struct tb_rec_cuda fake = {
    .size = sizeof(fake),
    .hash = hash,
    .snapshot = snapshot,
    .op_begin = op_begin,
    .op_end = op_end,
    .block = block,
    .name = name,
    .alloc = alloc,
};

static void *find(void *lib, const char *symbol)
{
    return lib ? dlsym(lib, symbol) : NULL;
}

int fake_install(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *runtime = dlsym(RTLD_DEFAULT, "twinbit_runtime");
    void *wait = find(driver, "cuStreamSynchronize"), *ask = find(driver, "cuStreamIsCapturing");
    const struct tb_rec_api *(*open)(void);

    if (!runtime || !wait || !ask)
        return 1;
    memcpy(&open, &runtime, sizeof(open));
    memcpy(&stream_synchronize, &wait, sizeof(wait));
    memcpy(&stream_is_capturing, &ask, sizeof(ask));
    R = open();
    if (!R)
        return 2;
    R->cuda_is(&fake);
    return 0;
}

uint64_t fake_get(const char *what)
{
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"hashes", hashes},     {"refused", refused},    {"copies", copies},
        {"begins", begins},     {"ends", ends},          {"blocks", blocks},
        {"names", names},       {"stream", last_stream}, {"device", last_device},
        {"bytes", last_bytes},  {"ndim", last_ndim},     {"depth", depth},
        {"worst", worst_depth},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, what) == 0)
            return all[i].value;
    return UINT64_MAX;
}

const char *fake_name(void)
{
    return last_name;
}

/* Bytes of the block at @address, 0: none */
uint64_t fake_block(uint64_t address)
{
    for (size_t i = 0; i < MAX_BLOCKS; i++)
        if (block_list[i].address == address && block_list[i].bytes)
            return block_list[i].bytes;
    return 0;
}
