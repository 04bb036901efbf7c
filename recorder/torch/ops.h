// ops.h - what an operator does with its arguments, asked once of the dispatcher and the schema.
//
// Start at op_info(): it answers from a cache keyed by the schema's address. Which calls write is
// never guessed from the call tree: a composite operator is a range, a result that aliases an
// argument without a write mark is a view, the empties hand out bytes nobody wrote, and all else
// writes its results and the arguments that its schema marks. What schemas cannot say stands in the
// tables below.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/enum_tag.h>

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tb
{

enum class OpClass : uint8_t { ignore, range, view, empty, writer, collective };

struct ArgInfo {
    std::string name;
    bool written = false;    // the schema marks it, or the collective table does
    bool write_only = false; // written without being read
    bool generator = false;
};

struct OpInfo {
    std::string name; // "aten::addmm", "aten::add.Tensor"
    uint64_t hash = 0;
    OpClass cls = OpClass::ignore;
    bool rng = false;     // draws from a generator
    bool wrapper = false; // its writes are those of the operators it calls
    bool host = false;    // a value leaves for the host
    bool lift = false;    // its argument was made by the host, value by value (torch.tensor)
    bool any_written = false;
    std::vector<ArgInfo> args;
    std::vector<bool> ret_is_arg; // result i is an argument that the schema marks as written
};

// Write-only arguments: marked as written by the schema, not read by the kernel. `self` unless it
// is out=.
static const char *const kWriteOnly[] = {
    "aten::zero_",          "aten::fill_",       "aten::copy_",    "aten::random_",
    "aten::bernoulli_",     "aten::normal_",     "aten::uniform_", "aten::exponential_",
    "aten::geometric_",     "aten::log_normal_", "aten::cauchy_",  "aten::_foreach_zero_",
    "aten::_foreach_copy_", "aten::eye_",        "aten::arange_",
};

// They hand out storage that nobody wrote (or only move it): hashing it would make equal runs
// differ.
static const char *const kEmpties[] = {
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::empty_permuted",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::empty_quantized",
    "aten::_empty_affine_quantized",
    "aten::_empty_per_channel_affine_quantized",
    "aten::resize_",
    "aten::resize_as_",
    "aten::resize_as_sparse_",
    "aten::set_",
    "aten::_resize_output_",
    "aten::sparse_resize_",
    "aten::record_stream",
    "aten::_efficientzerotensor",
};

// In place by name, but they change what a tensor says of its bytes, not the bytes.
static const char *const kMetadata[] = {
    "aten::detach_",    "aten::squeeze_",       "aten::unsqueeze_", "aten::t_",
    "aten::transpose_", "aten::swapaxes_",      "aten::swapdims_",  "aten::as_strided_",
    "aten::rename_",    "aten::requires_grad_", "aten::set_data",   "aten::retain_grad",
    "aten::_conj",      "aten::_neg_view",      "aten::_fw_primal", "aten::_backward",
};

// Operators with a kernel of their own that do nothing but call another operator on the same bytes.
// The explicit composites of ATen are like that too, and are found by asking the dispatcher. Where
// such an inner write of the very same bytes was recorded, its fingerprint is theirs and the bytes
// are not hashed again; where none was recorded, they are hashed like any other.
static const char *const kWrappers[] = {"aten::zero_", "aten::linear"};

// Collectives: what they write is not in the schema, and they finish later.
struct CollectiveRow {
    const char *name;
    const char *written; // names of the written arguments, separated by spaces
};
static const CollectiveRow kCollectives[] = {
    {"c10d::allreduce_", "tensors"},
    {"c10d::allreduce_coalesced_", "tensors"},
    {"c10d::broadcast_", "tensors"},
    {"c10d::allgather_", "output_tensors"},
    {"c10d::_allgather_base_", "output_tensor"},
    {"c10d::allgather_coalesced_", "output_lists"},
    {"c10d::allgather_into_tensor_coalesced_", "outputs"},
    {"c10d::reduce_", "tensors"},
    {"c10d::reduce_scatter_", "output_tensors"},
    {"c10d::_reduce_scatter_base_", "output_tensor"},
    {"c10d::reduce_scatter_tensor_coalesced_", "outputs"},
    {"c10d::gather_", "output_tensors"},
    {"c10d::scatter_", "output_tensors"},
    {"c10d::alltoall_", "output_tensors"},
    {"c10d::alltoall_base_", "output"},
    {"c10d::recv_", "tensors"},
    {"c10d::recv_any_source_", "tensors"},
    {"c10d::send", ""},
    {"c10d::barrier", ""},
    {"c10d::monitored_barrier_", ""},
};

template <size_t N> static bool in_table(const char *const (&table)[N], const std::string &name)
{
    for (const char *row : table)
        if (name == row)
            return true;
    return false;
}

static inline uint64_t mix64(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

static inline uint64_t hash_combine(uint64_t h, uint64_t v)
{
    return mix64(h ^ (v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2)));
}

static inline uint64_t hash_text(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325ull ^ n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3ull;
    return mix64(h);
}

template <size_t N>
static bool has_any_kernel(const c10::OperatorHandle &op, const c10::DispatchKey (&keys)[N])
{
    for (c10::DispatchKey k : keys)
        if (op.hasKernelForDispatchKey(k))
            return true;
    return false;
}

using K = c10::DispatchKey;
// kernels that compute by themselves, and those that call other operators but are no mere ranges
static const K kBackends[] = {K::CPU,  K::CUDA,      K::SparseCPU,    K::QuantizedCPU,
                              K::Meta, K::MkldnnCPU, K::SparseCsrCPU, K::NestedTensorCPU};
static const K kExplicit[] = {K::CompositeExplicitAutograd,
                              K::CompositeExplicitAutogradNonFunctional};

static bool word_in(const char *words, const std::string &w)
{
    const char *p = words;
    while ((p = std::strstr(p, w.c_str()))) {
        bool begins = p == words || p[-1] == ' ';
        bool ends = p[w.size()] == 0 || p[w.size()] == ' ';
        if (begins && ends)
            return true;
        p += w.size();
    }
    return false;
}

static void classify(OpInfo &info, const c10::FunctionSchema &schema)
{
    const std::string &base = schema.name();
    std::string ns = base.substr(0, base.find("::"));
    bool fresh = false, aliased = false;
    const CollectiveRow *coll = nullptr;

    for (const CollectiveRow &row : kCollectives)
        if (base == row.name)
            coll = &row;
    for (const c10::Argument &a : schema.arguments()) {
        ArgInfo arg;
        const c10::AliasInfo *alias = a.alias_info();
        arg.name = a.name();
        arg.written = (alias && alias->isWrite()) || (coll && word_in(coll->written, a.name()));
        arg.write_only = arg.written && (a.is_out() || coll != nullptr ||
                                         (in_table(kWriteOnly, base) && info.args.empty()));
        arg.generator = a.type()->str().find("Generator") != std::string::npos;
        info.any_written |= arg.written;
        info.args.push_back(std::move(arg));
    }
    for (const c10::Argument &r : schema.returns()) {
        const c10::AliasInfo *alias = r.alias_info();
        bool written = alias && alias->isWrite();
        info.ret_is_arg.push_back(written);
        aliased |= alias != nullptr && !written;
        fresh |= alias == nullptr && r.type()->str().find("Tensor") != std::string::npos;
    }
    // in place collectives reduce what is there: their written arguments are read as well
    for (ArgInfo &arg : info.args) {
        if (coll && arg.name == "tensor") // a barrier's: nobody looks at its bytes
            arg.write_only = true;
        else if (coll && arg.name == "tensors" && base.find("recv") == std::string::npos)
            arg.write_only = false;
    }

    if (ns == "twinbit" || ns == "profiler" || ns == "prim" || ns == "prims_meta")
        info.cls = OpClass::ignore;
    else if (coll)
        info.cls = OpClass::collective;
    else if (in_table(kEmpties, base))
        info.cls = OpClass::empty;
    else if (in_table(kMetadata, base) || (!info.any_written && aliased && !fresh))
        info.cls = OpClass::view;
    else
        info.cls = OpClass::writer;

    auto op = c10::Dispatcher::singleton().findOp({schema.name(), schema.overload_name()});
    if (op.has_value()) {
        bool composite = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
        bool explicit_composite = has_any_kernel(*op, kExplicit),
             own = has_any_kernel(*op, kBackends);
        if (info.cls == OpClass::writer && ns == "aten" && composite && !own && !explicit_composite)
            info.cls = OpClass::range;
        info.wrapper = ns == "aten" && explicit_composite && !op->hasKernelForDispatchKey(K::CPU) &&
                       !op->hasKernelForDispatchKey(K::CUDA);
        info.rng = op->hasTag(at::Tag::nondeterministic_seeded);
    }
    for (const ArgInfo &arg : info.args)
        info.rng |= arg.generator && info.cls == OpClass::writer;
    info.wrapper |= in_table(kWrappers, base) || base.rfind("aten::_foreach_", 0) == 0;
    info.host = base == "aten::_local_scalar_dense";
    info.lift = base == "aten::lift_fresh" || base == "aten::lift";
}

// op_info - the cached answer for a schema. Threads: any. Throws only what the allocator throws.
static const OpInfo *op_info(const c10::FunctionSchema &schema)
{
    struct Slot {
        const c10::FunctionSchema *key;
        const OpInfo *info;
    };
    static thread_local Slot cache[1024];
    size_t at = ((uintptr_t)&schema >> 4) * 0x9e3779b97f4a7c15ull >> 54;
    Slot &slot = cache[at];

    if (slot.key == &schema &&
        std::memcmp(slot.info->name.data(), schema.name().data(), schema.name().size()) == 0)
        return slot.info;

    // never destroyed: threads may still record while the process exits
    static auto &table = *new std::unordered_map<std::string, OpInfo *>();
    static auto &lock = *new std::mutex();
    std::string name = schema.name();
    if (!schema.overload_name().empty())
        name += "." + schema.overload_name();
    std::lock_guard<std::mutex> hold(lock);
    OpInfo *&info = table[name];
    if (!info) {
        info = new OpInfo();
        info->name = name;
        info->hash = hash_text(name.data(), name.size());
        classify(*info, schema);
    }
    slot = {&schema, info};
    return info;
}

} // namespace tb
