// Gravitation of a few hundred bodies: tiles of positions in shared memory, several time steps,
// momentum kept, close to a simulation in double precision.
#include "check.cuh"

enum { N = 192, TILE = 64 };

__device__ float3 pull(float3 a, float4 me, float4 other)
{
    float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
    float d2 = dx * dx + dy * dy + dz * dz + 0.05f, inv = rsqrtf(d2);
    float s = other.w * inv * inv * inv;
    return make_float3(a.x + dx * s, a.y + dy * s, a.z + dz * s);
}

__global__ void step(float4 *to, float4 *velocity, const float4 *from, float dt)
{
    __shared__ float4 tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    float4 me = from[i], v = velocity[i];
    float3 a = make_float3(0, 0, 0);
    for (int base = 0; base < N; base += TILE) {
        tile[threadIdx.x] = from[base + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < TILE; j++)
            a = pull(a, me, tile[j]);
        __syncthreads();
    }
    v.x += a.x * dt, v.y += a.y * dt, v.z += a.z * dt;
    velocity[i] = v;
    to[i] = make_float4(me.x + v.x * dt, me.y + v.y * dt, me.z + v.z * dt, me.w);
}

int main()
{
    const int steps = 5;
    const float dt = 0.01f;
    auto r = random_reals<float>(N * 4, 501);
    std::vector<float4> pos(N), vel(N, make_float4(0, 0, 0, 0));
    std::vector<double> p(N * 3), v(N * 3);
    for (int i = 0; i < N; i++) {
        pos[i] = make_float4(r[i * 4], r[i * 4 + 1], r[i * 4 + 2], 0.5f + fabsf(r[i * 4 + 3]));
        p[i * 3] = pos[i].x, p[i * 3 + 1] = pos[i].y, p[i * 3 + 2] = pos[i].z;
    }
    dev<float4> a(pos), b(N), dv(vel);
    for (int s = 0; s < steps; s++)
        step<<<N / TILE, TILE>>>(s % 2 ? a.p : b.p, dv.p, s % 2 ? b.p : a.p, dt);
    SYNC();
    for (int s = 0; s < steps; s++) {
        auto old = p;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                double d[3], d2 = 0.05f;
                for (int k = 0; k < 3; k++) {
                    d[k] = old[j * 3 + k] - old[i * 3 + k];
                    d2 += d[k] * d[k];
                }
                for (int k = 0; k < 3; k++)
                    v[i * 3 + k] += pos[j].w * d[k] / (d2 * sqrt(d2)) * dt;
            }
        for (int i = 0; i < N * 3; i++)
            p[i] += v[i] * dt;
    }
    auto got = (steps % 2 ? b : a).host();
    auto gv = dv.host();
    double momentum = 0, size = 0;
    for (int i = 0; i < N; i++) {
        expect_close("position", std::vector<double>{got[i].x, got[i].y, got[i].z},
                     {p[i * 3], p[i * 3 + 1], p[i * 3 + 2]}, 1e-4, 1e-4);
        momentum += (double)gv[i].x * pos[i].w;
        size += fabs((double)gv[i].x * pos[i].w);
    }
    expect_near("momentum", momentum, 0, 0, 1e-4 * size);
    return ok("n-body: %d bodies, %d steps", N, steps);
}
