/* The fingerprint of some of a buffer's leaves: FORMAT.md section 13. */
#include "fingerprint/fp_internal.h"

struct tb_fp tb_fp_sampled(const void *src, size_t n, uint32_t rate)
{
    const uint8_t *p = src;
    size_t leaves = tb_fp_leaf_count(n);
    struct tb_fp sum = tb_fp_length(n);

    if (rate <= 1)
        return tb_fp_host(src, n, 0);
    for (uint64_t k = 0; k * rate < leaves; k++) {
        uint64_t index = fp_sample(k, rate);

        if (index >= leaves)
            break;
        size_t begin = (size_t)index * TB_FP_LEAF;
        size_t size = n - begin < TB_FP_LEAF ? n - begin : TB_FP_LEAF;

        sum = tb_fp_add(sum, fp_mix(tb_fp_leaf_hash(p + begin, size), index));
    }
    return sum;
}
