// What test_fatbin.c looks for in the fat binaries that the build makes of this file.
extern "C" __global__ void add_one(int *p)
{
    p[threadIdx.x] += 1;
}
