// Managed memory: one pointer for host and device, __managed__ variables, prefetch, advice, and
// attributes of ranges.
#include "check.cuh"

struct node {
    node *next;
    int value;
};

__managed__ int counter = 5;
__managed__ node *head;

__global__ void walk(int *sum)
{
    for (const node *n = head; n; n = n->next)
        *sum += n->value;
    atomicAdd(&counter, 10);
}

__global__ void square(double *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= x[i];
}

int main()
{
    int supported = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrManagedMemory, 0));
    if (!supported)
        skip("the device has no managed memory");
    const int n = 1000;
    double *x;
    int *sum;
    node *nodes;
    CHECK(cudaMallocManaged((void **)&x, n * sizeof *x));
    CHECK(cudaMallocManaged((void **)&sum, sizeof *sum));
    CHECK(cudaMallocManaged((void **)&nodes, 20 * sizeof *nodes));
    for (int i = 0; i < n; i++)
        x[i] = i;
    *sum = 0;
    for (int i = 0; i < 20; i++)
        nodes[i] = {i < 19 ? &nodes[i + 1] : nullptr, i * i};
    head = nodes;
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    int concurrent = 0;
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (concurrent) {
        CHECK(cudaMemAdvise(x, n * sizeof *x, cudaMemAdviseSetPreferredLocation, device));
        CHECK(cudaMemPrefetchAsync(x, n * sizeof *x, device, 0, 0));
    }
    square<<<blocks_for(n, 128), 128>>>(x, n);
    walk<<<1, 1>>>(sum);
    SYNC();
    if (concurrent)
        CHECK(cudaMemPrefetchAsync(x, n * sizeof *x, host, 0, 0));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        if (x[i] != (double)i * i)
            fail("x[%d] is %g", i, x[i]);
    expect_value("sum", *sum, 19 * 20 * 39 / 6);
    expect_value("counter", counter, 15);
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, x + 3));
    expect_value("type", (int)a.type, (int)cudaMemoryTypeManaged);
    if (a.devicePointer != x + 3 || a.hostPointer != x + 3)
        fail("managed pointer changed");
    double back[4];
    CHECK(cudaMemcpy(back, x + 10, sizeof back, cudaMemcpyDefault));
    expect_near("copied", back[1], 121, 0);
    CHECK(cudaFree(x));
    CHECK(cudaFree(sum));
    CHECK(cudaFree(nodes));
    return ok("managed memory: lists, variables, prefetch");
}
