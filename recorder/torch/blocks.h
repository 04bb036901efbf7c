// blocks.h - tells the CUDA recorder which blocks torch's caching allocator gives out: what a
// kernel touches is a block, not the segment of gigabytes that it was cut from.
//
// Start at blocks_attach(). Where the headers of CUDA were found when the tap was built, the
// allocator itself is asked to tell (TB_CUDA_HEADERS, collector/tap_build.c). Otherwise, and of
// what it gave out before, a block is told when an operator's tensor is first seen in it.
#pragma once

#if defined(TB_CUDA_HEADERS) && __has_include(<c10/cuda/CUDACachingAllocator.h>)
#include <c10/cuda/CUDACachingAllocator.h>
#define TB_HAVE_TRACKER 1
#endif

#include "cuda.h"

namespace tb
{

static std::atomic<bool> blocks_tracked{false};

#ifdef TB_HAVE_TRACKER
using Allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;

// With a lock of the allocator's held: nothing of torch or CUDA may be called.
template <class Entry> static void tracked(const Entry &e)
{
    const tb_rec_cuda *cuda = R->cuda();

    if (!cuda || !cuda->block)
        return;
    if (e.action_ == Entry::ALLOC)
        cuda->block(e.device_, (uint64_t)e.addr_, (uint64_t)e.size_);
    else if (e.action_ == Entry::FREE_COMPLETED) // no stream uses it any more
        cuda->block(e.device_, (uint64_t)e.addr_, 0);
}

static bool attach_tracker()
{
    auto *current = static_cast<std::atomic<Allocator *> *>(
        cuda_symbol("_ZN3c104cuda20CUDACachingAllocator9allocatorE"));
    Allocator *allocator = current ? current->load() : nullptr;

    if (!allocator || !allocator->initialized())
        return false;
    try {
        allocator->attachAllocatorTraceTracker([](const auto &entry) { tracked(entry); });
        return true;
    } catch (...) { // cudaMallocAsync, or an allocator of the job's own
        return false;
    }
}
#else
static bool attach_tracker()
{
    return false;
}
#endif

// blocks_attach - once, when the first tensor in device memory was seen: the allocator is there
static void blocks_attach()
{
    static std::atomic<bool> tried{false};

    if (!tried.exchange(true))
        blocks_tracked.store(attach_tracker());
}

} // namespace tb
