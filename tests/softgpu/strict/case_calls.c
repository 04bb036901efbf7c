/* Calls where none may be made, and calls that spoil a capture. */
#include "tests/softgpu/strict/case.h"

#include "tests/softgpu/driver/newest.h"

#include <pthread.h>

static void CUDA_CB asks(void *arg)
{
    int n = 0;

    if (*(bool *)arg)
        MAY(cuDeviceGetCount(&n));
}

static void host_function(bool bad)
{
    OK(cuLaunchHostFunc(NULL, asks, &bad));
    OK(cuCtxSynchronize());
}

static void CUDA_CB asks_too(CUstream stream, CUresult status, void *arg)
{
    (void)status;
    if (*(bool *)arg)
        MAY(cuStreamQuery(stream));
}

static void stream_callback(bool bad)
{
    OK(cuStreamAddCallback(NULL, asks_too, &bad, 0));
    OK(cuCtxSynchronize());
}

static CUstream begin(CUstreamCaptureMode mode, unsigned flags)
{
    CUstream s;

    OK(cuStreamCreate(&s, flags));
    OK(cuStreamBeginCapture(s, mode));
    return s;
}

static void end(CUstream s)
{
    CUgraph graph = NULL;

    MAY(cuStreamEndCapture(s, &graph));
    if (graph)
        OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(s));
}

static void alloc_in_capture(bool bad)
{
    CUstream s = begin(bad ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_RELAXED, 0);
    CUdeviceptr p;

    MAY(cuMemAlloc(&p, 512));
    end(s);
}

static void *alloc_elsewhere(void *arg)
{
    CUdeviceptr p;

    (void)arg;
    OK(cuCtxSetCurrent(strict_ctx));
    MAY(cuMemAlloc(&p, 512));
    return NULL;
}

static void alloc_of_another_thread(bool bad)
{
    CUstream s =
        begin(bad ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 0);
    pthread_t t;

    pthread_create(&t, NULL, alloc_elsewhere, NULL);
    pthread_join(t, NULL);
    end(s);
}

static void wait_in_capture(bool bad)
{
    CUstream s = begin(CU_STREAM_CAPTURE_MODE_RELAXED, 0);

    if (bad)
        MAY(cuStreamSynchronize(s));
    end(s);
}

static void legacy_in_capture(bool bad)
{
    CUstream s = begin(CU_STREAM_CAPTURE_MODE_RELAXED, bad ? 0 : CU_STREAM_NON_BLOCKING);
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 512));
    MAY(cuMemsetD8Async(p, 0, 512, NULL));
    end(s);
}

/* Work that was queued before the capture cannot be in it. */
static void foreign_event(bool bad)
{
    CUstream s, other;
    CUevent e;

    OK(cuEventCreate(&e, 0));
    OK(cuStreamCreate(&other, 0));
    OK(cuEventRecord(e, other));
    s = begin(CU_STREAM_CAPTURE_MODE_RELAXED, 0);
    MAY(cuStreamWaitEvent(s, e, bad ? 0 : CU_EVENT_WAIT_EXTERNAL));
    end(s);
}

static const struct strict_case cases[] = {
    {"host_function", "call-in-host-function", "error", host_function},
    {"stream_callback", "call-in-host-function", "error", stream_callback},
    {"alloc_in_capture", "capture-invalidated", "error", alloc_in_capture},
    {"alloc_of_another_thread", "capture-invalidated", "error", alloc_of_another_thread},
    {"wait_in_capture", "capture-invalidated", "error", wait_in_capture},
    {"legacy_in_capture", "capture-invalidated", "error", legacy_in_capture},
    {"foreign_event", "capture-invalidated", "error", foreign_event},
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
