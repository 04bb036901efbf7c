/*
 * Which product is asked about. Descriptors are asked for their attributes, not read: their bytes
 * hold pointers (bias, scales), which are others in each run, and may hold what nobody wrote.
 */
#include "deterministic/cublas/cublas_internal.h"

/** struct attribute - by the number that cublasLt.h gives it */
struct attribute {
    uint8_t number, bytes;
    bool pointer; /* what counts is whether there is one, and how it is aligned */
};

/* compute type, scale type, pointer mode, transposes, fill, epilogue, bias, auxiliary buffer,
 * strides, SMs, scales and their modes, fast accumulation, types, emulation */
static const struct attribute of_operation[] = {
    {0, 4, 0},  {1, 4, 0},  {2, 4, 0},  {3, 4, 0},  {4, 4, 0},  {5, 4, 0},  {6, 4, 0},
    {7, 4, 0},  {8, 8, 1},  {10, 8, 0}, {11, 8, 1}, {12, 8, 0}, {13, 8, 0}, {14, 8, 0},
    {15, 4, 0}, {17, 8, 1}, {18, 8, 1}, {19, 8, 1}, {20, 8, 1}, {21, 8, 1}, {22, 4, 0},
    {23, 8, 1}, {24, 8, 1}, {25, 1, 0}, {26, 4, 0}, {31, 4, 0}, {32, 4, 0}, {33, 4, 0},
    {34, 4, 0}, {35, 4, 0}, {36, 8, 1}, {37, 4, 0}, {38, 8, 1},
};

/* type, order, rows, columns, leading dimension, batch: count, stride; plane, mode of the batch */
static const struct attribute of_layout[] = {
    {0, 4, 0}, {1, 4, 0}, {2, 8, 0}, {3, 8, 0}, {4, 8, 0},
    {5, 4, 0}, {6, 8, 0}, {7, 8, 0}, {8, 4, 0},
};

/* search mode, workspace, reductions, alignment of A, B, C and D, waves, implementations */
static const struct attribute of_preference[] = {
    {0, 4, 0}, {1, 8, 0}, {3, 4, 0}, {5, 4, 0},  {6, 4, 0},
    {7, 4, 0}, {8, 4, 0}, {9, 4, 0}, {12, 8, 0},
};

/* An attribute that this version of cuBLASLt does not have is refused by it */
static uint64_t add(uint64_t h, tb_cublaslt_attribute *get, void *descriptor,
                    const struct attribute *a)
{
    uint64_t value = 0;
    size_t written = 0;

    if (get(descriptor, a->number, &value, a->bytes, &written) != TB_CUBLAS_SUCCESS)
        return tb_preload_mix(h, 0x100u + a->number);
    if (a->pointer)
        value = value ? 1 + (value & 15) : 0;
    return tb_preload_mix(tb_preload_mix(h, a->number), value);
}

static uint64_t add_all(uint64_t h, tb_cublaslt_attribute *get, void *descriptor,
                        const struct attribute *a, size_t n)
{
    if (!get || !descriptor)
        return tb_preload_mix(h, n);
    for (size_t i = 0; i < n; i++)
        h = add(h, get, descriptor, &a[i]);
    return h;
}

uint64_t tb_cublas_problem(const struct tb_cublas_real *real, const struct tb_cublas_question *q)
{
    uint64_t h = tb_preload_mix(0, (uint64_t)q->asked);

    h = add_all(h, real->operation, q->operation, of_operation, TB_ARRAY_LEN(of_operation));
    for (int i = 0; i < 4; i++)
        h = add_all(h, real->layout, q->layout[i], of_layout, TB_ARRAY_LEN(of_layout));
    return add_all(h, real->preference, q->preference, of_preference, TB_ARRAY_LEN(of_preference));
}
