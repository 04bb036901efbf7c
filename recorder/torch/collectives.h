// collectives.h - collectives finish after their operator has returned: their outputs are hashed
// later.
//
// note_collective() at the operator's end keeps the tensors and the Work. settle() emits the event
// of a collective where an operator first touches a buffer that it wrote (the place is the same in
// every run, unlike the moment of completion); at the end of a step, of all that have finished.
#pragma once

#if __has_include(<torch/csrc/distributed/c10d/Work.hpp>)
#include <torch/csrc/distributed/c10d/Work.hpp>
#define TB_HAVE_C10D 1
#endif

#include "state.h"

namespace tb
{

struct Pending {
    const OpInfo *op;
    std::vector<at::Tensor> tensors;
    std::vector<std::pair<uint16_t, int32_t>> where; // argument and index in its list
    uint64_t args;
    uint32_t module;
    bool backward;
#ifdef TB_HAVE_C10D
    c10::intrusive_ptr<::c10d::Work> work;
#endif

    // Whoever waits may wait on the future, which is completed before the Work says so.
    // Point-to-point works have none, and some cannot be asked at all: then the touch itself says
    // that the job has waited.
    bool done() const
    {
#ifdef TB_HAVE_C10D
        if (!work)
            return true;
        try {
            return work->getFuture()->completed();
        } catch (...) {
        }
        try {
            return work->isCompleted();
        } catch (...) {
        }
#endif
        return true;
    }

    bool touched_by(const Body *b) const
    {
        for (const at::Tensor &t : tensors) {
            const c10::StorageImpl *s = plain_storage(t.unsafeGetTensorImpl());
            for (const Acc &a : b->accs)
                if (s && a.storage == s)
                    return true;
            for (const Written &w : b->written) // write-only arguments
                if (auto impl = w.tensor.lock())
                    if (s && plain_storage(impl.get()) == s)
                        return true;
        }
        return false;
    }
};

struct Pendings {
    std::mutex lock;
    std::deque<Pending> list;
    std::atomic<size_t> count{0};
};
Pendings &pendings();

#ifdef TB_HAVE_C10D
// The Work that a c10d operator returned, or null.
static c10::intrusive_ptr<::c10d::Work> work_of(const std::vector<c10::IValue> &outputs)
{
    for (const c10::IValue &v : outputs)
        if (v.isObject() && v.type()->str().find("c10d.Work") != std::string::npos)
            return v.toCustomClass<::c10d::Work>();
    return {};
}
#endif

} // namespace tb
