// cuda.h - tensors in device memory: which stream their work is queued in, whether that stream is
// being captured, the generators of devices, and pinned host memory.
//
// Start at stream_of(). Nothing of CUDA is linked: torch's CPU library is asked, which has an
// implementation for devices registered where torch has CUDA; what it cannot say is looked up in
// libc10_cuda and in the CUDA runtime that it is linked with. Nothing here waits, or touches the
// device.
#pragma once

#include <ATen/Context.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <dlfcn.h>

#include "recorder/recorder.h"

namespace tb
{

extern const tb_rec_api *R;

using DeviceImpl = c10::impl::DeviceGuardImplInterface;

// visible - can bytes on @d be fingerprinted?
static inline bool visible(c10::Device d)
{
    return d.is_cpu() || (d.is_cuda() && R->cuda() != nullptr);
}

// nullptr: a torch without CUDA
static const DeviceImpl *cuda_impl()
{
    return c10::impl::device_guard_impl_registry[(size_t)c10::DeviceType::CUDA].load();
}

// A function of libc10_cuda or of what it is linked with, if that is in the process.
static void *cuda_symbol(const char *name)
{
    void *lib = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);

    if (!lib)
        return nullptr;
    void *found = dlsym(lib, name);
    dlclose(lib); // torch never unloads it
    return found;
}

// Older torches have no word for it: c10::cuda::CUDAStream::stream(). A CUDAStream is a c10::Stream
// and nothing more.
static bool handle_by_symbol(c10::Stream s, void **out)
{
    using Get = void *(*)(const c10::Stream *);
    static const Get get = reinterpret_cast<Get>(cuda_symbol("_ZNK3c104cuda10CUDAStream6streamEv"));

    if (!get)
        return false;
    *out = get(&s);
    return true;
}

template <class I>
static auto native_handle(const I *impl, c10::Stream s, void **out, int)
    -> decltype(impl->getStreamNativeHandle(s), bool())
{
    static std::atomic<bool> refused{false}; // there is the word, but not for CUDA

    if (refused.load(std::memory_order_relaxed))
        return handle_by_symbol(s, out);
    try {
        *out = impl->getStreamNativeHandle(s);
        return true;
    } catch (...) {
        refused.store(true, std::memory_order_relaxed);
        return handle_by_symbol(s, out);
    }
}
template <class I> static bool native_handle(const I *, c10::Stream s, void **out, long)
{
    return handle_by_symbol(s, out);
}

// stream_of - the CUstream that this thread's operators on @d queue their work in. False: no CUDA
static bool stream_of(c10::Device d, void **out)
{
    const DeviceImpl *impl = cuda_impl();

    if (!impl)
        return false;
    try {
        c10::Stream s = impl->getStream(d);
        *out = nullptr; // 0 is the default one: the legacy stream
        return s.id() == 0 || native_handle(impl, s, out, 0);
    } catch (...) {
        return false;
    }
}

static bool capturing_by_symbol(void *stream)
{
    using Ask = int (*)(void *, int *);
    static const Ask ask = reinterpret_cast<Ask>(cuda_symbol("cudaStreamIsCapturing"));
    int status = 0;

    return ask && (ask(stream, &status) != 0 || status != 0);
}

template <class I>
static auto is_capturing(const I *impl, c10::Stream s, int)
    -> decltype(impl->isStreamCapturing(s), bool())
{
    return impl->isStreamCapturing(s);
}
template <class I> static bool is_capturing(const I *, c10::Stream s, long)
{
    void *stream = nullptr;

    return (s.id() == 0 || handle_by_symbol(s, &stream)) && capturing_by_symbol(stream);
}

// capturing - is this thread's stream on @d being captured, as far as can be asked
static bool capturing(c10::Device d)
{
    const DeviceImpl *impl = cuda_impl();

    if (!impl)
        return false;
    try {
        return is_capturing(impl, impl->getStream(d), 0);
    } catch (...) {
        return true; // the legacy stream while another one is: do not touch
    }
}

// current_cuda - what "cuda" without a number means on this thread
static c10::Device current_cuda()
{
    const DeviceImpl *impl = cuda_impl();

    return impl ? impl->getDevice() : c10::Device(c10::kCPU);
}

// OnDevice - makes @d the current device of this thread for a while: work is queued in its context
class OnDevice
{
  public:
    explicit OnDevice(c10::Device d) : impl_(cuda_impl())
    {
        if (!impl_)
            return;
        was_ = impl_->getDevice();
        moved_ = d.has_index() && was_ != d;
        if (moved_)
            impl_->setDevice(d);
    }
    ~OnDevice()
    {
        if (moved_)
            impl_->uncheckedSetDevice(was_);
    }
    OnDevice(const OnDevice &) = delete;
    OnDevice &operator=(const OnDevice &) = delete;

  private:
    const DeviceImpl *impl_;
    c10::Device was_{c10::kCUDA, 0};
    bool moved_ = false;
};

template <class C>
static auto is_pinned(C &context, const void *p, int)
    -> decltype(context.isPinnedPtr(p, std::optional<c10::DeviceType>()))
{
    return context.isPinnedPtr(p, std::optional<c10::DeviceType>(c10::DeviceType::CUDA));
}
template <class C> static bool is_pinned(C &context, const void *p, long)
{
    return context.isPinnedPtr(p); // older torches: there is only one kind
}

// pinned - is this memory of the host that a device may write to behind the host's back?
static bool pinned(const void *p)
{
    try {
        return is_pinned(at::globalContext(), p, 0);
    } catch (...) {
        return false;
    }
}

// philox_state - seed and offset of a CUDA generator, which lie in host memory. False: its stream
// is being captured, and then they belong to the graph
static bool philox_state(const c10::GeneratorImpl *gen, uint64_t out[2])
{
    if (capturing(gen->device()))
        return false;
    try {
        out[0] = gen->current_seed();
        out[1] = gen->get_offset();
        return true;
    } catch (...) {
        return false;
    }
}

} // namespace tb
