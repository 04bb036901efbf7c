/* The driver's start, the thread's device, and the context that a call runs in. */
#include "softgpu/runtime/runtime.h"

#include <pthread.h>
#include <stdatomic.h>

#include "softgpu/runtime/api_gen.h"

/* Written under @lock; read without it where atomic. */
static struct {
    pthread_mutex_t lock;
    _Atomic int state; /* 0: cuInit not called, 1: it went well, 2: @failed */
    cudaError_t failed;
    int ndevices;
    int first; /* default device: cudaSetValidDevices */
    atomic_uint resets;
    struct {
        _Atomic(CUcontext) ctx;
        atomic_bool active; /* retained, and not reset since */
    } primary[SG_RT_MAX_DEVICES];
} rt = {.lock =
            PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP}; /* cuInit may load a library that calls us */

struct sg_rt_tls *sg_rt_tls(void)
{
    static __thread struct sg_rt_tls tls;

    return &tls;
}

static cudaError_t start(void)
{
    CUresult r;
    int n = 0;

    pthread_mutex_lock(&rt.lock);
    if (atomic_load(&rt.state) == 0) {
        r = cuInit(0);
        if (r == CUDA_SUCCESS)
            r = cuDeviceGetCount(&n);
        if (r == CUDA_SUCCESS && n == 0)
            r = CUDA_ERROR_NO_DEVICE;
        rt.ndevices = n < SG_RT_MAX_DEVICES ? n : SG_RT_MAX_DEVICES;
        rt.failed = sg_rt_error(r);
        atomic_store(&rt.state, r == CUDA_SUCCESS ? 1 : 2);
    }
    pthread_mutex_unlock(&rt.lock);
    return rt.failed;
}

cudaError_t sg_rt_init(void)
{
    int state = atomic_load_explicit(&rt.state, memory_order_acquire);

    if (state == 0)
        return start();
    return state == 1 ? cudaSuccess : rt.failed;
}

int sg_rt_device_count(void)
{
    return rt.ndevices;
}

static int own_device(const struct sg_rt_tls *tls)
{
    return tls->chosen ? tls->device : rt.first;
}

CUcontext sg_rt_current(void)
{
    CUcontext ctx = NULL;

    return cuCtxGetCurrent(&ctx) == CUDA_SUCCESS ? ctx : NULL;
}

cudaError_t sg_rt_primary(int device, CUcontext *ctx)
{
    CUresult r = CUDA_SUCCESS;
    CUcontext made;

    if (device < 0 || device >= rt.ndevices)
        return cudaErrorInvalidDevice;
    if (!atomic_load(&rt.primary[device].active)) {
        pthread_mutex_lock(&rt.lock);
        if (!atomic_load(&rt.primary[device].active)) {
            r = cuDevicePrimaryCtxRetain(&made, device);
            if (r == CUDA_SUCCESS) {
                atomic_store(&rt.primary[device].ctx, made);
                atomic_store(&rt.primary[device].active, true);
            }
        }
        pthread_mutex_unlock(&rt.lock);
    }
    if (r == CUDA_SUCCESS)
        *ctx = atomic_load(&rt.primary[device].ctx);
    return sg_rt_error(r);
}

/* No context is current, or devices were reset: a reset context stays current, to be made anew. */
static cudaError_t enter_slowly(struct sg_rt_tls *tls, CUcontext current, unsigned resets)
{
    cudaError_t err = cudaSuccess;
    int device = own_device(tls);
    CUcontext ctx = NULL;

    if (current != NULL) {
        for (device = 0; device < rt.ndevices; device++)
            if (atomic_load(&rt.primary[device].ctx) == current)
                break;
    }
    if (device < rt.ndevices)
        err = sg_rt_primary(device, &ctx);
    if (err == cudaSuccess && device < rt.ndevices)
        err = sg_rt_error(cuCtxSetCurrent(ctx));
    if (err == cudaSuccess)
        tls->resets = resets;
    return err;
}

cudaError_t sg_rt_enter(void)
{
    struct sg_rt_tls *tls = sg_rt_tls();
    cudaError_t err = sg_rt_init();
    CUcontext current;
    unsigned resets;

    if (err != cudaSuccess)
        return err;
    current = sg_rt_current();
    resets = atomic_load_explicit(&rt.resets, memory_order_acquire);
    if (__builtin_expect(current != NULL && tls->resets == resets, 1))
        return cudaSuccess;
    return enter_slowly(tls, current, resets);
}

cudaError_t sg_rt_device(int *device)
{
    struct sg_rt_tls *tls = sg_rt_tls();
    cudaError_t err = sg_rt_init();
    int own = own_device(tls);
    CUcontext current;

    if (err != cudaSuccess)
        return err;
    current = sg_rt_current();
    if (current != NULL &&
        current != atomic_load_explicit(&rt.primary[own].ctx, memory_order_acquire))
        return sg_rt_error(cuCtxGetDevice(device)); /* made current through the driver API */
    *device = own;
    return cudaSuccess;
}

cudaError_t sg_cudaGetDevice(int *device)
{
    return device == NULL ? cudaErrorInvalidValue : sg_rt_device(device);
}

cudaError_t sg_cudaGetDeviceCount(int *count)
{
    cudaError_t err = sg_rt_init();

    if (count == NULL)
        return cudaErrorInvalidValue;
    *count = err == cudaSuccess ? rt.ndevices : 0;
    return err;
}

static cudaError_t set_device(int device)
{
    struct sg_rt_tls *tls = sg_rt_tls();
    unsigned resets = atomic_load(&rt.resets);
    CUcontext ctx = NULL;
    cudaError_t err = sg_rt_primary(device, &ctx);

    if (err == cudaSuccess)
        err = sg_rt_error(cuCtxSetCurrent(ctx));
    if (err == cudaSuccess) {
        tls->device = device;
        tls->chosen = true;
        tls->resets = resets;
    }
    return err;
}

cudaError_t sg_cudaSetDevice(int device)
{
    cudaError_t err = sg_rt_init();

    return err != cudaSuccess ? err : set_device(device);
}

cudaError_t sg_cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    cudaError_t err = sg_rt_init();
    CUcontext ctx;

    if (err != cudaSuccess)
        return err;
    if (device < 0 || device >= rt.ndevices)
        return cudaErrorInvalidDevice;
    if (flags & ~(unsigned)cudaInitDeviceFlagsAreValid)
        return cudaErrorInvalidValue;
    if (flags & cudaInitDeviceFlagsAreValid) {
        err = sg_rt_error(cuDevicePrimaryCtxSetFlags_v2(device, deviceFlags));
        if (err != cudaSuccess)
            return err;
    }
    return sg_rt_primary(device, &ctx);
}

cudaError_t sg_cudaSetDeviceFlags(unsigned int flags)
{
    int device = 0;
    cudaError_t err = sg_rt_device(&device);

    return err != cudaSuccess ? err : sg_rt_error(cuDevicePrimaryCtxSetFlags_v2(device, flags));
}

cudaError_t sg_cudaGetDeviceFlags(unsigned int *flags)
{
    int device = 0, active;
    cudaError_t err = sg_rt_device(&device);

    if (err != cudaSuccess)
        return err;
    if (flags == NULL)
        return cudaErrorInvalidValue;
    err = sg_rt_error(cuDevicePrimaryCtxGetState(device, flags, &active));
    if (err == cudaSuccess)
        *flags |= cudaDeviceMapHost; /* always so where addresses are unified */
    return err;
}

cudaError_t sg_cudaSetValidDevices(int *device_arr, int len)
{
    cudaError_t err = sg_rt_init();

    if (err != cudaSuccess)
        return err;
    if (len < 0 || (len > 0 && device_arr == NULL))
        return cudaErrorInvalidValue;
    for (int i = 0; i < len; i++)
        if (device_arr[i] < 0 || device_arr[i] >= rt.ndevices)
            return cudaErrorInvalidDevice;
    pthread_mutex_lock(&rt.lock);
    rt.first = len > 0 ? device_arr[0] : 0;
    pthread_mutex_unlock(&rt.lock);
    return cudaSuccess;
}

cudaError_t sg_cudaDeviceReset(void)
{
    int device = 0;
    cudaError_t err = sg_rt_device(&device);

    if (err != cudaSuccess)
        return err;
    pthread_mutex_lock(&rt.lock);
    err = sg_rt_error(cuDevicePrimaryCtxReset_v2(device));
    atomic_store(&rt.primary[device].active, false);
    atomic_fetch_add(&rt.resets, 1);
    pthread_mutex_unlock(&rt.lock);
    return err;
}

unsigned sg_rt_resets(void)
{
    return atomic_load(&rt.resets);
}

#if CUDART_VERSION < 13000
cudaError_t sg_cudaThreadExit(void)
{
    return sg_cudaDeviceReset();
}
#endif

cudaError_t sg_cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    cudaError_t err = sg_rt_enter();
    CUcontext peer = NULL;

    if (err == cudaSuccess)
        err = sg_rt_primary(peerDevice, &peer);
    return err != cudaSuccess ? err : sg_rt_error(cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t sg_cudaDeviceDisablePeerAccess(int peerDevice)
{
    cudaError_t err = sg_rt_enter();
    CUcontext peer = NULL;

    if (err == cudaSuccess)
        err = sg_rt_primary(peerDevice, &peer);
    return err != cudaSuccess ? err : sg_rt_error(cuCtxDisablePeerAccess(peer));
}
