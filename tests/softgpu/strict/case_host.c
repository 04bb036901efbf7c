/* Host memory that is touched while a queued copy is still to use it. */
#include "tests/softgpu/strict/case.h"

#include <signal.h>
#include <sys/mman.h>

#define SIZE 16384

static CUdeviceptr device_memory(void)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, SIZE));
    OK(cuMemsetD8(p, 7, SIZE));
    return p;
}

static volatile char *pinned(void)
{
    void *p;

    OK(cuMemAllocHost(&p, SIZE));
    memset(p, 1, SIZE);
    return p;
}

static void reads_too_early(bool bad)
{
    volatile char *host = pinned();
    char got;

    OK(cuMemcpyDtoHAsync((void *)host, device_memory(), SIZE, NULL));
    if (!bad)
        OK(cuCtxSynchronize());
    got = host[5000];
    MAY(cuCtxSynchronize());
    /* it goes on as it would have, but where the mode ends the context */
    if (!strict_failed && (host[5000] != 7 || got != (bad ? 1 : 7)))
        exit(4);
}

static void writes_too_early(bool bad)
{
    volatile char *host = pinned();
    CUdeviceptr p = device_memory();

    OK(cuMemcpyHtoDAsync(p, (const void *)host, SIZE, NULL));
    if (host[4096] != 1) /* reading it is no harm */
        exit(4);
    if (!bad)
        OK(cuCtxSynchronize());
    host[4096] = 2;
    MAY(cuCtxSynchronize());
}

/* The program's own memory, registered, not on a page's bound. */
static void registered(bool bad)
{
    char *block = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile char *host = block + 100;

    OK(cuMemHostRegister(block + 100, SIZE, 0));
    OK(cuMemcpyDtoHAsync(block + 100, device_memory(), SIZE, NULL));
    block[99] = 1; /* beside it */
    if (!bad)
        OK(cuCtxSynchronize());
    host[8000] = 2;
    MAY(cuCtxSynchronize());
    cuMemHostUnregister(block + 100);
    munmap(block, 2 * SIZE);
}

/* Two copies of one buffer: waiting for the first is not enough. */
static void second_copy(bool bad)
{
    volatile char *host = pinned();
    CUdeviceptr p = device_memory();
    CUevent e;

    OK(cuEventCreate(&e, 0));
    OK(cuMemcpyDtoHAsync((void *)host, p, SIZE, NULL));
    if (bad)
        OK(cuEventRecord(e, NULL));
    OK(cuMemcpyDtoHAsync((void *)host, p, SIZE, NULL));
    if (!bad)
        OK(cuEventRecord(e, NULL));
    OK(cuEventSynchronize(e));
    host[0] = 3;
    MAY(cuCtxSynchronize());
}

static volatile sig_atomic_t caught;
static volatile char *page;

static void on_fault(int sig)
{
    (void)sig;
    caught = 1;
    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
}

/* The program's own handler gets what is none of ours, before and after. */
static void own_handler(bool bad)
{
    volatile char *host = pinned();

    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, on_fault);
    OK(cuMemcpyDtoHAsync((void *)host, device_memory(), SIZE, NULL));
    page[0] = 1;
    if (!caught)
        exit(4);
    if (!bad)
        OK(cuCtxSynchronize());
    host[0] = 1;
    MAY(cuCtxSynchronize());
}

static const struct strict_case cases[] = {
    {"reads_too_early", "host-touch", "error", reads_too_early},
    {"writes_too_early", "host-touch", "error", writes_too_early},
    {"registered", "host-touch", "error", registered},
    {"second_copy", "host-touch", "error", second_copy},
    {"own_handler", "host-touch", "error", own_handler},
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
