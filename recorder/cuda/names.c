#include "recorder/cuda/names.h"

const char *tb_cuda_id_name(uint32_t id)
{
    size_t lo = 0, hi = tb_cuda_names_count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (tb_cuda_names[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < tb_cuda_names_count && tb_cuda_names[lo].id == id ? tb_cuda_names[lo].name : NULL;
}
