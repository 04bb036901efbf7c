// What CUPTI's callbacks say of launches by <<<>>>, by a host function's address, cooperative, and
// captured: the name of the kernel, its arguments, and the driver's call inside the runtime's.
#include "check.cuh"

#if __has_include(<cupti.h>)
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <string>
#include <thread>

__global__ void scale(float *p, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] *= by;
}

__global__ void fill(float *p, float with)
{
    p[threadIdx.x] = with;
}

struct launch {
    CUpti_CallbackDomain domain;
    uint32_t id, correlation;
    std::string symbol;
    float by; // second parameter of scale, as the driver is given it
};
static std::vector<launch> seen;

static bool is_driver_launch(CUpti_CallbackId id)
{
    return id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ||
           id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx ||
           id == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel;
}

static void callback(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_CallbackData *d = (const CUpti_CallbackData *)data;
    launch l = {domain, id, d->correlationId, d->symbolName ? d->symbolName : "", 0};
    if (d->callbackSite != CUPTI_API_ENTER || !d->symbolName)
        return;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel &&
        l.symbol.find("scale") != std::string::npos)
        l.by = *(const float *)((const cuLaunchKernel_params *)d->functionParams)->kernelParams[1];
    seen.push_back(l);
}

static void *library;
static void *symbol(const char *name)
{
    void *f = dlsym(library, name);
    if (!f)
        fail("libcupti has no '%s'", name);
    return f;
}
#define CUPTI(fn) ((decltype(&fn))symbol(#fn))

// One launch of each: the runtime's callback, then the driver's with the same number.
static void expect_launch(const char *how, const char *kernel)
{
    if (seen.size() != 2)
        fail("%s: %zu callbacks with a kernel's name instead of 2", how, seen.size());
    if (seen[0].domain != CUPTI_CB_DOMAIN_RUNTIME_API ||
        seen[1].domain != CUPTI_CB_DOMAIN_DRIVER_API || !is_driver_launch(seen[1].id))
        fail("%s: not the driver's launch inside the runtime's", how);
    if (seen[0].correlation != seen[1].correlation)
        fail("%s: ids %u and %u differ", how, seen[0].correlation, seen[1].correlation);
    for (const launch &l : seen)
        if (l.symbol.find(kernel) == std::string::npos)
            fail("%s: the kernel is '%s', not '%s'", how, l.symbol.c_str(), kernel);
    seen.clear();
}

static void launches(float *p)
{
    float by = 3;
    int n = 32;
    void *args[] = {&p, &by, &n};

    scale<<<1, 32>>>(p, 2.5f, n);
    if (seen.size() == 2 && seen[1].by != 2.5f)
        fail("<<<>>>: the second parameter is %g, not 2.5", seen[1].by);
    expect_launch("<<<>>>", "scale");
    CHECK(cudaLaunchKernel((const void *)scale, dim3(1), dim3(32), args, 0, nullptr));
    if (seen.size() == 2 && seen[0].id != CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000)
        fail("cudaLaunchKernel has id %u", seen[0].id);
    expect_launch("cudaLaunchKernel", "scale");
    CHECK(cudaLaunchCooperativeKernel((const void *)scale, dim3(1), dim3(32), args, 0, nullptr));
    expect_launch("cudaLaunchCooperativeKernel", "scale");
}

static void captured(float *p)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    fill<<<1, 32, 0, s>>>(p, 1);
    CHECK(cudaStreamEndCapture(s, &graph));
    expect_launch("a captured launch", "fill");
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    if (!seen.empty())
        fail("the launch of a graph names the kernel '%s'", seen[0].symbol.c_str());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(s));
}

// While a module is loaded for a first launch, the tool waits for another thread that uses the
// runtime.
static bool waited;
static void wait_for_another(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *)
{
    if (waited || domain != CUPTI_CB_DOMAIN_DRIVER_API ||
        id != CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData)
        return;
    waited = true;
    std::thread([] {
        cudaFuncAttributes a;
        (void)cudaFuncGetAttributes(&a, &waited); // no function: an error, soon
        (void)cudaGetLastError();
    }).join();
}

static void first_launch(float *p)
{
    CUpti_SubscriberHandle subscriber;
    if (CUPTI(cuptiSubscribe)(&subscriber, wait_for_another, nullptr) != CUPTI_SUCCESS ||
        CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS)
        fail("cannot subscribe");
    scale<<<1, 1>>>(p, 1, 1);
    SYNC();
    if (CUPTI(cuptiUnsubscribe)(subscriber) != CUPTI_SUCCESS)
        fail("cannot unsubscribe");
}

int main()
{
    CUpti_SubscriberHandle subscriber;
    std::vector<float> ones(32, 1.0f);
    char name[32];

    snprintf(name, sizeof(name), "libcupti.so.%d", CUDART_VERSION / 1000);
    library = dlopen(name, RTLD_NOW);
    if (!library)
        skip("%s", dlerror());
    dev<float> p(ones);
    first_launch(p.p);
    if (CUPTI(cuptiSubscribe)(&subscriber, callback, nullptr) != CUPTI_SUCCESS ||
        CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS ||
        CUPTI(cuptiEnableDomain)(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API) != CUPTI_SUCCESS)
        fail("cannot subscribe");
    launches(p.p);
    SYNC();
    expect_equal("scaled", p.host(), std::vector<float>(32, 22.5f));
    captured(p.p);
    expect_equal("filled", p.host(), ones);
    if (CUPTI(cuptiUnsubscribe)(subscriber) != CUPTI_SUCCESS)
        fail("cannot unsubscribe");
    seen.clear();
    scale<<<1, 32>>>(p.p, 1, 32);
    SYNC();
    if (!seen.empty())
        fail("told of a launch after unsubscribing");
    return ok("launch_callbacks: 4 kinds of launches");
}
#else
int main()
{
    skip("no CUPTI headers beside CUDA's");
}
#endif
