// tap.cc - the torch tap: at::RecordFunction callbacks that turn operator calls into events.
//
// Start at on_start() and on_end(). Compiled against the user's torch at first use with -DNDEBUG
// and -fno-access-control (the schema that a RecordFunction holds is read in place; its public
// accessor copies). Links nothing of twinbit: the runtime hands over struct tb_rec_api. Nothing
// here calls Python, throws into torch, or waits.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstring>
#include <exception>
#include <time.h>

#include "collectives.h"
#include "works.h"
#include "continuity.h"
#include "state.h"

namespace tb
{

const tb_rec_api *R;
Global *G;
void (*gomp_parallel)(void (*)(void *), void *, unsigned, unsigned);
int (*gomp_num_threads)(void);
int (*gomp_thread_num)(void);

static thread_local Thread *self_thread; // made at a thread's first event; kept, its ids stay valid

Thread *thread_state()
{
    if (!self_thread) {
        self_thread = new Thread();
        self_thread->id = at::RecordFunction::currentThreadId();
    }
    return self_thread;
}

Pendings &pendings()
{
    static auto &p = *new Pendings();
    return p;
}

#ifdef TB_HAVE_C10D
Groups &groups()
{
    static auto &g = *new Groups();
    return g;
}
#endif

void *Ctx::operator new(size_t n)
{
    Thread *t = thread_state();
    if (t->free_ctx.empty())
        return ::operator new(n);
    void *p = t->free_ctx.back();
    t->free_ctx.pop_back();
    return p;
}

void Ctx::operator delete(void *p)
{
    thread_state()->free_ctx.push_back(p);
}

static Body *take_body(Thread *t)
{
    if (t->free_bodies.empty())
        return new Body();
    Body *b = t->free_bodies.back();
    t->free_bodies.pop_back();
    return b;
}

static void give_body(Thread *t, Ctx *c)
{
    if (c->body) {
        c->body->clear();
        t->free_bodies.push_back(c->body);
        c->body = nullptr;
    }
}

static uint64_t now_ns()
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint32_t intern(const char *s, size_t n)
{
    std::lock_guard<std::mutex> hold(G->lock);
    auto it = G->string_ids.find(std::string(s, n));
    if (it != G->string_ids.end())
        return it->second;
    uint32_t id = (uint32_t)G->strings.size();
    G->strings.emplace_back(s, n);
    G->string_ids.emplace(G->strings.back(), id);
    return id;
}

static const std::string &string_of(uint32_t id)
{
    std::lock_guard<std::mutex> hold(G->lock);
    return G->strings[id];
}

static void cover(struct tb_rec_thread *rt, unsigned severity, const char *kind,
                  const char *subject, const char *detail)
{
    R->cover(rt, severity, TB_REC_NO_SEQ, kind, subject, detail, 1);
}

/* ------------------------------------------------------------------ ranges */

// Of operators, or of what is @launched: that is inside the operators that run, too.
static uint64_t range_key(const Thread *t, bool launched)
{
    uint64_t h = 1;

    if (t->range_depth) {
        const RangeItem &top = t->ranges[t->range_depth - 1];
        h = launched ? top.whole : top.hash;
    }
    return hash_combine(h, (uint64_t)t->module() << 2 | (t->backward()        ? 1u
                                                         : t->optimizer_depth ? 2u
                                                                              : 0u));
}

static std::string range_text(const Thread *t, bool launched)
{
    std::string text = std::string(phase_of(t)) + '\t' + string_of(t->module()) + '\t';
    bool first = true;

    for (size_t i = 0; i < t->range_depth; i++) {
        const RangeItem &item = t->ranges[i];
        if (item.event && !launched)
            continue;
        if (!first)
            text += '>';
        first = false;
        text += item.op ? item.op->name : item.user;
    }
    for (char &c : text)
        if (c == '\n')
            c = ' ';
    return text;
}

static uint32_t range_id(Thread *t, struct tb_rec_thread *rt, bool launched = false)
{
    uint64_t key = range_key(t, launched);
    uint32_t generation = R->generation();

    if (key == t->last_range_key && t->generation == generation)
        return t->last_range;
    uint32_t id = R->range_find(rt, key);
    if (id == 0) {
        std::string text = range_text(t, launched);
        id = R->range_define(rt, key, text.data(), text.size());
    }
    t->last_range_key = key;
    t->last_range = id;
    t->generation = generation;
    return id;
}

// tell_range - the CUDA recorder's own events of this thread belong to the same module and range
static void tell_range(Thread *t, struct tb_rec_thread *rt)
{
    if (R->cuda() == nullptr || rt == nullptr)
        return;
    uint32_t id = range_id(t, rt, true);
    if (R->config->snapshots[0] != 0) {
        t->range_name = phase_of(t);
        t->range_name += ':';
        t->range_name += string_of(t->module());
    }
    R->range_is(rt, id, t->range_name.c_str());
}

// push_range - borrowed until the next one
static RangeItem &push_range(Thread *t, const OpInfo *op, const char *user)
{
    const RangeItem *outer = t->range_depth ? &t->ranges[t->range_depth - 1] : nullptr;
    uint64_t hash = outer ? outer->hash : 1, whole = outer ? outer->whole : 1;
    uint64_t own = op ? op->hash : hash_text(user, std::strlen(user));

    if (t->range_depth == t->ranges.size())
        t->ranges.emplace_back();
    RangeItem &item = t->ranges[t->range_depth++];
    item.op = op;
    item.user = op ? "" : user;
    item.event = false;
    item.hash = hash_combine(hash, own);
    item.whole = hash_combine(whole, own);
    return item;
}

// push_operator - what is launched from here on is the operator's; its own event is not inside it
static void push_operator(Thread *t, const OpInfo *op)
{
    uint64_t hash = t->range_depth ? t->ranges[t->range_depth - 1].hash : 1;
    RangeItem &item = push_range(t, op, nullptr);

    item.event = true;
    item.hash = hash;
}

static void end_range(Thread *t)
{
    t->range_depth--;
    if (R->cuda() != nullptr)
        tell_range(t, R->self());
}

/* ------------------------------------------------------------------ arguments */

static uint64_t hash_args(uint64_t h, const c10::IValue &v);

static uint64_t hash_list(uint64_t h, c10::ArrayRef<c10::IValue> list)
{
    h = key_step(h, 0x4c00 + list.size());
    for (const c10::IValue &v : list)
        h = hash_args(h, v);
    return h;
}

static uint64_t hash_double(uint64_t h, double d)
{
    uint64_t bits;
    std::memcpy(&bits, &d, sizeof(bits));
    return key_step(h, bits ^ 0xd0);
}

// hash_args - everything of an argument that is not a tensor: numbers, flags, strings, lists, types
static uint64_t hash_args(uint64_t h, const c10::IValue &v)
{
    if (v.isTensor())
        return h;
    if (v.isNone())
        return key_step(h, 0x4e);
    if (v.isInt())
        return key_step(h, (uint64_t)v.toInt());
    if (v.isDouble())
        return hash_double(h, v.toDouble());
    if (v.isBool())
        return key_step(h, 0xb0u + v.toBool());
    if (v.isIntList()) {
        auto list = v.toIntList();
        h = key_step(h, 0x1100 + list.size());
        for (size_t i = 0; i < list.size(); i++)
            h = key_step(h, (uint64_t)int64_t(list[i]));
        return h;
    }
    if (v.isDoubleList()) {
        auto list = v.toDoubleList();
        h = key_step(h, 0xdd00 + list.size());
        for (size_t i = 0; i < list.size(); i++)
            h = hash_double(h, double(list[i]));
        return h;
    }
    if (v.isBoolList()) {
        auto list = v.toBoolList();
        h = key_step(h, 0xbb00 + list.size());
        for (size_t i = 0; i < list.size(); i++)
            h = key_step(h, (uint64_t) bool(list[i]));
        return h;
    }
    if (v.isString())
        return key_step(h, hash_text(v.toStringRef().data(), v.toStringRef().size()));
    if (v.isDevice())
        return key_step(h, 0xde00u + (uint64_t)(uint8_t)v.toDevice().type());
    if (v.isComplexDouble())
        return hash_double(hash_double(h, v.toComplexDouble().real()), v.toComplexDouble().imag());
    if (v.isList())
        return hash_list(h, v.toListRef());
    return key_step(h, 0xff); // generators (a read of their state), streams, objects
}

// the value of a tensor that wraps a Python number: an argument, not a buffer
static uint64_t hash_wrapped(uint64_t h, const c10::TensorImpl *t)
{
    uint8_t value[16] = {0};
    const auto *storage = t->unsafe_storage().unsafeGetStorageImpl();
    size_t n = t->dtype().itemsize();

    if (t->device().is_cpu() && storage->data() && n <= sizeof(value))
        std::memcpy(value, (const char *)storage->data() + t->storage_offset() * (int64_t)n, n);
    uint64_t a, b;
    std::memcpy(&a, value, 8);
    std::memcpy(&b, value + 8, 8);
    return key_step(key_step(h, a ^ 0x77), b);
}

/* ------------------------------------------------------------------ random numbers */

static uint32_t generator_index(const void *impl)
{
    std::lock_guard<std::mutex> hold(G->lock);
    for (size_t i = 0; i < G->generators.size(); i++)
        if (G->generators[i] == impl)
            return (uint32_t)i;
    G->generators.push_back(impl);
    return (uint32_t)(G->generators.size() - 1);
}

// The state of a CPU generator in a canonical encoding: no padding, absent samples as zeros with a
// flag.
static tb_fp rng_state(const at::CPUGeneratorImpl *gen)
{
    uint32_t words[at::MERSENNE_STATE_N + 16] = {0};
    const auto &pod = gen->engine_.data_;
    uint64_t bits;

    std::memcpy(words, pod.state_.data(), sizeof(uint32_t) * at::MERSENNE_STATE_N);
    uint32_t *w = words + at::MERSENNE_STATE_N;
    w[0] = (uint32_t)pod.seed_;
    w[1] = (uint32_t)(pod.seed_ >> 32);
    w[2] = (uint32_t)pod.left_;
    w[3] = pod.seeded_;
    w[4] = pod.next_;
    w[5] = gen->next_float_normal_sample_.has_value();
    if (w[5])
        std::memcpy(&w[6], &*gen->next_float_normal_sample_, 4);
    w[7] = gen->next_double_normal_sample_.has_value();
    if (w[7]) {
        std::memcpy(&bits, &*gen->next_double_normal_sample_, 8);
        w[8] = (uint32_t)bits;
        w[9] = (uint32_t)(bits >> 32);
    }
    return R->fp_host_pool(words, sizeof(words), 0, nullptr);
}

static tb_fp rng_state(const uint64_t philox[2])
{
    return R->fp_host_pool(philox, 2 * sizeof(philox[0]), 0, nullptr);
}

// "rng:cuda:0:default"; lives as long as the process
static const char *rng_name(c10::Device d, bool by_default)
{
    std::string name = "rng:" + d.str() + (by_default ? ":default" : ":other");
    return string_of(intern(name.data(), name.size())).c_str();
}

static const c10::GeneratorImpl *default_cuda_generator(c10::Device d)
{
    return at::globalContext().defaultGenerator(d).unsafeGetGeneratorImpl();
}

static void fill_cuda_rng(Acc &a, const c10::GeneratorImpl *gen, struct tb_rec_thread *rt)
{
    uint64_t philox[2];

    if (!a.device.has_index()) // torch.Generator("cuda")
        a.device = current_cuda();
    a.name = rng_name(a.device, gen == default_cuda_generator(a.device));
    if (!philox_state(gen, philox)) {
        cover(rt, 1, "capture", a.name, "drawn from while its stream is captured in a graph");
        return;
    }
    a.fp = rng_state(philox);
    a.fp_kind = TB_FP_STATE;
}

static void add_rng_access(Body *b, struct tb_rec_thread *rt, const c10::GeneratorImpl *gen,
                           uint16_t arg)
{
    Acc a;
    a.mode = 'g';
    a.arg = arg;
    a.device = gen->device();
    a.dims = (uint32_t)b->arena.size();
    uint32_t index = generator_index(gen);
    a.alloc = TB_ALLOC_RNG + index;
    if (gen->device().is_cpu()) {
        a.name = index == 0 ? "rng:cpu:default" : "rng:cpu:other";
        a.fp = rng_state(static_cast<const at::CPUGeneratorImpl *>(gen));
        a.fp_kind = TB_FP_STATE;
    } else if (gen->device().is_cuda()) {
        fill_cuda_rng(a, gen, rt);
    } else {
        a.name = "rng:device";
    }
    b->accs.push_back(a);
}

// The generator that an operator draws from if none was given: that of the device it works on,
// which is the one it names, else that of its tensors.
static const c10::GeneratorImpl *default_generator(const Body *b,
                                                   c10::ArrayRef<const c10::IValue> in)
{
    c10::Device on(c10::kCPU);

    for (const Acc &a : b->accs)
        if (a.mode != 'g' && !on.is_cuda())
            on = a.device;
    for (const Written &w : b->written)
        if (auto impl = w.tensor.lock())
            if (!on.is_cuda() && !is_indirect(impl.get()))
                on = impl->device();
    for (const c10::IValue &v : in)
        if (v.isDevice())
            on = v.toDevice();
    if (on.is_cuda() && !on.has_index())
        on = current_cuda();
    return on.is_cuda() ? default_cuda_generator(on)
                        : at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl();
}

/* ------------------------------------------------------------------ accesses */

// The devices that tensors lie on: their generators' states belong to the state at a step's end.
static void note_device(const Acc &a)
{
    uint64_t bit = a.on_device ? 1ull << ((uint8_t)a.device.index() & 63u) : 0;

    if ((G->devices.load(std::memory_order_relaxed) & bit) != bit) {
        blocks_attach();
        G->devices_of.store(R->generation(), std::memory_order_relaxed);
        G->devices.fetch_or(bit, std::memory_order_relaxed);
    }
}

// add_tensor - look at a tensor argument or result; opaque ones become access mode x and a coverage
// row
static void add_tensor(Ctx *c, struct tb_rec_thread *rt, const c10::TensorImpl *t, char mode,
                       uint16_t arg, int32_t item)
{
    Body *b = c->body;
    Acc a;
    const char *why = "";

    a.mode = mode;
    a.arg = arg;
    a.item = item;
    switch (look(t, a, b->arena, &why)) {
    case Look::skip:
        return;
    case Look::wrapped:
        if (mode == 'r')
            c->args = hash_wrapped(c->args, t);
        return;
    case Look::indirect:
        c->silent = true;
        cover(rt, 0, "indirect", c->op ? c->op->name.c_str() : "state", why);
        return;
    case Look::opaque:
        a.mode = 'x';
        a.contiguous = true;
        a.storage = nullptr;
        c->partial = true;
        cover(rt, 1, "tensor", c->op ? c->op->name.c_str() : "state", why);
        break;
    case Look::fine:
        note_device(a);
        break;
    }
    b->accs.push_back(a);
}

// hash_accesses - of those from @from on that @of chooses. No lock is held: CUDA may be called
template <class F>
static void hash_accesses(Ctx *c, struct tb_rec_thread *rt, size_t from, F of)
{
    for (size_t i = from; i < c->body->accs.size(); i++) {
        Acc &a = c->body->accs[i];
        if (a.storage && of(a) && !hash_access(rt, a, c->body->arena))
            c->partial = true;
    }
}

constexpr uint64_t kHostRead =
    1u << 20; // bytes up to which host-made memory is hashed at every read

static void report_unseen(struct tb_rec_thread *rt, const std::vector<Unseen> &list, const Acc &a,
                          const char *reader)
{
    char detail[320];

    const std::vector<const Ctx *> &running = thread_state()->running;
    for (const Unseen &u : list) {
        // it was right when the outermost operator began: that operator's own kernel wrote it since
        if (!running.empty() && u.sure >= running.front()->open) {
            cover(rt, 0, "origin", "inside an operator", running.front()->op->name.c_str());
            continue;
        }
        snprintf(
            detail, sizeof(detail),
            "allocation %llu bytes %lld..%lld: written by %s (event %lld), changed by nobody seen, "
            "found by %s: %016llx%016llx became %016llx%016llx",
            (unsigned long long)a.alloc, (long long)u.lo, (long long)u.hi, u.writer,
            (long long)u.seq, reader, (unsigned long long)u.was.a, (unsigned long long)u.was.b,
            (unsigned long long)u.is.a, (unsigned long long)u.is.b);
        R->cover(rt, 2, R->seq(), "unseen writer", u.writer, detail, 1);
    }
}

// check_read - --inputs: continuity, and the origin of bytes that no recorded operator wrote
static void check_read(Alloc &al, Acc &a, const std::vector<int64_t> &arena,
                       struct tb_rec_thread *rt, const char *reader)
{
    std::vector<Unseen> unseen;
    Geometry g = geometry_of(a, arena);
    uint64_t forgotten = 0;

    if (a.bytes == 0)
        return;
    bool known = before_access(al, g, unseen);
    report_unseen(rt, unseen, a, reader);
    if (known)
        return;
    Extent e;
    e.geo = std::move(g);
    e.fp = hash_extent(al, e.geo);
    e.sure = R->seq();
    e.check = al.origin != Origin::external;
    if (al.origin == Origin::external) {
        e.writer = "memory shared with the host";
        cover(rt, 0, "origin", "shared memory", "");
    } else if (al.origin == Origin::empty && al.writes == 0) {
        e.writer = "nobody (uninitialised)";
        cover(rt, 1, "uninitialised read", reader, "bytes of an empty tensor that nobody wrote");
    } else {
        e.writer = "the host";
        cover(rt, 0, "origin", "host construction", "");
    }
    add_extent(al, std::move(e), &forgotten);
}

// resolve - allocation and offset of every access from @from on; what of host memory must be hashed
// before the call is, what of a device is marked
static bool resolve(Ctx *c, struct tb_rec_thread *rt, size_t from)
{
    Body *b = c->body;
    bool wanted = false;
    std::lock_guard<std::mutex> hold(G->allocs.lock);

    for (size_t i = from; i < b->accs.size(); i++) {
        Acc &a = b->accs[i];
        if (!a.storage)
            continue;
        Alloc *al = G->allocs.find(a.storage);
        if (!al)
            continue;
        a.alloc = al->id;
        a.offset += al->base;
        if (a.mode != 'r')
            continue;
        if (a.on_device) {
            // what lies there cannot be known now: whether it is what its writer left is seen later
            bool first = al->writes == 0 && al->last_seq == TB_REC_NO_SEQ;
            a.wanted = !c->silent && (G->inputs || (first && al->origin != Origin::empty));
            if (first && a.wanted)
                al->last_seq = 0;
            wanted |= a.wanted;
        } else if (G->inputs) {
            check_read(*al, a, b->arena, rt, c->op->name.c_str());
            hash_access(rt, a, b->arena);
        } else if (al->writes == 0 && al->origin != Origin::empty &&
                   (a.bytes <= kHostRead || al->last_seq == TB_REC_NO_SEQ)) {
            hash_access(rt, a, b->arena); // bytes that came from outside: where blame ends
            al->last_seq = 0;
        }
    }
    return wanted;
}

// check_overwritten - --inputs: a partial write is hashed with what remains of older extents: check
// them first
static void check_overwritten(Ctx *c, struct tb_rec_thread *rt)
{
    std::vector<Unseen> unseen;
    std::vector<int64_t> arena;

    for (const Written &w : c->body->written) {
        auto impl = w.tensor.lock();
        Acc a;
        const char *why = "";
        arena.clear();
        if (!impl || look(impl.get(), a, arena, &why) != Look::fine || a.bytes == 0 || a.on_device)
            continue;
        std::lock_guard<std::mutex> hold(G->allocs.lock);
        Alloc *al = G->allocs.find(a.storage);
        if (!al)
            continue;
        a.alloc = al->id;
        a.offset += al->base;
        unseen.clear();
        Geometry g = geometry_of(a, arena);
        before_write(*al, g, unseen);
        report_unseen(rt, unseen, a, c->op->name.c_str());
    }
}

/* ------------------------------------------------------------------ snapshots */

static int32_t match_snapshot(const Thread *t, const OpInfo *op)
{
    uint64_t step = G->step.load(std::memory_order_relaxed);

    for (size_t i = 0; i < G->snaps.size(); i++) {
        SnapSpec &s = G->snaps[i];
        if (s.step != step || s.op != op->name)
            continue;
        std::string range = std::string(phase_of(t)) + ":" + string_of(t->module());
        if (range == s.range)
            return (int32_t)i;
    }
    return -1;
}

static void take_snapshot(Ctx *c, struct tb_rec_thread *rt, size_t index)
{
    const Acc &a = c->body->accs[index];
    void *handle = nullptr;

    if (!a.ptr || a.bytes == 0 || a.on_device)
        return;
    char *out = static_cast<char *>(R->snapshot_open(rt, a.bytes, &handle));
    if (!out)
        return;
    if (a.contiguous) {
        std::memcpy(out, a.ptr, a.bytes);
    } else {
        const int64_t *sizes = c->body->arena.data() + a.dims, *strides = sizes + a.ndim;
        int64_t at[64] = {0};
        for (uint64_t done = 0; done < a.bytes; done += a.elem) {
            int64_t off = 0;
            for (int d = 0; d < a.ndim; d++)
                off += at[d] * strides[d];
            std::memcpy(out + done, a.ptr + off * (int64_t)a.elem, a.elem);
            for (int d = a.ndim - 1; d >= 0 && ++at[d] == sizes[d]; d--)
                at[d] = 0;
        }
    }
    c->body->snaps.push_back(Snap{index, handle});
}

// snapshot_device - what @c has written in device memory, and of what it read there the bytes that
// it has not written to: both are there when its own work is done. Event @seq was just written
static void snapshot_device(Ctx *c, struct tb_rec_thread *rt, uint64_t seq)
{
    const Body *b = c->body;

    for (size_t i = 0; i < b->accs.size(); i++) {
        const Acc &a = b->accs[i];
        bool kept = a.mode == 'w', over = false;
        if (!a.on_device || !a.storage || a.bytes == 0 || (a.mode != 'r' && a.mode != 'w'))
            continue;
        for (const Acc &w : b->accs)
            over |= a.mode == 'r' && w.mode == 'w' && w.storage == a.storage;
        if (!over) {
            OnDevice there(a.device.is_cpu() ? c10::Device(c10::kCUDA, a.copied_by) : a.device);
            tb_rec_view v = view_of(a, b->arena.data() + a.dims);
            const tb_rec_cuda *cuda = R->cuda();
            void *stream;
            int device;
            kept = cuda && where_of(a, &device, &stream) &&
                   cuda->snapshot(rt, device, stream, &v, seq, (uint32_t)i);
        }
        if (!kept)
            R->cover(rt, 0, seq, "snapshot", c->op->name.c_str(),
                     over ? "read in device memory and overwritten there: only what was written is "
                            "kept"
                          : "the CUDA recorder could not copy it",
                     1);
    }
}

// How many events that a spec names have ended in this thread and step.
static uint64_t &seen_of(Thread *t, int32_t spec)
{
    uint64_t step = G->step.load(std::memory_order_relaxed);

    if (t->seen.size() != G->snaps.size() || t->seen_step != step) {
        t->seen.assign(G->snaps.size(), 0);
        t->seen_step = step;
    }
    return t->seen[(size_t)spec];
}

static bool snapshot_is_due(const Ctx *c, Thread *t)
{
    return c->snap_spec >= 0 && seen_of(t, c->snap_spec) == G->snaps[(size_t)c->snap_spec].k;
}

/* ------------------------------------------------------------------ events */

// emit - define the site if it is new, write the event; returns its seq
static uint64_t emit(Ctx *c, Thread *t, struct tb_rec_thread *rt, uint8_t kind, uint16_t flags)
{
    Body *b = c->body;
    uint64_t key = hash_combine(c->op ? c->op->hash : 0x57a7e, kind);

    for (const Acc &a : b->accs)
        key = key_of(key, a, b->arena);
    uint32_t site = R->site_find(rt, key);
    if (site == 0) {
        t->text = "torch\n";
        t->text += c->op ? c->op->name : kind == TB_EV_STEP ? "step" : "state";
        t->text += '\n';
        for (const Acc &a : b->accs)
            put_line(t->text, a, b->arena, c->op);
        site = R->site_define(rt, key, t->text.data(), t->text.size());
        if (site == 0)
            return TB_REC_NO_SEQ;
    }
    t->wire.resize(b->accs.size());
    for (size_t i = 0; i < b->accs.size(); i++) {
        const Acc &a = b->accs[i];
        t->wire[i] = tb_wire_access{(a.alloc & TB_ALLOC_MASK) | (uint64_t)a.fp_kind << 48 |
                                        (a.pending ? TB_ACCESS_PENDING : 0),
                                    (uint64_t)a.offset, a.fp.a, a.fp.b};
    }
    tb_wire_event e;
    std::memset(&e, 0, sizeof(e));
    e.kind = kind;
    e.flags = (uint16_t)(flags | (t->backward() ? TB_EVF_BACKWARD : 0) |
                         (c->partial ? TB_EVF_PARTIAL : 0) | (G->inputs ? TB_EVF_READS_HASHED : 0));
    e.accesses = (uint32_t)b->accs.size();
    e.open = c->open;
    e.site = site;
    e.range = kind == TB_EV_STATE || kind == TB_EV_STEP ? 0 : range_id(t, rt);
    e.step = G->step.load(std::memory_order_relaxed);
    e.args = c->args;
    e.time_ns = c->time_ns;
    uint64_t seq = R->event(rt, &e, t->wire.data());
    if (t->line && seq != TB_REC_NO_SEQ) {
        const std::string &line = string_of(t->line);
        R->stack(rt, seq, line.data(), line.size());
    }
    return seq;
}

static uint64_t extent_key(const Acc &a, const std::vector<int64_t> &arena)
{
    uint64_t h = key_step(key_step(0x3e, (uint64_t)a.offset), a.bytes);
    for (size_t i = 0; !a.contiguous && i < 2u * a.ndim; i++)
        h = key_step(h, (uint64_t)arena[a.dims + i]);
    return h;
}

static void note_writes(Ctx *c, struct tb_rec_thread *rt, size_t from, uint64_t seq)
{
    Body *b = c->body;
    uint64_t forgotten = 0;
    std::lock_guard<std::mutex> hold(G->allocs.lock);

    for (size_t i = from; i < b->accs.size(); i++) {
        const Acc &a = b->accs[i];
        if (a.mode != 'w' || !a.storage)
            continue;
        Alloc *al = G->allocs.find(a.storage);
        if (!al)
            continue;
        al->writes++;
        al->last_seq = seq + 1; // never 0; an inner write has seq >= open, so last_seq > open
        al->last_key = extent_key(a, b->arena);
        al->last_fp = a.fp;
        if (G->inputs && a.bytes && a.on_device)
            forget_extents(*al, geometry_of(a, b->arena));
        else if (G->inputs && a.bytes)
            after_write(*al, geometry_of(a, b->arena), a.fp, seq, c->op->name.c_str(), &forgotten);
    }
    if (forgotten)
        R->cover(rt, 1, TB_REC_NO_SEQ, "continuity", c->op->name.c_str(),
                 "more extents in one allocation than are kept", forgotten);
}

static void emit_pending(Thread *t, struct tb_rec_thread *rt, const Pending &w)
{
    Ctx c;

    c.body = take_body(t);
    c.op = w.op;
    c.args = w.args;
    c.open = R->seq();
    c.time_ns = now_ns();
    for (size_t i = 0; i < w.tensors.size(); i++)
        add_tensor(&c, rt, w.tensors[i].unsafeGetTensorImpl(), 'w', w.where[i].first,
                   w.where[i].second);
    resolve(&c, rt, 0);
    hash_accesses(&c, rt, 0, [](const Acc &) { return true; });
    uint64_t seq = emit(&c, t, rt, TB_EV_COLL, 0);
    note_writes(&c, rt, 0, seq);
    give_body(t, &c);
}

// settle - emit the collectives whose buffers @touched is about to use, or all (nullptr), if they
// have finished
static void settle(Thread *t, struct tb_rec_thread *rt, const Body *touched, const char *toucher)
{
    Pendings &p = pendings();
    size_t at = 0;

    if (p.count.load(std::memory_order_relaxed) == 0)
        return;
    for (;;) {
        Pending w;
        {
            std::lock_guard<std::mutex> hold(p.lock);
            while (at < p.list.size() && touched && !p.list[at].touched_by(touched))
                at++;
            if (at >= p.list.size())
                return;
            if (!p.list[at].done()) {
                if (touched)
                    cover(rt, 1, "collective", p.list[at].op->name.c_str(),
                          (std::string("its buffer was touched before it had finished, by ") +
                           toucher)
                              .c_str());
                at++;
                continue;
            }
            w = std::move(p.list[at]);
            p.list.erase(p.list.begin() + (ptrdiff_t)at);
            p.count.store(p.list.size(), std::memory_order_relaxed);
        }
        emit_pending(t, rt, w);
    }
}

static bool recording_ops()
{
    if (R->paused())
        return false;
    if (!G->window)
        return true;
    uint64_t step = G->step.load(std::memory_order_relaxed);
    return step >= R->config->step_from && step <= R->config->step_to;
}

static void read_arguments(Ctx *c, Thread *t, struct tb_rec_thread *rt,
                           const at::RecordFunction &fn)
{
    c10::ArrayRef<const c10::IValue> in = fn.inputs();
    const OpInfo *op = c->op;
    bool have_generator = false;

    c->args = key_step(0x7477, in.size());
    for (size_t i = 0; i < in.size(); i++) {
        static const ArgInfo plain;
        const ArgInfo &arg = i < op->args.size() ? op->args[i] : plain;
        const c10::IValue &v = in[i];
#ifdef TB_HAVE_C10D
        if (op->cls == OpClass::collective && !c->group)
            c->group = works_of(v);
#endif
        if (v.isTensor()) {
            c10::TensorImpl *impl = v.unsafeToTensorImpl();
            if (!arg.write_only)
                add_tensor(c, rt, impl, 'r', (uint16_t)i, -1);
            if (arg.written && impl != c10::UndefinedTensorImpl::singleton())
                c->body->written.push_back(
                    {c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
                         v.toTensor().getIntrusivePtr()),
                     (uint16_t)i, -1});
        } else if (v.isList() && !v.isIntList() && !v.isDoubleList() && !v.isBoolList()) {
            c10::ArrayRef<c10::IValue> list = v.toListRef();
            c->args = key_step(c->args, 0x4c00 + list.size());
            int32_t item = 0;
            for (const c10::IValue &e : list) {
                if (e.isTensor()) {
                    if (!arg.write_only)
                        add_tensor(c, rt, e.unsafeToTensorImpl(), 'r', (uint16_t)i, item);
                    if (arg.written && e.toTensor().defined())
                        c->body->written.push_back(
                            {c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
                                 e.toTensor().getIntrusivePtr()),
                             (uint16_t)i, item});
                } else if (e.isList()) {
                    int32_t inner = item << 12;
                    for (const c10::IValue &x : e.toListRef()) // collectives: lists of lists
                        if (x.isTensor() && x.toTensor().defined()) {
                            if (!arg.write_only)
                                add_tensor(c, rt, x.unsafeToTensorImpl(), 'r', (uint16_t)i, inner);
                            if (arg.written)
                                c->body->written.push_back(
                                    {c10::weak_intrusive_ptr<c10::TensorImpl,
                                                             c10::UndefinedTensorImpl>(
                                         x.toTensor().getIntrusivePtr()),
                                     (uint16_t)i, inner});
                            inner++;
                        }
                } else {
                    c->args = hash_args(c->args, e);
                }
                item++;
            }
        } else if (v.isGenerator()) {
            add_rng_access(c->body, rt, v.toGenerator().unsafeGetGeneratorImpl(), (uint16_t)i);
            have_generator = true;
        } else {
            c->args = hash_args(c->args, v);
        }
    }
    if (op->rng && !have_generator)
        add_rng_access(c->body, rt, default_generator(c->body, in), kOut);
    (void)t;
}

// begin_running - last of all: from here on what is launched is the operator's, which hashes it
static void begin_running(Thread *t, struct tb_rec_thread *rt, Ctx *c)
{
    t->running.push_back(c);
    c->cuda = R->cuda();
    if (!c->cuda)
        return;
    c->cuda->op_begin();
    if (R->config->level >= TB_LEVEL_KERNEL) {
        push_operator(t, c->op);
        c->ranged = true;
        tell_range(t, rt);
    }
}

static void end_running(Thread *t, Ctx *c)
{
    t->running.pop_back();
    if (c->cuda)
        c->cuda->op_end();
    if (c->ranged)
        end_range(t);
}

static std::unique_ptr<at::ObserverContext> start_op(Thread *t, struct tb_rec_thread *rt,
                                                     const at::RecordFunction &fn, const OpInfo *op)
{
    std::unique_ptr<Ctx> c(new Ctx());

    c->op = op;
    c->owner = t;
    c->body = take_body(t);
    c->uncaught = std::uncaught_exceptions();
    c->open = R->seq();
    c->time_ns = now_ns();
    tell_range(t, rt);
    if (op->cls == OpClass::empty) {
        begin_running(t, rt, c.get());
        return c;
    }
    read_arguments(c.get(), t, rt, fn);
    if (pendings().count.load(std::memory_order_relaxed)) {
        settle(t, rt, c->body, op->name.c_str());
        c->open = R->seq();
    }
    if (resolve(c.get(), rt, 0))
        hash_accesses(c.get(), rt, 0, [](const Acc &a) { return a.wanted; });
    if (G->inputs)
        check_overwritten(c.get(), rt);
    if (!G->snaps.empty()) {
        c->snap_spec = match_snapshot(t, op);
        if (snapshot_is_due(c.get(), t))
            for (size_t i = 0; i < c->body->accs.size(); i++)
                if (c->body->accs[i].mode == 'r')
                    take_snapshot(c.get(), rt, i);
    }
    begin_running(t, rt, c.get());
    return c;
}

static std::unique_ptr<at::ObserverContext> start_backward(Thread *t, struct tb_rec_thread *rt,
                                                           const at::RecordFunction &fn)
{
    std::unique_ptr<Ctx> c(new Ctx());

    c->kind = CtxKind::backward;
    c->owner = t;
    c->saved_module = t->backward_module;
    c->saved_base = t->module_base;
    if (fn.seqNr() >= 0) {
        uint32_t m = G->seqs.get(fn.forwardThreadId(), fn.seqNr());
        t->backward_module = m;
    }
    t->module_base = (uint32_t)t->modules.size();
    t->backward_depth++;
    push_range(t, nullptr, fn.name());
    tell_range(t, rt);
    return c;
}

static const c10::FunctionSchema *schema_of(const at::RecordFunction &fn)
{
    auto *ref = std::get_if<at::RecordFunction::schema_ref_t>(&fn.fn_);
    return ref ? &ref->get() : nullptr;
}

// mark_lifted - torch.tensor() fills an empty tensor from the host's values, then lifts it
static void mark_lifted(c10::ArrayRef<const c10::IValue> inputs)
{
    bool tensor = !inputs.empty() && inputs[0].isTensor();
    c10::StorageImpl *s = tensor ? plain_storage(inputs[0].unsafeToTensorImpl()) : nullptr;
    if (!s)
        return;
    std::lock_guard<std::mutex> hold(G->allocs.lock);
    Alloc *al = G->allocs.find(s);
    if (al && al->writes == 0 && al->origin == Origin::empty)
        al->origin = Origin::unknown;
}

// A collective at work on a thread of its back end: which of them is chance, and the result is
// hashed when used. The range is still open when the job's own callbacks on its future run there:
// leave_when_done() ends what is not recorded before those begin.
static bool inside_collective(const char *name)
{
    return std::strncmp(name, "gloo:", 5) == 0 || std::strncmp(name, "ucc:", 4) == 0 ||
           std::strncmp(name, "mpi:", 4) == 0;
}

static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction &fn)
{
    Thread *t = thread_state();

    if (t->suppressed || t->inside || !recording_ops())
        return nullptr;
    struct tb_rec_thread *rt = R->self();
    if (!rt)
        return nullptr;
    try {
        if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION)
            return start_backward(t, rt, fn);
        // also of a torch.autograd.Function, whose forward has a name and no schema
        if (fn.seqNr() >= 0 && t->module() != 0)
            G->seqs.put(t->id, fn.seqNr(), t->module());
        const c10::FunctionSchema *schema = schema_of(fn);
        if (!schema) {
            if (fn.scope() != at::RecordScope::USER_SCOPE)
                return nullptr;
            std::unique_ptr<Ctx> c(new Ctx());
            c->owner = t;
            if (inside_collective(fn.name())) {
                c->kind = CtxKind::inside;
                t->inside++;
                return c;
            }
            c->kind = CtxKind::user;
            push_range(t, nullptr, fn.name());
            tell_range(t, rt);
            return c;
        }
        const OpInfo *op = op_info(*schema);
        switch (op->cls) {
        case OpClass::ignore:
            return nullptr;
        case OpClass::view:
            if (op->lift)
                mark_lifted(fn.inputs());
            return nullptr;
        case OpClass::range: {
            std::unique_ptr<Ctx> c(new Ctx());
            c->kind = CtxKind::range;
            c->owner = t;
            push_range(t, op, nullptr);
            return c;
        }
        default:
            return start_op(t, rt, fn, op);
        }
    } catch (const std::exception &e) {
        R->stop(e.what());
        return nullptr;
    } catch (...) {
        R->stop("an exception in the torch tap");
        return nullptr;
    }
}

static void mark_empty(const std::vector<c10::IValue> &outputs)
{
    std::lock_guard<std::mutex> hold(G->allocs.lock);
    for (const c10::IValue &v : outputs) {
        c10::StorageImpl *s = v.isTensor() ? plain_storage(v.unsafeToTensorImpl()) : nullptr;
        Alloc *al = s ? G->allocs.find(s) : nullptr;
        if (al && al->writes == 0 && al->origin == Origin::unknown)
            al->origin = Origin::empty;
    }
}

// A result that lies in an argument's storage and was not marked as written: a view in disguise.
static bool is_view_of_argument(const Body *b, const c10::TensorImpl *t, size_t reads)
{
    const c10::StorageImpl *s = plain_storage(t);
    for (size_t i = 0; s && i < reads; i++)
        if (b->accs[i].storage == s)
            return true;
    return false;
}

static void add_scalar(Body *b, const c10::IValue &v, uint16_t arg)
{
    Acc a;
    uint8_t raw[16] = {0};

    a.mode = 'h';
    a.arg = arg;
    a.dims = (uint32_t)b->arena.size();
    a.fp_kind = TB_FP_SCALAR;
    if (v.isInt() || v.isBool()) {
        int64_t x = v.isInt() ? v.toInt() : (int64_t)v.toBool();
        a.dtype = TB_DT_I64;
        std::memcpy(raw, &x, 8);
    } else if (v.isDouble()) {
        double x = v.toDouble();
        a.dtype = TB_DT_F64;
        std::memcpy(raw, &x, 8);
    } else if (v.isComplexDouble()) {
        c10::complex<double> x = v.toComplexDouble();
        a.dtype = TB_DT_C128;
        std::memcpy(raw, &x, 16);
    } else {
        return;
    }
    std::memcpy(&a.fp.a, raw, 8);
    std::memcpy(&a.fp.b, raw + 8, 8);
    b->accs.push_back(a);
}

// add_results - what the operator wrote; a result that is a view in disguise wrote nothing
static void add_results(Ctx *c, struct tb_rec_thread *rt, const std::vector<c10::IValue> &outputs)
{
    Body *b = c->body;
    size_t reads = b->accs.size(), views = 0;

    for (const Written &w : b->written)
        if (auto impl = w.tensor.lock())
            add_tensor(c, rt, impl.get(), 'w', w.arg, w.item);
    for (size_t i = 0; i < outputs.size(); i++) {
        const c10::IValue &v = outputs[i];
        uint16_t arg = (uint16_t)(kOut + i);
        if (i < c->op->ret_is_arg.size() && c->op->ret_is_arg[i])
            continue;
        if (v.isTensor()) {
            const c10::TensorImpl *impl = v.unsafeToTensorImpl();
            if (is_view_of_argument(b, impl, reads))
                views++;
            else
                add_tensor(c, rt, impl, 'w', arg, -1);
        } else if (v.isList() && !v.isIntList() && !v.isDoubleList() && !v.isBoolList()) {
            int32_t item = 0;
            for (const c10::IValue &e : v.toListRef()) {
                if (e.isTensor() && is_view_of_argument(b, e.unsafeToTensorImpl(), reads))
                    views++;
                else if (e.isTensor())
                    add_tensor(c, rt, e.unsafeToTensorImpl(), 'w', arg, item);
                item++;
            }
        } else {
            add_scalar(b, v, arg);
        }
    }
    if (views && b->accs.size() == reads)
        c->silent = true;
}

// same_as_inner - an inner writer of the very same bytes was recorded: its fingerprint is theirs.
// Not so where it is not known yet: a ticket belongs to one access
static bool same_as_inner(const Ctx *c, Acc &a)
{
    if (!c->op->wrapper || a.on_device)
        return false;
    std::lock_guard<std::mutex> hold(G->allocs.lock);
    Alloc *al = G->allocs.find(a.storage);
    if (!al || al->last_seq == TB_REC_NO_SEQ || al->last_seq <= c->open ||
        al->last_key != extent_key(a, c->body->arena))
        return false;
    a.fp = al->last_fp;
    a.fp_kind = a.contiguous ? TB_FP_BYTES : TB_FP_ROWMAJOR;
    return true;
}

// find_copies - what is copied from a device to pinned memory of the host may still be on its way:
// it is hashed behind the copy, in the stream that copies
static void find_copies(Ctx *c, struct tb_rec_thread *rt, size_t from)
{
    Body *b = c->body;
    c10::Device source(c10::kCPU);

    for (size_t i = 0; i < from; i++)
        if (b->accs[i].device.is_cuda() && b->accs[i].mode != 'g')
            source = b->accs[i].device;
    if (source.is_cpu())
        return;
    for (size_t i = from; i < b->accs.size(); i++) {
        Acc &a = b->accs[i];
        if (a.mode != 'w' || !a.storage || !a.device.is_cpu() || a.bytes == 0 || !pinned(a.ptr))
            continue;
        a.on_device = true;
        a.copied_by = (int8_t)source.index();
        if (R->cuda() != nullptr)
            continue;
        a.storage = nullptr; // no CUDA recorder: what is there now may be anything
        a.mode = 'x';
        c->partial = true;
        cover(rt, 1, "tensor", c->op->name.c_str(),
              "pinned memory that a device may still copy to: `twinbit run --tap shim` (or cupti) "
              "hashes it");
    }
}

// hash_writes - fingerprint what was written, or take the fingerprint of an inner writer
static void hash_writes(Ctx *c, struct tb_rec_thread *rt, size_t from)
{
    find_copies(c, rt, from);
    hash_accesses(c, rt, from, [c](Acc &a) { return a.mode == 'w' && !same_as_inner(c, a); });
}

#ifdef TB_HAVE_C10D
// leave_when_done - callbacks run in the order in which they were added, and the job has not got
// the future yet: ours is the first. It does not use the future, so that no stream is taken for it
static void leave_when_done(::c10d::Work &work, Works *group)
{
    uint64_t number = group ? group->begin() : 0;

    try {
        work.getFuture()->addCallback(
            [group, number](c10::ivalue::Future &) {
                thread_state()->inside = 0;
                if (group)
                    group->end(number);
            },
            false);
    } catch (...) {
        // point-to-point works have none: nothing of the job's runs in their threads
        if (group)
            group->forget(number);
    }
}
#endif

static void note_collective(Ctx *c, Thread *t, const std::vector<c10::IValue> &outputs)
{
    Pending w;

    w.op = c->op;
    w.args = c->args;
    w.module = t->module();
    w.backward = t->backward();
    for (const Written &x : c->body->written)
        if (auto impl = x.tensor.lock()) {
            w.tensors.push_back(at::Tensor(std::move(impl)));
            w.where.push_back({x.arg, x.item});
        }
#ifdef TB_HAVE_C10D
    w.work = work_of(outputs);
    auto work = w.work;
    bool on_cpu = !w.tensors.empty() && w.tensors[0].device().is_cpu();
#endif
    Pendings &p = pendings();
    {
        std::lock_guard<std::mutex> hold(p.lock);
        p.list.push_back(std::move(w));
        p.count.store(p.list.size(), std::memory_order_relaxed);
    }
#ifdef TB_HAVE_C10D
    if (work)
        leave_when_done(*work, on_cpu ? c->group : nullptr);
#endif
}

// send_maps - --map: coarse maps of what was written, ahead of the event that they belong to
static void send_maps(const Body *b, struct tb_rec_thread *rt, size_t from)
{
    struct tb_fp sums[TB_FP_MAP_MAX];

    for (size_t i = from; i < b->accs.size(); i++) {
        const Acc &a = b->accs[i];
        if (a.mode != 'w' || !a.contiguous || !a.storage || a.on_device || a.bytes <= TB_FP_LEAF)
            continue;
        unsigned parts = R->fp_map(a.ptr, a.bytes, sums);
        R->map(rt, (uint32_t)i, a.bytes, sums, parts);
    }
}

// A ticket that was drawn has to reach the collector: it frees the ticket's slot.
static bool has_tickets(const Body *b)
{
    for (const Acc &a : b->accs)
        if (a.pending)
            return true;
    return false;
}

static void end_op(Ctx *c, Thread *t, struct tb_rec_thread *rt, const at::RecordFunction &fn)
{
    Body *b = c->body;
    uint16_t flags = 0;
    uint8_t kind = c->op->cls == OpClass::collective ? TB_EV_COLL : TB_EV_OP;

    if (c->op->cls == OpClass::empty) {
        mark_empty(fn.outputs());
        return;
    }
    size_t reads = b->accs.size();
    if (std::uncaught_exceptions() > c->uncaught) {
        flags |= TB_EVF_FAILED;
    } else if (c->op->cls != OpClass::collective) {
        add_results(c, rt, fn.outputs());
        resolve(c, rt, reads);
        if (!c->silent)
            hash_writes(c, rt, reads);
        if (snapshot_is_due(c, t))
            for (size_t i = reads; i < b->accs.size(); i++)
                if (b->accs[i].mode == 'w')
                    take_snapshot(c, rt, i);
    }
    if (c->silent && !has_tickets(b))
        return;
    if (R->config->flags & TB_CFG_MAP)
        send_maps(b, rt, reads);
    uint64_t seq = emit(c, t, rt, kind, flags);
    for (const Snap &s : b->snaps)
        R->snapshot_send(rt, s.handle, seq, (uint32_t)s.acc);
    if (seq != TB_REC_NO_SEQ && !(flags & TB_EVF_FAILED) && snapshot_is_due(c, t))
        snapshot_device(c, rt, seq);
    if (c->snap_spec >= 0)
        seen_of(t, c->snap_spec)++;
    if (c->op->cls == OpClass::collective && !(flags & TB_EVF_FAILED))
        note_collective(c, t, fn.outputs());
    else if (seq != TB_REC_NO_SEQ)
        note_writes(c, rt, reads, seq);
}

static void on_end(const at::RecordFunction &fn, at::ObserverContext *raw)
{
    Ctx *c = static_cast<Ctx *>(raw);
    Thread *t = thread_state();

    if (!c || c->owner != t)
        return; // ended on another thread: its start is not ours to balance
    switch (c->kind) {
    case CtxKind::inside:
        t->inside -= t->inside > 0;
        return;
    case CtxKind::backward:
        t->task = torch::autograd::get_current_graph_task_id();
        t->task_module = t->backward_module;
        t->backward_depth--;
        t->backward_module = c->saved_module;
        t->module_base = c->saved_base;
        end_range(t);
        return;
    case CtxKind::range:
    case CtxKind::user:
        end_range(t);
        return;
    case CtxKind::op:
        end_running(t, c);
        break;
    }
    struct tb_rec_thread *rt = R->self();
    try {
        if (rt)
            end_op(c, t, rt, fn);
    } catch (const std::exception &e) {
        R->stop(e.what());
    } catch (...) {
        R->stop("an exception in the torch tap");
    }
    give_body(t, c);
}

/* ------------------------------------------------------------------ state at the end of a step */

static void emit_states(Thread *t, struct tb_rec_thread *rt, const uintptr_t *impls,
                        const uint32_t *names, uint32_t n)
{
    Ctx c;

    c.body = take_body(t);
    c.open = R->seq();
    c.time_ns = now_ns();
    for (uint32_t i = 0; i < n; i++) {
        size_t before = c.body->accs.size();
        add_tensor(&c, rt, reinterpret_cast<const c10::TensorImpl *>(impls[i]), 's', 0, -1);
        if (c.body->accs.size() > before) {
            c.body->accs.back().name = string_of(names[i]).c_str();
            if (c.body->accs.back().mode == 'x')
                c.body->accs.back().storage = nullptr;
        }
    }
    resolve(&c, rt, 0);
    hash_accesses(&c, rt, 0, [](const Acc &) { return true; });
    emit(&c, t, rt, TB_EV_STATE, 0);
    give_body(t, &c);
}

static void emit_bytes(Thread *t, struct tb_rec_thread *rt, const char *name, tb_fp fp,
                       uint8_t kind)
{
    Ctx c;
    Acc a;

    c.body = take_body(t);
    c.open = R->seq();
    c.time_ns = now_ns();
    a.mode = 's';
    a.name = name;
    a.fp = fp;
    a.fp_kind = kind;
    c.body->accs.push_back(a);
    emit(&c, t, rt, TB_EV_STATE, 0);
    give_body(t, &c);
}

static void emit_cuda_generators(Thread *t, struct tb_rec_thread *rt)
{
    uint64_t devices = G->devices.load(std::memory_order_relaxed), philox[2];

    if (G->devices_of.load(std::memory_order_relaxed) != R->generation())
        return; // a forked child: CUDA is its parent's
    for (int i = 0; devices; i++, devices >>= 1) {
        if (!(devices & 1))
            continue;
        const c10::GeneratorImpl *gen =
            default_cuda_generator(c10::Device(c10::kCUDA, (c10::DeviceIndex)i));
        const char *name = rng_name(gen->device(), true);
        if (philox_state(gen, philox))
            emit_bytes(t, rt, name, rng_state(philox), TB_FP_STATE);
        else
            cover(rt, 1, "capture", name, "a step ended while its stream was captured in a graph");
    }
}

static void end_step(Thread *t, struct tb_rec_thread *rt, int64_t step)
{
    Ctx c;

    settle(t, rt, nullptr, nullptr);
    emit_bytes(t, rt, "rng:cpu:default",
               rng_state(static_cast<const at::CPUGeneratorImpl *>(
                   at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl())),
               TB_FP_STATE);
    emit_cuda_generators(t, rt);
    if (step >= 0)
        G->step.store((uint64_t)step, std::memory_order_relaxed);
    c.body = take_body(t);
    c.open = R->seq();
    c.time_ns = now_ns();
    emit(&c, t, rt, TB_EV_STEP, 0);
    give_body(t, &c);
    R->step_is(G->step.fetch_add(1, std::memory_order_relaxed) + 1);
    if (R->config->level < TB_LEVEL_OP || !recording_ops()) {
        std::lock_guard<std::mutex> hold(G->allocs.lock);
        G->allocs.forget_all();
    }
}

/* ------------------------------------------------------------------ start */

// "3/backward:transformer.h.1.attn/aten::addmm#0", with more parts before it, which name rank,
// process, thread
static void parse_snapshot(const std::string &line)
{
    size_t op = line.rfind('/');
    size_t hash = line.rfind('#');
    if (op == std::string::npos || hash == std::string::npos || hash < op || op == 0)
        return;
    size_t range = line.rfind('/', op - 1);
    if (range == std::string::npos)
        return;
    size_t step = range == 0 ? std::string::npos : line.rfind('/', range - 1);
    size_t from = step == std::string::npos ? 0 : step + 1;
    G->snaps.emplace_back();
    SnapSpec &s = G->snaps.back();
    s.step = strtoull(line.substr(from, range - from).c_str(), nullptr, 10);
    s.range = line.substr(range + 1, op - range - 1);
    s.op = line.substr(op + 1, hash - op - 1);
    s.k = strtoull(line.c_str() + hash + 1, nullptr, 10);
}

static void parse_snapshots(const char *text)
{
    std::string line;
    for (const char *p = text;; p++) {
        if (*p && *p != '\n') {
            line += *p;
            continue;
        }
        if (!line.empty())
            parse_snapshot(line);
        line.clear();
        if (!*p)
            return;
    }
}

static void find_pool()
{
    Dl_info info;
    if (!dladdr((void *)&at::get_num_threads, &info) || !info.dli_fname)
        return;
    void *lib = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (!lib)
        return;
    auto parallel = dlsym(lib, "GOMP_parallel");
    auto threads = dlsym(lib, "omp_get_num_threads"), num = dlsym(lib, "omp_get_thread_num");
    if (parallel && threads && num) {
        gomp_num_threads = reinterpret_cast<int (*)(void)>(threads);
        gomp_thread_num = reinterpret_cast<int (*)(void)>(num);
        gomp_parallel =
            reinterpret_cast<void (*)(void (*)(void *), void *, unsigned, unsigned)>(parallel);
    }
    dlclose(lib);
}

// self_check - the layout of RecordFunction that we were compiled with is the one of this torch
static int checked;

static std::unique_ptr<at::ObserverContext> check_start(const at::RecordFunction &fn)
{
    const c10::FunctionSchema *s = schema_of(fn);
    if (s && s->name() == "aten::neg" && fn.inputs().size() == 1 && fn.inputs()[0].isTensor())
        checked |= 1;
    return nullptr;
}

static void check_end(const at::RecordFunction &fn, at::ObserverContext *)
{
    const c10::FunctionSchema *s = schema_of(fn);
    if (s && s->name() == "aten::neg" && fn.outputs().size() == 1 && fn.outputs()[0].isTensor())
        checked |= 2;
}

static bool self_check()
{
    auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(check_start, check_end).needsInputs(true).needsOutputs(true));
    {
        at::Tensor x = at::ones({2});
        at::Tensor y = at::neg(x);
    }
    at::removeCallback(handle);
    return checked == 3;
}

} // namespace tb

using namespace tb;

#define TB_EXPORT extern "C" __attribute__((visibility("default")))

TB_EXPORT int twinbit_tap_init(const struct tb_rec_api *api)
{
    if (api->version != TB_REC_API_VERSION || api->size < sizeof(struct tb_rec_api))
        return 1;
    try {
        R = api;
        G = new Global();
        G->inputs = (api->config->flags & TB_CFG_INPUTS) != 0;
        G->window = api->config->step_from != 0 || api->config->step_to != UINT64_MAX;
        generator_index(at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl());
        parse_snapshots(api->config->snapshots);
        find_pool();
        if (!self_check()) {
            api->log("the torch tap does not fit this torch: built with other headers or flags");
            return 1;
        }
        if (api->config->level >= TB_LEVEL_OP)
            at::addGlobalCallback(
                at::RecordFunctionCallback(on_start, on_end)
                    .needsInputs(true)
                    .needsOutputs(true)
                    .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                             at::RecordScope::USER_SCOPE}));
        return 0;
    } catch (...) {
        return 1;
    }
}

/* What python/twinbit/_glue.py calls, through ctypes. No function here calls Python or throws. */

TB_EXPORT uint32_t twinbit_intern(const char *s)
{
    return intern(s, std::strlen(s));
}
// told - what Python says changes the range of this thread, which the CUDA recorder has to know
static void told(Thread *t)
{
    try {
        if (R->cuda() != nullptr)
            tell_range(t, R->self());
    } catch (...) {
        R->stop("an exception in the torch tap");
    }
}

TB_EXPORT void twinbit_module_push(uint32_t id)
{
    thread_state()->modules.push_back(id);
    told(thread_state());
}
TB_EXPORT void twinbit_module_pop(void)
{
    Thread *t = thread_state();
    if (!t->modules.empty())
        t->modules.pop_back();
    told(t);
}
TB_EXPORT void twinbit_optimizer(int inside)
{
    thread_state()->optimizer_depth =
        inside != 0; // not a count: a step that raises never says it ended
    told(thread_state());
}
TB_EXPORT uint32_t twinbit_flags(void)
{
    return R->config->flags;
}
// What runs meanwhile is nobody's operator (a compiler's, or the glue's own): the CUDA recorder
// takes it for the inside of one, too.
TB_EXPORT void twinbit_suppress(int delta)
{
    Thread *t = thread_state();
    const tb_rec_cuda *cuda = R->cuda();

    t->suppressed += delta;
    if (delta > 0 && cuda) {
        cuda->op_begin();
        t->suppressed_cuda++;
    } else if (delta < 0 && t->suppressed_cuda > 0) {
        if (cuda)
            cuda->op_end();
        t->suppressed_cuda--;
    }
}
TB_EXPORT void twinbit_line(uint32_t id)
{
    thread_state()->line = id;
}
TB_EXPORT uint64_t twinbit_step_now(void)
{
    return G->step.load(std::memory_order_relaxed);
}
TB_EXPORT void twinbit_step_set(uint64_t step)
{
    G->step.store(step, std::memory_order_relaxed);
    R->step_is(step);
}
TB_EXPORT int twinbit_active(void)
{
    return R->self() != nullptr;
}

TB_EXPORT void twinbit_state(const uintptr_t *impls, const uint32_t *names, uint32_t n)
{
    struct tb_rec_thread *rt = R->self();
    try {
        if (rt && !R->paused())
            emit_states(thread_state(), rt, impls, names, n);
    } catch (...) {
        R->stop("an exception in the torch tap's step end");
    }
}

TB_EXPORT void twinbit_state_bytes(uint32_t name, const void *p, size_t n)
{
    struct tb_rec_thread *rt = R->self();
    try {
        if (rt && !R->paused())
            emit_bytes(thread_state(), rt, string_of(name).c_str(),
                       R->fp_host_pool(p, n, 0, nullptr), TB_FP_STATE);
    } catch (...) {
        R->stop("an exception in the torch tap's step end");
    }
}

TB_EXPORT void twinbit_step_end(int64_t step)
{
    struct tb_rec_thread *rt = R->self();
    try {
        if (rt)
            end_step(thread_state(), rt, step);
    } catch (...) {
        R->stop("an exception in the torch tap's step end");
    }
}

// twinbit_cuda - is there a CUDA recorder in this process?
TB_EXPORT int twinbit_cuda(void)
{
    return R->cuda() != nullptr;
}

// twinbit_kernel_name - kernels with this CUfunction are called @name
TB_EXPORT void twinbit_kernel_name(uint64_t function, const char *name)
{
    if (const tb_rec_cuda *cuda = R->cuda())
        cuda->name(reinterpret_cast<void *>((uintptr_t)function), name);
}

TB_EXPORT void twinbit_cover(unsigned severity, const char *kind, const char *subject,
                             const char *detail)
{
    if (struct tb_rec_thread *rt = R->self())
        cover(rt, severity, kind, subject, detail);
}

// In which order works of process groups ended so far: lines "GROUP \t VALUE \n", cut at the last
// that fits; returns their bytes
TB_EXPORT size_t twinbit_works(char *out, size_t size)
{
    size_t used = 0;
#ifdef TB_HAVE_C10D
    try {
        Groups &all = groups();
        std::lock_guard<std::mutex> hold(all.lock);
        for (auto &w : all.list) {
            std::string line;
            w->tell(line);
            if (used + line.size() >= size)
                break;
            std::memcpy(out + used, line.data(), line.size());
            used += line.size();
        }
    } catch (...) {
        R->stop("an exception in the torch tap");
    }
#endif
    if (size)
        out[used] = 0;
    return used;
}

TB_EXPORT void twinbit_meta(const char *key, const char *value)
{
    if (struct tb_rec_thread *rt = R->self())
        R->meta(rt, key, value);
}
