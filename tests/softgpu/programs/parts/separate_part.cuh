/* What parts/separate_part.cu gives to separate_compilation.cu. */
#ifndef SOFTGPU_PROGRAMS_SEPARATE_PART_CUH
#define SOFTGPU_PROGRAMS_SEPARATE_PART_CUH

struct part_base {
    __device__ virtual int value(int x) const = 0;
    __device__ virtual ~part_base()
    {
    }
};

extern __device__ int part_table[4];
extern __device__ int shared_counter; /* defined by the program */

__device__ int part_function(int x, int (*f)(int));
__device__ part_base *make_part(int kind);
__device__ void part_counts(int n);
void part_launch(int *out, int n);

#endif
