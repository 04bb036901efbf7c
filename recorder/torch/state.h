// state.h - what the tap keeps for the process and for each thread: steps, modules, ranges, pooled
// contexts.
//
// Start at struct Thread. Nothing here allocates once a thread is warm.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "access.h"

namespace torch
{
namespace autograd
{
TORCH_API int get_current_graph_task_id(); // of engine.h, which is large
}
} // namespace torch

namespace tb
{

// An argument that the operator writes; a weak reference, so that nobody sees a use count of ours.
struct Written {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    uint16_t arg;
    int32_t item;
};

enum class CtxKind : uint8_t { op, range, backward, user, inside };

struct Snap {
    size_t acc; // index into accs
    void *handle;
};

// What one running operator gathers; pooled per thread, so that its vectors keep their memory.
struct Body {
    std::vector<Acc> accs;
    std::vector<int64_t> arena;
    std::vector<Written> written;
    std::vector<Snap> snaps;

    void clear()
    {
        accs.clear();
        arena.clear();
        written.clear();
        snaps.clear();
    }
};

// One running operator. torch deletes it after the end callback; its memory goes to the thread's
// pool.
struct Ctx : at::ObserverContext {
    CtxKind kind = CtxKind::op;
    bool partial = false; // a tensor of it could not be looked into
    bool silent = false;  // no event of its own: other operators do its work, or it only made views
    const OpInfo *op = nullptr;
    struct Thread *owner = nullptr;
    Body *body = nullptr;
    uint64_t open = 0, args = 0, time_ns = 0;
    const tb_rec_cuda *cuda = nullptr; // was told that the operator began
    bool ranged = false;               // it is a range, too: work of a GPU inside of it is recorded
    int uncaught = 0;
    int32_t snap_spec = -1;
    class Works *group = nullptr; // of a collective
    uint32_t saved_module = 0, saved_base = 0; // backward: what to restore

    ~Ctx() override = default;
    static void *operator new(size_t n);
    static void operator delete(void *p);
};

struct RangeItem {
    uint64_t hash;    // of this and those around it, without operators that are events
    uint64_t whole;   // of all of them
    const OpInfo *op; // a composite operator, or
    std::string user; // a record_function scope
    bool event; // an operator that is an event: the range of work that is launched inside of it
};

struct Thread {
    std::vector<uint32_t> modules; // ids of module paths, innermost last
    uint32_t module_base = 0;      // modules below it were entered before the running backward node
    uint32_t backward_module = 0;  // path of the forward operator whose gradient is being computed
    uint32_t backward_depth = 0;
    uint32_t optimizer_depth = 0;
    int32_t suppressed = 0, suppressed_cuda = 0; // the second: as the CUDA recorder was told
    int32_t inside = 0; // collectives at work in this thread of their back end
    std::vector<const Ctx *> running; // operators that have started and not ended, outermost first
    std::vector<RangeItem> ranges;
    size_t range_depth = 0;
    std::vector<void *> free_ctx;
    std::vector<Body *> free_bodies;
    uint64_t id = 0; // at::RecordFunction's
    std::string range_name; // "phase:module-path", for snapshots of the CUDA recorder
    uint64_t last_range_key = 0;
    uint32_t last_range = 0, generation = UINT32_MAX;
    uint32_t line = 0; // interned "file:line function" (--stack)
    std::vector<tb_wire_access> wire;
    std::string text;
    std::vector<uint64_t> seen; // by snapshot spec: events of its name in step seen_step
    uint64_t seen_step = 0;

    int task = -1; // graph task of the last backward node that ended here
    uint32_t task_module = 0;

    // in a backward node, or between two of them: there the engine sums gradients and runs hooks
    bool backward() const
    {
        return backward_depth ||
               (task >= 0 && torch::autograd::get_current_graph_task_id() == task);
    }
    uint32_t module() const
    {
        if (modules.size() > (backward_depth ? module_base : 0))
            return modules.back();
        if (backward_depth)
            return backward_module;
        return task >= 0 && backward() ? task_module : 0;
    }
};

// Forward sequence numbers, to name the module of a gradient. A fixed table: later numbers
// overwrite.
class SeqModules
{
  public:
    void put(uint64_t thread, int64_t seq, uint32_t module)
    {
        Slot &s = slots_[(uint64_t)seq & (kSlots - 1)];
        s.key.store(key(thread, seq), std::memory_order_relaxed);
        s.module.store(module, std::memory_order_relaxed);
    }
    uint32_t get(uint64_t thread, int64_t seq) const
    {
        const Slot &s = slots_[(uint64_t)seq & (kSlots - 1)];
        return s.key.load(std::memory_order_relaxed) == key(thread, seq)
                   ? s.module.load(std::memory_order_relaxed)
                   : 0;
    }

  private:
    static constexpr size_t kSlots = 1 << 17;
    struct Slot {
        std::atomic<uint64_t> key{0};
        std::atomic<uint32_t> module{0};
    };
    Slot slots_[kSlots];
    static uint64_t key(uint64_t thread, int64_t seq)
    {
        return (thread << 44) ^ (uint64_t)seq ^ (1ull << 63);
    }
};

struct SnapSpec {
    uint64_t step;
    std::string range, op; // "backward:transformer.h.1.attn", "aten::addmm"
    uint64_t k;            // counted in each thread since the step began
};

struct Global {
    std::atomic<uint64_t> step{0};
    std::mutex lock; // strings, snapshot specs, generators
    std::unordered_map<std::string, uint32_t> string_ids;
    std::deque<std::string> strings{""}; // addresses stay
    std::deque<SnapSpec> snaps;
    std::vector<const void *> generators; // c10::GeneratorImpl, by order of first use
    SeqModules seqs;
    Allocs allocs;
    std::atomic<uint64_t> devices{0}; // CUDA devices that tensors were seen on, a bit each
    std::atomic<uint32_t> devices_of{0}; // in which process: R->generation()
    bool inputs = false, window = false;
};
extern Global *G;

Thread *thread_state();

static inline const char *phase_of(const Thread *t)
{
    return t->backward() ? "backward" : t->optimizer_depth ? "optimizer" : "forward";
}

} // namespace tb
