// Two kernels in two streams without an event between them: either may come first. The order is
// printed: one seed must give the same, other seeds must show both (see order.sh).
#include "check.cuh"

__global__ void enter(int *order, int *next, int who)
{
    order[atomicAdd(next, 1)] = who;
}

int main()
{
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    dev<int> order(2), next(1);
    CHECK(cudaDeviceSynchronize());
    enter<<<1, 1, 0, a>>>(order.p, next.p, 'a');
    enter<<<1, 1, 0, b>>>(order.p, next.p, 'b');
    SYNC();
    auto got = order.host();
    if (got[0] + got[1] != 'a' + 'b' || got[0] == got[1])
        fail("order %d %d", got[0], got[1]);
    return ok("race order: %c %c", got[0], got[1]);
}
