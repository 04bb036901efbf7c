// access.h - one access of an operator: which bytes, in which layout, and the text and key of a
// site.
//
// Start at look(): it says whether a tensor's bytes may be looked at, without ever calling Python,
// and fills an Acc. hash_access() fingerprints the bytes: on torch's own threads, or, in device
// memory, by what it queues behind the operator's own work.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <dlfcn.h>

#include <string>
#include <vector>

#include "allocs.h"
#include "cuda.h"
#include "ops.h"

namespace tb
{

extern const tb_rec_api *R;

// tb_dtype_name() of fingerprint.h; the tap links nothing of twinbit
static const char *const TB_DTYPE_NAMES[TB_DT_COUNT] = {
    "?",    "u8",  "i8",  "i16",  "i32",    "i64",    "f16", "f32", "f64", "bf16",
    "bool", "c32", "c64", "c128", "f8e4m3", "f8e5m2", "u16", "u32", "u64"};

// fine: look at its bytes; skip: nothing there; wrapped: a Python number, an argument; opaque:
// bytes that cannot be fingerprinted here; indirect: a subclass, a fake or a transform, whose work
// other operators do
enum class Look : uint8_t { fine, skip, wrapped, opaque, indirect };

struct Acc {
    char mode = 'r';
    uint8_t dtype = 0, fp_kind = 0, ndim = 0;
    bool contiguous = true, conj = false, neg = false;
    bool on_device = false; // hashed by the CUDA recorder: device memory, or written by a device
    bool pending = false;   // fp is a ticket and the number of its table
    bool wanted = false;    // a read that is to be hashed
    uint16_t arg = 0;  // index of the argument, or kOut + index of the result
    int32_t item = -1; // index in a list
    uint32_t dims = 0; // where its sizes (and strides) start in the context's arena
    uint32_t elem = 0;
    uint64_t alloc = 0;
    int64_t offset = 0; // bytes from the allocation to element (0, 0, ...)
    uint64_t bytes = 0; // of all elements, row-major
    const char *ptr = nullptr; // device memory: only an address
    c10::StorageImpl *storage = nullptr;
    tb_fp fp{};
    c10::Device device{c10::kCPU};
    int8_t copied_by = 0; // pinned memory of the host: the device that writes it
    const char *name = nullptr; // state: instead of an argument
};
constexpr uint16_t kOut = 0x8000;

static uint8_t dtype_of(const c10::TensorImpl *t)
{
    using S = c10::ScalarType;
    switch (c10::typeMetaToScalarType(t->dtype())) {
    case S::QUInt8: // quantised tensors: the stored integers
    case S::Byte:
        return TB_DT_U8;
    case S::QInt8:
    case S::Char:
        return TB_DT_I8;
    case S::Short:
        return TB_DT_I16;
    case S::QInt32:
    case S::Int:
        return TB_DT_I32;
    case S::Long:
        return TB_DT_I64;
    case S::Half:
        return TB_DT_F16;
    case S::Float:
        return TB_DT_F32;
    case S::Double:
        return TB_DT_F64;
    case S::BFloat16:
        return TB_DT_BF16;
    case S::Bool:
        return TB_DT_BOOL;
    case S::ComplexHalf:
        return TB_DT_C32;
    case S::ComplexFloat:
        return TB_DT_C64;
    case S::ComplexDouble:
        return TB_DT_C128;
    case S::Float8_e4m3fn:
        return TB_DT_F8E4M3;
    case S::Float8_e5m2:
        return TB_DT_F8E5M2;
    default:
        return TB_DT_UNKNOWN;
    }
}

// Keys by name, since versions of torch differ in which keys they have.
template <size_t N> static c10::DispatchKeySet keys_named(const char *const (&names)[N])
{
    c10::DispatchKeySet set;
    for (uint16_t k = 1; k < (uint16_t)c10::DispatchKey::EndOfFunctionalityKeys; k++)
        for (const char *name : names)
            if (std::strcmp(c10::toString((c10::DispatchKey)k), name) == 0)
                set = set.add((c10::DispatchKey)k);
    return set;
}

// Tensors whose accessors may call Python or throw: test for them before anything else.
static const c10::DispatchKeySet &indirect_keys()
{
    static const char *const names[] = {"Python",
                                        "Fake",
                                        "Functionalize",
                                        "Batched",
                                        "FuncTorchBatched",
                                        "FuncTorchGradWrapper",
                                        "BatchedNestedTensor"};
    static const c10::DispatchKeySet keys = keys_named(names);
    return keys;
}

// Tensors whose bytes are not their value.
static const c10::DispatchKeySet &opaque_keys()
{
    static const char *const names[] = {"Sparse", "SparseCsr", "NestedTensor", "ZeroTensor"};
    static const c10::DispatchKeySet keys = keys_named(names);
    return keys;
}

static bool is_indirect(const c10::TensorImpl *t)
{
    return t->key_set().has_any(indirect_keys()) || t->is_python_dispatch();
}

// plain_storage - the storage of a tensor whose bytes can be fingerprinted, or nullptr
static c10::StorageImpl *plain_storage(const c10::TensorImpl *t)
{
    if (t == nullptr || t == c10::UndefinedTensorImpl::singleton() || is_indirect(t) ||
        t->key_set().has_any(opaque_keys()) || !t->has_storage() || !visible(t->device()))
        return nullptr;
    return t->unsafe_storage().unsafeGetStorageImpl();
}

// span - the bytes an access touches, relative to its element (0, 0, ...)
static void span(const Acc &a, const int64_t *dims, int64_t *lo, int64_t *hi)
{
    *lo = 0;
    *hi = 0;
    if (a.bytes == 0)
        return;
    *hi = a.contiguous ? (int64_t)a.bytes : (int64_t)a.elem;
    if (a.contiguous)
        return;
    for (int d = 0; d < a.ndim; d++) {
        int64_t reach = (dims[d] - 1) * dims[a.ndim + d] * (int64_t)a.elem;
        (reach < 0 ? *lo : *hi) += reach;
    }
}

// look - may the bytes of @t be looked at? Fills dtype, layout and place of @a; never calls Python.
static Look look(const c10::TensorImpl *t, Acc &a, std::vector<int64_t> &arena, const char **why)
{
    if (t == nullptr || t == c10::UndefinedTensorImpl::singleton())
        return Look::skip;
    c10::DispatchKeySet keys = t->key_set();
    if (is_indirect(t)) {
        *why = "subclass, fake or transform: seen through the operators that it calls";
        return Look::indirect;
    }
    if (t->is_wrapped_number())
        return Look::wrapped;
    if (keys.has_any(opaque_keys()) || t->layout() != c10::kStrided || !t->has_storage() ||
        t->storage_access_should_throw_) {
        *why = "layout without plain bytes";
        return Look::opaque;
    }
    a.device = t->device();
    if (a.device.is_meta())
        return Look::skip;
    a.dtype = dtype_of(t);
    a.elem = (uint32_t)t->dtype().itemsize();
    c10::IntArrayRef sizes = t->sizes();
    a.ndim = (uint8_t)sizes.size();
    a.contiguous = t->is_contiguous();
    a.conj = keys.has(c10::DispatchKey::Conjugate);
    a.neg = keys.has(c10::DispatchKey::Negative);
    a.dims = (uint32_t)arena.size();
    arena.insert(arena.end(), sizes.begin(), sizes.end());
    if (!a.contiguous) {
        c10::IntArrayRef strides = t->strides();
        arena.insert(arena.end(), strides.begin(), strides.end());
    }
    if (!visible(a.device)) {
        *why = a.device.is_cuda() ? "device memory: `twinbit run --tap shim` (or cupti) hashes it"
                                  : "device memory";
        return Look::opaque;
    }
    a.on_device = !a.device.is_cpu();
    a.storage = t->unsafe_storage().unsafeGetStorageImpl();
    const char *data = static_cast<const char *>(a.storage->data());
    a.offset = t->storage_offset() * (int64_t)a.elem;
    a.ptr = data ? data + a.offset : nullptr;
    a.bytes = (uint64_t)t->numel() * a.elem;
    if (data == nullptr && a.bytes != 0) {
        *why = "storage without memory";
        return Look::opaque;
    }
    int64_t lo, hi;
    span(a, arena.data() + a.dims, &lo, &hi);
    // a device that reads beyond is lost with all that the job has there
    if ((a.contiguous || a.on_device) && (uint64_t)(a.offset + hi) > a.storage->nbytes()) {
        *why = "view beyond its storage";
        return Look::opaque;
    }
    return Look::fine;
}

// torch's own OpenMP pool, entered through the library it is linked with: cores are shared with the
// job
extern void (*gomp_parallel)(void (*)(void *), void *, unsigned, unsigned);
extern int (*gomp_num_threads)(void);
extern int (*gomp_thread_num)(void);

struct PoolJob {
    void (*body)(void *, size_t, size_t);
    void *arg;
    size_t n;
};

static void pool_entry(void *p)
{
    const PoolJob *job = static_cast<const PoolJob *>(p);
    size_t threads = (size_t)gomp_num_threads(), me = (size_t)gomp_thread_num();
    size_t chunk = (job->n + threads - 1) / threads;
    size_t begin = me * chunk, end = begin + chunk < job->n ? begin + chunk : job->n;

    if (begin < end)
        job->body(job->arg, begin, end);
}

static void pool_run(void *, void (*body)(void *, size_t, size_t), void *arg, size_t n)
{
    PoolJob job{body, arg, n};
    gomp_parallel(pool_entry, &job, 0, 0);
}

constexpr size_t kPoolMin =
    192 * 1024; // bytes below which waking a second thread costs more than it saves

static const tb_fp_pool *pool_for(uint64_t bytes)
{
    static thread_local tb_fp_pool pool;

    if (bytes < kPoolMin || gomp_parallel == nullptr || at::in_parallel_region())
        return nullptr;
    int threads = at::get_num_threads();
    if (threads < 2)
        return nullptr;
    pool = tb_fp_pool{pool_run, nullptr, (unsigned)threads, kPoolMin};
    return &pool;
}

static tb_fp hash_bytes(const char *ptr, uint64_t bytes, uint32_t elem, int ndim,
                        const int64_t *dims, bool contiguous)
{
    if (contiguous)
        return R->fp_host_pool(ptr, bytes, 0, pool_for(bytes));
    tb_fp_layout l{elem, ndim, dims, dims + ndim};
    return R->fp_strided(ptr, &l, pool_for(bytes));
}

// view_of - for the CUDA recorder; borrows @dims
static tb_rec_view view_of(const Acc &a, const int64_t *dims)
{
    tb_rec_view v{};

    v.address = (uint64_t)(uintptr_t)a.ptr;
    v.bytes = a.bytes;
    v.elem = a.elem;
    if (a.contiguous)
        return v;
    v.ndim = a.ndim;
    v.sizes = dims;
    v.strides = dims + a.ndim;
    v.bytes = a.elem;
    for (int d = 0; d < a.ndim; d++)
        v.bytes *= v.strides[d] == 0 ? 1u : (uint64_t)v.sizes[d];
    return v;
}

// where_of - device and stream whose work wrote @a, or is about to read it
static bool where_of(const Acc &a, int *device, void **stream)
{
    c10::Device d = a.device.is_cpu() ? c10::Device(c10::kCUDA, a.copied_by) : a.device;

    *device = d.index();
    return stream_of(d, stream);
}

// hash_queued - queue the fingerprint behind the operator's own work; false: it has none
static bool hash_queued(struct tb_rec_thread *rt, Acc &a, const int64_t *dims)
{
    const tb_rec_cuda *cuda = R->cuda();
    tb_rec_view v = view_of(a, dims);
    tb_wire_access w{a.alloc & TB_ALLOC_MASK, (uint64_t)a.offset, 0, 0};
    void *stream;
    int device;

    if (!cuda || !where_of(a, &device, &stream)) {
        R->cover(rt, 1, TB_REC_NO_SEQ, "tensor", "cuda", "its stream cannot be found", 1);
        return false;
    }
    OnDevice there(c10::Device(c10::kCUDA, (c10::DeviceIndex)device));
    if (!cuda->hash(rt, device, stream, &v, &w))
        return false;
    a.fp = tb_fp{w.fp_a, w.fp_b};
    a.fp_kind = (uint8_t)(w.alloc >> 48);
    a.pending = (w.alloc & TB_ACCESS_PENDING) != 0;
    return true;
}

// hash_access - false: it could not be, and a coverage row says so
static bool hash_access(struct tb_rec_thread *rt, Acc &a, const std::vector<int64_t> &arena)
{
    if (a.on_device && a.bytes != 0)
        return hash_queued(rt, a, arena.data() + a.dims);
    a.fp = hash_bytes(a.ptr, a.bytes, a.elem, a.ndim, arena.data() + a.dims, a.contiguous);
    a.fp_kind = a.contiguous ? TB_FP_BYTES : TB_FP_ROWMAJOR;
    return true;
}

static inline uint64_t key_step(uint64_t h, uint64_t v)
{
    h ^= v * 0x9e3779b97f4a7c15ull;
    return (h << 29 | h >> 35) * 0xbf58476d1ce4e5b9ull;
}

// key_of - what of an access belongs to the site: mode, type, layout, argument; not where it lies
static uint64_t key_of(uint64_t h, const Acc &a, const std::vector<int64_t> &arena)
{
    h = key_step(h, (uint64_t)a.mode | (uint64_t)a.dtype << 8 | (uint64_t)a.ndim << 16 |
                        (uint64_t)a.contiguous << 24 | (uint64_t)a.arg << 32 |
                        (uint64_t)a.conj << 25 | (uint64_t)a.neg << 26);
    h = key_step(h, (uint64_t)(uint32_t)a.item | (uint64_t)(uint8_t)a.device.type() << 32 |
                        (uint64_t)(uint8_t)a.device.index() << 40);
    if (a.name)
        h = key_step(h, (uintptr_t)a.name);
    size_t n = a.contiguous ? a.ndim : 2u * a.ndim;
    for (size_t i = 0; i < n; i++)
        h = key_step(h, (uint64_t)arena[a.dims + i]);
    return h;
}

static void put_dims(std::string &out, const int64_t *v, int n)
{
    out += '[';
    for (int i = 0; i < n; i++) {
        if (i)
            out += ',';
        out += std::to_string(v[i]);
    }
    out += ']';
}

// put_line - the access line of a site text (wire.h)
static void put_line(std::string &out, const Acc &a, const std::vector<int64_t> &arena,
                     const OpInfo *op)
{
    const int64_t *dims = arena.data() + a.dims;

    out += a.mode;
    out += ' ';
    out += a.mode == 'g' || a.dtype == TB_DT_UNKNOWN ? "?" : TB_DTYPE_NAMES[a.dtype];
    out += ' ';
    out += a.device.is_cpu() ? "cpu" : a.device.str();
    out += ' ';
    put_dims(out, dims, a.ndim);
    if (a.contiguous) {
        out += " - ";
    } else {
        out += ' ';
        put_dims(out, dims + a.ndim, a.ndim);
        out += ' ';
    }
    if (a.name) {
        out += a.name;
    } else if (a.arg & kOut) {
        out += "out";
        if (a.arg != kOut)
            out += "." + std::to_string(a.arg & ~kOut);
    } else {
        out += op && a.arg < op->args.size() ? op->args[a.arg].name : "arg";
    }
    if (a.item >= 0)
        out += "." + std::to_string(a.item);
    if (a.conj)
        out += "~conj";
    if (a.neg)
        out += "~neg";
    out += '\n';
}

} // namespace tb
