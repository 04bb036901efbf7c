/* aarch64: reads of system registers, four bytes each, at multiples of four. */
#include <elf.h>
#include <string.h>

#include "collector/code.h"

/* mrs Xt, REGISTER without its Xt */
#define MRS 0xFFFFFFE0u
#define RNDR 0xD53B2400u
#define RNDRRS 0xD53B2420u
#define CNTVCT 0xD53BE040u
#define CNTVCTSS 0xD53BE0C0u

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool is_ours(uint32_t word, enum tb_code_kind *kind)
{
    uint32_t what = word & MRS;

    *kind = what == RNDR || what == RNDRRS ? TB_CODE_RANDOM : TB_CODE_CLOCK;
    return what == RNDR || what == RNDRRS || what == CNTVCT || what == CNTVCTSS;
}

static size_t next(const uint8_t *bytes, size_t n, size_t from)
{
    enum tb_code_kind kind;

    for (size_t i = (from + 3) & ~(size_t)3; i < n; i += 4)
        if (bytes[i + 3] == 0xD5 && is_ours(word_at(bytes + i), &kind))
            return i;
    return n;
}

static bool decode(const uint8_t *bytes, size_t n, bool end, size_t *at, size_t to,
                   enum tb_code_kind *kind)
{
    bool here = to + 4 <= n;

    *at = here || end ? to + 4 : n; /* no instruction depends on those before it */
    return here && is_ours(word_at(bytes + to), kind);
}

const struct tb_code_cpu tb_code_arm = {EM_AARCH64, next, decode};
