// Copies and sets of every shape: 1D in all directions, pitched 2D, 3D boxes, sets of 1D, 2D and
// 3D, overlapping streams of them.
#include "check.cuh"

static void fill_box(std::vector<uint8_t> &v, size_t pitch, size_t rows, dim3 at, dim3 size,
                     uint8_t x)
{
    for (unsigned z = at.z; z < at.z + size.z; z++)
        for (unsigned y = at.y; y < at.y + size.y; y++)
            memset(&v[(z * rows + y) * pitch + at.x], x, size.x);
}

static void flat()
{
    const size_t n = 10007;
    auto in = random_ints<uint8_t>(n, 311, 0, 256);
    dev<uint8_t> a(in), b(n);
    CHECK(cudaMemcpy(b.p, a.p + 1, n - 1, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(b.p + 5, in.data() + 3, 17, cudaMemcpyDefault));
    CHECK(cudaMemset(b.p + 100, 0xab, 33));
    CHECK(cudaMemcpy(b.p, nullptr, 0, cudaMemcpyHostToDevice)); // nothing to do
    std::vector<uint8_t> want(n), got(n), moved(n);
    memcpy(want.data(), in.data() + 1, n - 1);
    memcpy(want.data() + 5, in.data() + 3, 17);
    memset(want.data() + 100, 0xab, 33);
    CHECK(cudaMemcpy(got.data(), b.p, n, cudaMemcpyDefault));
    expect_equal("1D", got, want);
    CHECK(cudaMemcpy(moved.data(), got.data(), n, cudaMemcpyHostToHost));
    expect_equal("host to host", moved, want);
}

static void pitched()
{
    const size_t w = 301, h = 23;
    auto in = random_ints<uint8_t>(w * h, 312, 0, 256);
    uint8_t *p;
    size_t pitch;
    CHECK(cudaMallocPitch((void **)&p, &pitch, w, h));
    if (pitch < w || pitch % 32)
        fail("pitch %zu", pitch);
    CHECK(cudaMemset2D(p, pitch, 0, pitch, h));
    CHECK(cudaMemcpy2D(p, pitch, in.data(), w, w, h, cudaMemcpyHostToDevice));
    CHECK(cudaMemset2D(p + 2 * pitch + 10, pitch, 0x11, 5, 3));
    std::vector<uint8_t> want = in, got(w * h);
    fill_box(want, w, h, dim3(10, 2, 0), dim3(5, 3, 1), 0x11);
    CHECK(cudaMemcpy2D(got.data(), w, p, pitch, w, h, cudaMemcpyDeviceToHost));
    expect_equal("2D", got, want);
    dev<uint8_t> small(20 * 4); // a window, device to device
    CHECK(cudaMemcpy2DAsync(small.p, 20, p + pitch + 3, pitch, 20, 4, cudaMemcpyDeviceToDevice, 0));
    std::vector<uint8_t> window(20 * 4);
    for (int y = 0; y < 4; y++)
        memcpy(&window[y * 20], &want[(y + 1) * w + 3], 20);
    expect_equal("window", small.host(), window);
    CHECK_ERROR(cudaMemcpy2D(got.data(), w - 1, p, pitch, w, h, cudaMemcpyDeviceToHost),
                cudaErrorInvalidPitchValue);
    CHECK(cudaFree(p));
}

static void boxes()
{
    const size_t w = 40, h = 9, d = 5;
    auto in = random_ints<uint8_t>(w * h * d, 313, 0, 256);
    cudaPitchedPtr p;
    CHECK(cudaMalloc3D(&p, make_cudaExtent(w, h, d)));
    cudaMemcpy3DParms c = {};
    c.srcPtr = make_cudaPitchedPtr(in.data(), w, w, h);
    c.dstPtr = p;
    c.extent = make_cudaExtent(w, h, d);
    c.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&c));
    cudaPitchedPtr part = p; // the set starts inside, at row 1 of slice 0
    part.ptr = (char *)p.ptr + p.pitch + 4;
    CHECK(cudaMemset3D(part, 0x77, make_cudaExtent(6, 3, 4)));
    std::vector<uint8_t> want = in, got(w * h * d, 0xee), expect(w * h * d, 0xee);
    fill_box(want, w, h, dim3(4, 1, 0), dim3(6, 3, 4), 0x77);
    cudaMemcpy3DParms back = {};
    back.srcPtr = p;
    back.srcPos = make_cudaPos(3, 1, 1);
    back.dstPtr = make_cudaPitchedPtr(got.data(), w, w, h);
    back.dstPos = make_cudaPos(1, 2, 0);
    back.extent = make_cudaExtent(30, 6, 3);
    back.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3DAsync(&back, 0));
    CHECK(cudaStreamSynchronize(0));
    for (int z = 0; z < 3; z++)
        for (int y = 0; y < 6; y++)
            memcpy(&expect[(z * h + y + 2) * w + 1], &want[((z + 1) * h + y + 1) * w + 3], 30);
    expect_equal("3D", got, expect);
    CHECK(cudaFree(p.ptr));
}

static void streams()
{
    const int n = 4096, pieces = 16;
    int *host;
    cudaStream_t s[4];
    CHECK(cudaMallocHost((void **)&host, n * sizeof(int)));
    for (auto &x : s)
        CHECK(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
    auto in = random_ints<int>(n, 314, 0, 1 << 30);
    dev<int> a(in), b(n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < pieces; i++) {
        size_t at = (size_t)i * n / pieces, bytes = n / pieces * sizeof(int);
        CHECK(cudaMemcpyAsync(b.p + at, a.p + n - n / pieces - at, bytes, cudaMemcpyDeviceToDevice,
                              s[i % 4]));
        CHECK(cudaMemcpyAsync(host + at, b.p + at, bytes, cudaMemcpyDeviceToHost, s[i % 4]));
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<int> want(n);
    for (int i = 0; i < n; i++)
        want[i] = in[n - n / pieces - i / (n / pieces) * (n / pieces) + i % (n / pieces)];
    expect_equal("pieces", std::vector<int>(host, host + n), want);
}

int main()
{
    flat();
    pitched();
    boxes();
    streams();
    return ok("copies: 1D, 2D, 3D, sets, streams");
}
