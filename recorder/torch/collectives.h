// collectives.h - collectives finish after their operator has returned: their outputs are hashed later.
//
// note_collective() at the operator's end keeps the tensors and the Work; settle() emits the events of those
// that have finished. It is called before an operator touches a buffer that a collective writes (the
// place is the same in every run, unlike the moment of completion) and at the end of a step.
#pragma once

#if __has_include(<torch/csrc/distributed/c10d/Work.hpp>)
#include <torch/csrc/distributed/c10d/Work.hpp>
#define TB_HAVE_C10D 1
#endif

#include "state.h"

namespace tb {

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

    bool done() const
    {
#ifdef TB_HAVE_C10D
        return !work || work->isCompleted();
#else
        return true;
#endif
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
