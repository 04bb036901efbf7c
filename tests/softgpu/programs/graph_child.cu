// Child graphs in child graphs: parameters of inner nodes changed in the executable graph, inner
// nodes switched off, child graphs replaced as a whole, graphs updated, launches that are captured
// and so become child graphs themselves.
#include "check.cuh"

__global__ void step(unsigned *y, const unsigned *x, unsigned a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = y[i] * 31 + a * x[i] + 1;
}

enum { N = 500 };

// y as the device has it, and as the host works it out
struct state {
    dev<unsigned> x, y;
    std::vector<unsigned> in, want;
    state() : x(random_ints<unsigned>(N, 881, 0, 1 << 20)), y(N), in(x.host()), want(N)
    {
    }
    void fill(unsigned value)
    {
        want.assign(N, value);
    }
    void step(unsigned a)
    {
        for (int i = 0; i < N; i++)
            want[i] = want[i] * 31 + a * in[i] + 1;
    }
};

struct arguments {
    unsigned *y, *x, a;
    int n = N;
    void *list[4] = {&y, &x, &a, &n};
    cudaKernelNodeParams p = {};
    arguments(const state &s, unsigned a) : y(s.y.p), x(s.x.p), a(a)
    {
        p.func = (void *)step;
        p.gridDim = dim3(4);
        p.blockDim = dim3(128);
        p.kernelParams = list;
    }
};

static cudaGraphNode_t add_step(cudaGraph_t g, const cudaGraphNode_t *after, const state &s,
                                unsigned a)
{
    cudaGraphNode_t node;
    arguments args(s, a);
    CHECK(cudaGraphAddKernelNode(&node, g, after, after ? 1 : 0, &args.p));
    return node;
}

static cudaMemsetParams fill_of(const state &s, unsigned value)
{
    cudaMemsetParams m = {};
    m.dst = s.y.p, m.value = value, m.elementSize = 4, m.width = N, m.height = 1;
    return m;
}

// y = value; step a; step b, with two steps of the same parameters at the end
static cudaGraph_t make_inner(const state &s, unsigned value, unsigned a, unsigned b)
{
    cudaGraph_t g;
    cudaGraphNode_t fill;
    cudaMemsetParams m = fill_of(s, value);
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddMemsetNode(&fill, g, nullptr, 0, &m));
    cudaGraphNode_t first = add_step(g, &fill, s, a);
    cudaGraphNode_t second = add_step(g, &first, s, b);
    add_step(g, &second, s, b);
    return g;
}

static void inner(state *s, unsigned value, unsigned a, unsigned b)
{
    s->fill(value), s->step(a), s->step(b), s->step(b);
}

// the inner graph, then step c
static cudaGraph_t make_outer(const state &s, unsigned value, unsigned a, unsigned b, unsigned c)
{
    cudaGraph_t g, in = make_inner(s, value, a, b);
    cudaGraphNode_t child;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddChildGraphNode(&child, g, nullptr, 0, in));
    add_step(g, &child, s, c);
    CHECK(cudaGraphDestroy(in));
    return g;
}

// step d, the outer graph, step e
static cudaGraph_t make(const state &s, unsigned value, unsigned a, unsigned e)
{
    cudaGraph_t g, outer = make_outer(s, value, a, 3, 4);
    cudaGraphNode_t child;
    CHECK(cudaGraphCreate(&g, 0));
    cudaGraphNode_t first = add_step(g, nullptr, s, 9);
    CHECK(cudaGraphAddChildGraphNode(&child, g, &first, 1, outer));
    add_step(g, &child, s, e);
    CHECK(cudaGraphDestroy(outer));
    return g;
}

static void all(state *s, unsigned value, unsigned a, unsigned e)
{
    inner(s, value, a, 3), s->step(4), s->step(e);
}

static std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t g)
{
    size_t n = 0;
    CHECK(cudaGraphGetNodes(g, nullptr, &n));
    std::vector<cudaGraphNode_t> v(n);
    CHECK(cudaGraphGetNodes(g, v.data(), &n));
    return v;
}

static std::vector<cudaGraphNode_t> inside(cudaGraphNode_t child)
{
    cudaGraph_t g;
    CHECK(cudaGraphChildGraphNodeGetGraph(child, &g));
    return nodes_of(g);
}

static void launch(cudaGraphExec_t exec, const state &s, const char *what)
{
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    expect_equal(what, s.y.host(), s.want);
}

static void one_by_one(state *s)
{
    cudaGraph_t g = make(*s, 7, 2, 5);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, g, 0));
    std::vector<cudaGraphNode_t> top = nodes_of(g), outer = inside(top[1]), in = inside(outer[0]);
    expect_value("nodes", top.size() * 100 + outer.size() * 10 + in.size(), (size_t)324);
    for (int i = 0; i < 2; i++) {
        all(s, 7, 2, 5);
        launch(exec, *s, "as made");
    }
    arguments other(*s, 77);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, in[1], &other.p));
    all(s, 7, 77, 5);
    launch(exec, *s, "inner kernel");
    cudaMemsetParams m = fill_of(*s, 8);
    CHECK(cudaGraphExecMemsetNodeSetParams(exec, in[0], &m));
    all(s, 8, 77, 5);
    launch(exec, *s, "inner memset");
    CHECK(cudaGraphNodeSetEnabled(exec, in[2], 0));
    unsigned on = 1;
    CHECK(cudaGraphNodeGetEnabled(exec, in[2], &on));
    expect_value("enabled", on, 0u);
    s->fill(8), s->step(77), s->step(3), s->step(4), s->step(5);
    launch(exec, *s, "inner kernel off");
    CHECK(cudaGraphNodeSetEnabled(exec, in[2], 1));
    all(s, 8, 77, 5);
    launch(exec, *s, "inner kernel on");
    expect_value("nodes", inside(outer[0]).size(), (size_t)4);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(g));
}

static void as_a_whole(state *s)
{
    cudaGraph_t g = make(*s, 7, 2, 5), other = make_outer(*s, 21, 22, 23, 24),
                in = make_inner(*s, 31, 32, 33);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, g, 0));
    std::vector<cudaGraphNode_t> top = nodes_of(g), outer = inside(top[1]);
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, top[1], other));
    inner(s, 21, 22, 23), s->step(24), s->step(5);
    launch(exec, *s, "child replaced");
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, outer[0], in));
    inner(s, 31, 32, 33), s->step(24), s->step(5);
    launch(exec, *s, "inner child replaced");
    arguments args(*s, 55);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, inside(outer[0])[1], &args.p));
    inner(s, 31, 55, 33), s->step(24), s->step(5);
    launch(exec, *s, "a node of it");
    CHECK_ERROR(cudaGraphExecChildGraphNodeSetParams(exec, top[1], in),
                cudaErrorGraphExecUpdateFailure);
    inner(s, 31, 55, 33), s->step(24), s->step(5);
    launch(exec, *s, "refused");

    cudaGraphExecUpdateResultInfo info;
    for (unsigned i = 0; i < 3; i++) {
        cudaGraph_t next = make(*s, 40 + i, 50 + i, 60 + i);
        CHECK(cudaGraphExecUpdate(exec, next, &info));
        CHECK(cudaGraphDestroy(next));
        all(s, 40 + i, 50 + i, 60 + i);
        launch(exec, *s, "updated");
    }
    arguments last(*s, 99); // the nodes of the first graph still name those of the executable one
    CHECK(cudaGraphExecKernelNodeSetParams(exec, inside(outer[0])[1], &last.p));
    all(s, 42, 99, 62);
    launch(exec, *s, "changed after updates");
    CHECK_ERROR(cudaGraphExecUpdate(exec, other, &info), cudaErrorGraphExecUpdateFailure);
    expect_value("result", (int)info.result, (int)cudaGraphExecUpdateErrorTopologyChanged);
    all(s, 42, 99, 62);
    launch(exec, *s, "not updated");
    for (cudaGraph_t each : {g, other, in})
        CHECK(cudaGraphDestroy(each));
    CHECK(cudaGraphExecDestroy(exec));
}

// two launches of one executable graph, a kernel between them
static cudaGraph_t capture(cudaStream_t stream, const state &s, cudaGraphExec_t exec, unsigned a)
{
    cudaGraph_t g;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaGraphLaunch(exec, stream));
    step<<<4, 128, 0, stream>>>(s.y.p, s.x.p, a, N);
    CHECK(cudaGraphLaunch(exec, stream));
    step<<<4, 128, 0, stream>>>(s.y.p, s.x.p, a + 1, N);
    CHECK(cudaStreamEndCapture(stream, &g));
    return g;
}

static void captured(state *s)
{
    cudaGraph_t in = make_inner(*s, 5, 6, 7);
    cudaGraphExec_t small, exec;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaGraphInstantiate(&small, in, 0));
    cudaGraph_t g = capture(stream, *s, small, 80);
    CHECK(cudaGraphInstantiate(&exec, g, 0));
    inner(s, 5, 6, 7), s->step(81);
    launch(exec, *s, "captured launches");
    cudaGraph_t next = capture(stream, *s, small, 90);
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, next, &info));
    inner(s, 5, 6, 7), s->step(91);
    launch(exec, *s, "captured again");
    inner(s, 5, 6, 7);
    launch(small, *s, "the small one");
    for (cudaGraph_t each : {in, g, next})
        CHECK(cudaGraphDestroy(each));
    CHECK(cudaGraphExecDestroy(small));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
}

int main()
{
    state s;
    one_by_one(&s);
    as_a_whole(&s);
    captured(&s);
    return ok("child graphs: nodes changed, replaced, updated, captured");
}
