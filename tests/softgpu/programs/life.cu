// Conway's game of life twice: a byte a cell with a torus in shared memory, and 32 cells a word
// with bit-parallel adders and funnel shifts.
#include "check.cuh"

enum { W = 128, H = 40 };

__global__ void bytes(uint8_t *to, const uint8_t *from)
{
    __shared__ uint8_t s[10][34];
    int x0 = blockIdx.x * 32, y0 = blockIdx.y * 8;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 340; i += 256)
        s[i / 34][i % 34] = from[(y0 + i / 34 - 1 + H) % H * W + (x0 + i % 34 - 1 + W) % W];
    __syncthreads();
    int x = threadIdx.x + 1, y = threadIdx.y + 1;
    int n = s[y - 1][x - 1] + s[y - 1][x] + s[y - 1][x + 1] + s[y][x - 1] + s[y][x + 1] +
            s[y + 1][x - 1] + s[y + 1][x] + s[y + 1][x + 1];
    to[(y0 + y - 1) * W + x0 + x - 1] = n == 3 || (n == 2 && s[y][x]);
}

__device__ void count_in(unsigned *ones, unsigned *twos, unsigned *fours, unsigned x)
{
    unsigned carry = *ones & x;
    *ones ^= x;
    unsigned carry2 = *twos & carry;
    *twos ^= carry;
    *fours |= carry2;
}

__global__ void words(unsigned *to, const unsigned *from)
{
    const int ww = W / 32;
    int x = threadIdx.x % ww, y = blockIdx.x * (blockDim.x / ww) + threadIdx.x / ww;
    unsigned ones = 0, twos = 0, fours = 0, self = 0;
    for (int d = -1; d <= 1; d++) {
        const unsigned *row = from + (y + d + H) % H * ww;
        unsigned left = row[(x + ww - 1) % ww], here = row[x], right = row[(x + 1) % ww];
        count_in(&ones, &twos, &fours, __funnelshift_l(left, here, 1)); // bit i: cell to the left
        count_in(&ones, &twos, &fours, __funnelshift_r(here, right, 1));
        if (d)
            count_in(&ones, &twos, &fours, here);
        else
            self = here;
    }
    to[y * ww + x] = twos & ~fours & (ones | self);
}

int main()
{
    const int generations = 12;
    auto cells = random_ints<uint8_t>(W * H, 511, 0, 2);
    std::vector<unsigned> packed(W * H / 32);
    for (int i = 0; i < W * H; i++)
        packed[i / 32] |= (unsigned)cells[i] << i % 32;
    dev<uint8_t> a(cells), b(cells.size());
    dev<unsigned> c(packed), d(packed.size());
    for (int g = 0; g < generations; g++) {
        bytes<<<dim3(W / 32, H / 8), dim3(32, 8)>>>(g % 2 ? a.p : b.p, g % 2 ? b.p : a.p);
        words<<<H / 8, W / 32 * 8>>>(g % 2 ? c.p : d.p, g % 2 ? d.p : c.p);
    }
    SYNC();
    for (int g = 0; g < generations; g++) {
        auto old = cells;
        for (int i = 0; i < W * H; i++) {
            int n = 0;
            for (int k = 0; k < 9; k++)
                if (k != 4)
                    n += old[(i / W + k / 3 - 1 + H) % H * W + (i % W + k % 3 - 1 + W) % W];
            cells[i] = n == 3 || (n == 2 && old[i]);
        }
    }
    expect_equal("bytes", a.host(), cells);
    std::vector<unsigned> want(packed.size());
    for (int i = 0; i < W * H; i++)
        want[i / 32] |= (unsigned)cells[i] << i % 32;
    expect_equal("words", c.host(), want);
    return ok("life: %d generations, bytes and words", generations);
}
