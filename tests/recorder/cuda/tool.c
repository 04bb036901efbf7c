/*
 * A program of the driver API with a profiler of its own, which opens both as profilers do.
 *
 * usage: tool [early|late|wait|threads|fork|ranges]
 *   early  subscribes to CUPTI before CUDA starts, late: afterwards; prints what that returned and
 *          how many of its calls it was told of
 *   wait   stays for a second
 *   threads  THREADS threads start CUDA at once, fork: so many children do
 *   ranges  works inside of NVTX ranges of each kind
 */
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

#define N 3
#define THREADS 8

static int calls;

static void *function(void *lib, const char *name)
{
    void *f = lib ? dlsym(lib, name) : NULL;

    if (!f) {
        printf("no %s\n", name);
        exit(2);
    }
    return f;
}

static void must(int result, const char *what)
{
    if (result != 0) {
        printf("%s: %d\n", what, result);
        exit(2);
    }
}

static void CUPTIAPI on_call(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                             const void *data)
{
    (void)arg;
    (void)domain;
    (void)id;
    calls += ((const CUpti_CallbackData *)data)->callbackSite == CUPTI_API_ENTER;
}

static void subscribe(void *cupti)
{
    CUpti_SubscriberHandle s;
    CUpti_SubscriberParams p = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                .subscriberName = "early bird"};
    __typeof__(&cuptiSubscribe_v2) open_slot;
    __typeof__(&cuptiEnableCallback) enable;

    *(void **)&open_slot = function(cupti, "cuptiSubscribe_v2");
    *(void **)&enable = function(cupti, "cuptiEnableCallback");
    CUptiResult r = open_slot(&s, on_call, NULL, &p);
    printf("subscribe %d\n", (int)r);
    if (r == CUPTI_SUCCESS)
        must((int)enable(1, s, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2),
             "enable");
}

static void work(void *cuda)
{
    CUresult (*retain)(CUcontext *, CUdevice), (*set)(CUcontext), (*sync)(void);
    CUresult (*alloc)(CUdeviceptr *, size_t), (*fill)(CUdeviceptr, unsigned char, size_t);
    CUcontext context;
    CUdeviceptr p;

    *(void **)&retain = function(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&set = function(cuda, "cuCtxSetCurrent");
    *(void **)&sync = function(cuda, "cuCtxSynchronize");
    *(void **)&alloc = function(cuda, "cuMemAlloc_v2");
    *(void **)&fill = function(cuda, "cuMemsetD8_v2");
    must((int)retain(&context, 0), "cuDevicePrimaryCtxRetain");
    must((int)set(context), "cuCtxSetCurrent");
    for (int i = 0; i < N; i++) {
        must((int)alloc(&p, 4096), "cuMemAlloc");
        must((int)fill(p, (unsigned char)(i + 1), 4096), "cuMemsetD8");
    }
    must((int)sync(), "cuCtxSynchronize");
}

static CUresult (*init)(unsigned);

static void *start_and_work(void *cuda)
{
    must((int)init(0), "cuInit");
    work(cuda);
    return NULL;
}

static int many_threads(void *cuda)
{
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&thread[i], NULL, start_and_work, cuda), "pthread_create");
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(thread[i], NULL), "pthread_join");
    return 0;
}

static int many_children(void *cuda)
{
    int status, bad = 0;

    for (int i = 0; i < THREADS; i++)
        if (fork() == 0) {
            (void)start_and_work(cuda);
            return 0;
        }
    for (int i = 0; i < THREADS; i++)
        bad += wait(&status) < 0 || status != 0;
    return bad;
}

#ifdef NVTX_VERSION
static nvtxEventAttributes_t attributes(nvtxMessageType_t type, nvtxMessageValue_t message)
{
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = (int32_t)type,
                                   .message = message};
}

static int ranges(void *cuda)
{
    nvtxDomainHandle_t other = nvtxDomainCreateA("other");
    nvtxEventAttributes_t theirs =
        attributes(NVTX_MESSAGE_TYPE_ASCII, (nvtxMessageValue_t){.ascii = "theirs"});
    nvtxEventAttributes_t known =
        attributes(NVTX_MESSAGE_TYPE_REGISTERED,
                   (nvtxMessageValue_t){.registered = nvtxDomainRegisterStringA(NULL, "known")});

    must((int)init(0), "cuInit");
    (void)nvtxRangePushA("plain");
    (void)nvtxDomainRangePushEx(other, &theirs); /* a library's own stack */
    (void)nvtxRangePushW(L"w\u00efde");
    (void)nvtxDomainRangePushEx(NULL, &known);
    work(cuda);
    (void)nvtxDomainRangePop(other);
    printf("depths %d", nvtxRangePop());
    printf(" %d", nvtxRangePop());
    printf(" %d", nvtxRangePop());
    printf(" %d\n", nvtxRangePop() < 0);
    work(cuda);
    return 0;
}
#else
static int ranges(void *cuda)
{
    (void)cuda;
    return 77; /* built without NVTX's headers */
}
#endif

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

    *(void **)&init = function(cuda, "cuInit");
    if (strcmp(mode, "threads") == 0)
        return many_threads(cuda);
    if (strcmp(mode, "fork") == 0)
        return many_children(cuda);
    if (strcmp(mode, "ranges") == 0)
        return ranges(cuda);
    if (strcmp(mode, "early") == 0)
        subscribe(dlopen(CUPTI_NAME, RTLD_NOW));
    must((int)init(0), "cuInit");
    if (strcmp(mode, "late") == 0)
        subscribe(dlopen(CUPTI_NAME, RTLD_NOW));
    work(cuda);
    printf("calls %d\n", calls);
    if (strcmp(mode, "wait") == 0)
        sleep(1);
    return 0;
}
