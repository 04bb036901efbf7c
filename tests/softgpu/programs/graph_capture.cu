// Stream capture: fork and join over two streams, memset, copies and a host function in one graph;
// replays, an update by a second capture, a topology that cannot be updated.
#include "check.cuh"

__global__ void scale(float *x, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= f;
}

__global__ void add(float *out, const float *a, const float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] += a[i] + b[i];
}

static void count(void *arg)
{
    ++*(int *)arg;
}

struct work {
    enum { N = 1000 };
    cudaStream_t main, side;
    cudaEvent_t fork, join;
    float *in, *a, *b, *out, *result; // in and result on the host
    int calls = 0;
};

/* out = in * fa + in * fb, out copied to the host */
static cudaGraph_t capture(work *w, float fa, float fb, bool extra)
{
    cudaGraph_t graph;
    size_t bytes = work::N * sizeof(float);
    unsigned grid = blocks_for(work::N, 128);
    CHECK(cudaStreamBeginCapture(w->main, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureStatus status;
    CHECK(cudaMemcpyAsync(w->a, w->in, bytes, cudaMemcpyHostToDevice, w->main));
    CHECK(cudaEventRecord(w->fork, w->main));
    CHECK(cudaStreamWaitEvent(w->side, w->fork, 0));
    CHECK(cudaStreamIsCapturing(w->side, &status));
    if (status != cudaStreamCaptureStatusActive)
        fail("side stream does not capture");
    CHECK(cudaMemcpyAsync(w->b, w->a, bytes, cudaMemcpyDeviceToDevice, w->side));
    scale<<<grid, 128, 0, w->side>>>(w->b, fb, work::N);
    CHECK(cudaMemsetAsync(w->out, 0, bytes, w->side));
    CHECK(cudaEventRecord(w->join, w->side));
    CHECK(cudaStreamWaitEvent(w->main, w->join, 0));
    scale<<<grid, 128, 0, w->main>>>(w->a, fa, work::N);
    add<<<grid, 128, 0, w->main>>>(w->out, w->a, w->b, work::N);
    if (extra)
        scale<<<grid, 128, 0, w->main>>>(w->out, 1, work::N);
    CHECK(cudaMemcpyAsync(w->result, w->out, bytes, cudaMemcpyDeviceToHost, w->main));
    CHECK(cudaLaunchHostFunc(w->main, count, &w->calls));
    CHECK(cudaStreamEndCapture(w->main, &graph));
    return graph;
}

static void launch_and_check(work *w, cudaGraphExec_t exec, float fa, float fb)
{
    int before = w->calls;
    auto in = random_ints<float>(work::N, 261 + before, -100, 100);
    memcpy(w->in, in.data(), in.size() * sizeof(float));
    memset(w->result, 0, in.size() * sizeof(float));
    CHECK(cudaGraphLaunch(exec, w->main));
    CHECK(cudaStreamSynchronize(w->main));
    for (float &x : in)
        x = x * fa + x * fb;
    expect_equal("result", std::vector<float>(w->result, w->result + work::N), in);
    expect_value("host function", w->calls, before + 1);
}

int main()
{
    work w;
    size_t bytes = work::N * sizeof(float), nodes = 0;
    CHECK(cudaStreamCreateWithFlags(&w.main, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&w.side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&w.fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&w.join, cudaEventDisableTiming));
    CHECK(cudaMallocHost((void **)&w.in, bytes));
    CHECK(cudaMallocHost((void **)&w.result, bytes));
    for (float **p : {&w.a, &w.b, &w.out})
        CHECK(cudaMalloc((void **)p, bytes));
    cudaGraph_t first = capture(&w, 2, 3, false), second = capture(&w, -1, 0.5f, false);
    cudaGraph_t other = capture(&w, 1, 1, true);
    expect_value("nothing ran", w.calls, 0);
    CHECK(cudaGraphGetNodes(first, nullptr, &nodes));
    expect_value("nodes", nodes, (size_t)8);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, first, 0));
    launch_and_check(&w, exec, 2, 3);
    launch_and_check(&w, exec, 2, 3);
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, second, &info));
    launch_and_check(&w, exec, -1, 0.5f);
    CHECK_ERROR(cudaGraphExecUpdate(exec, other, &info), cudaErrorGraphExecUpdateFailure);
    if (info.result == cudaGraphExecUpdateSuccess)
        fail("update to another topology succeeded");
    CHECK(cudaGraphDestroy(first)); // an executable graph does not need it
    launch_and_check(&w, exec, -1, 0.5f);

    CHECK(cudaStreamBeginCapture(w.main, cudaStreamCaptureModeRelaxed));
    CHECK_ERROR(cudaStreamSynchronize(w.main), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t broken = nullptr;
    CHECK_ERROR(cudaStreamEndCapture(w.main, &broken), cudaErrorStreamCaptureInvalidated);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(second));
    CHECK(cudaGraphDestroy(other));
    return ok("graph capture: fork, join, replay, update, invalidation");
}
