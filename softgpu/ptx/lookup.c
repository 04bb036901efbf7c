/* The words of PTX: opcodes, modifiers, special registers, sizes of types. */
#include "softgpu/ptx/ptx_internal.h"

struct word {
    const char *text;
    uint32_t len;
};

static const struct word ops[] = {
    {"", 0},
#define SG_PTX_OP(id, text) {text, sizeof(text) - 1},
#include "softgpu/ptx/ops.def"
#undef SG_PTX_OP
};

static const struct word mods[] = {
    {"", 0},
#define SG_PTX_MOD(id, text) {text, sizeof(text) - 1},
#include "softgpu/ptx/mods.def"
#undef SG_PTX_MOD
};

static const char *const sregs[] = {
    "",
#define SG_PTX_SREG(id, text) text,
#include "softgpu/ptx/sregs.def"
#undef SG_PTX_SREG
};

/* Second spellings of a modifier */
static const struct {
    struct word word;
    uint16_t mod;
} aliases[] = {
    {{"NaN", 3}, SG_M_NAN}, /* min.NaN beside setp.nan */
};

static const uint8_t type_sizes[SG_M_COUNT] = {
    [SG_M_B8] = 1,     [SG_M_U8] = 1,     [SG_M_S8] = 1,     [SG_M_E4M3] = 1,   [SG_M_E5M2] = 1,
    [SG_M_E2M3] = 1,   [SG_M_E3M2] = 1,   [SG_M_UE8M0] = 1,  [SG_M_S2F6] = 1,   [SG_M_E2M1X2] = 1,
    [SG_M_B16] = 2,    [SG_M_U16] = 2,    [SG_M_S16] = 2,    [SG_M_F16] = 2,    [SG_M_BF16] = 2,
    [SG_M_E4M3X2] = 2, [SG_M_E5M2X2] = 2, [SG_M_E2M3X2] = 2, [SG_M_E3M2X2] = 2, [SG_M_UE8M0X2] = 2,
    [SG_M_S2F6X2] = 2, [SG_M_E2M1X4] = 2, [SG_M_B32] = 4,    [SG_M_U32] = 4,    [SG_M_S32] = 4,
    [SG_M_F32] = 4,    [SG_M_TF32] = 4,   [SG_M_F16X2] = 4,  [SG_M_BF16X2] = 4, [SG_M_U16X2] = 4,
    [SG_M_S16X2] = 4,  [SG_M_B16X2] = 4,  [SG_M_U8X4] = 4,   [SG_M_S8X4] = 4,   [SG_M_E4M3X4] = 4,
    [SG_M_E5M2X4] = 4, [SG_M_E2M3X4] = 4, [SG_M_E3M2X4] = 4, [SG_M_B64] = 8,    [SG_M_U64] = 8,
    [SG_M_S64] = 8,    [SG_M_F64] = 8,    [SG_M_F32X2] = 8,  [SG_M_B128] = 16,
};

const char *sg_ptx_op_name(enum sg_ptx_op op)
{
    return (unsigned)op < SG_OP_COUNT ? ops[op].text : "";
}

const char *sg_ptx_mod_name(enum sg_ptx_mod mod)
{
    return (unsigned)mod < SG_M_COUNT ? mods[mod].text : "";
}

const char *sg_ptx_sreg_name(enum sg_ptx_sreg sreg)
{
    return (unsigned)sreg < SG_SREG_COUNT ? sregs[sreg] : "";
}

unsigned sg_ptx_type_size(enum sg_ptx_mod type)
{
    return (unsigned)type < SG_M_COUNT ? type_sizes[type] : 0;
}

bool sg_px_is_opaque(enum sg_ptx_mod type)
{
    return type == SG_M_TEXREF || type == SG_M_SAMPLERREF || type == SG_M_SURFREF;
}

uint32_t sg_px_hash(const char *s, size_t n)
{
    uint32_t h = SG_PX_HASH_SEED;

    for (size_t i = 0; i < n; i++)
        h = SG_PX_HASH_STEP(h, s[i]);
    return h;
}

/* These tables are filled for every module: a few letters of a word must do. The fifth one tells
 * the m64n8k16 apart. */
static uint32_t sample(const char *s, uint32_t n)
{
    const uint32_t at[] = {0, n > 4 ? 4 : n - 1, n / 2, n * 3 / 4, n - 1};
    uint32_t h = n;

    for (size_t i = 0; i < TB_ARRAY_LEN(at); i++)
        h = (h * 33) ^ (unsigned char)s[at[i]];
    return h;
}

static void add(uint16_t *table, size_t size, const struct word *w, uint16_t id)
{
    size_t i = SG_PX_HASH_SLOT(sample(w->text, w->len), size);

    while (table[i])
        i = (i + 1) & (size - 1);
    table[i] = id;
}

void sg_px_lookup_init(struct sg_px *p)
{
    _Static_assert(SG_OP_COUNT * 3 < sizeof(p->ops), "room in the table of opcodes");
    _Static_assert(SG_M_COUNT * 3 < sizeof(p->mods), "room in the table of modifiers");
    for (unsigned i = 1; i < SG_OP_COUNT; i++)
        add(p->ops, TB_ARRAY_LEN(p->ops), &ops[i], (uint16_t)i);
    for (unsigned i = 1; i < SG_M_COUNT; i++)
        add(p->mods, TB_ARRAY_LEN(p->mods), &mods[i], (uint16_t)i);
}

static unsigned find(const uint16_t *table, size_t size, const struct word *words,
                     const struct sg_px_tok *t)
{
    for (size_t i = SG_PX_HASH_SLOT(sample(t->s, t->len), size); table[i];
         i = (i + 1) & (size - 1)) {
        const struct word *w = &words[table[i]];

        if (w->len == t->len && memcmp(w->text, t->s, t->len) == 0)
            return table[i];
    }
    return 0;
}

enum sg_ptx_op sg_px_find_op(const struct sg_px *p, const struct sg_px_tok *t)
{
    return find(p->ops, TB_ARRAY_LEN(p->ops), ops, t);
}

enum sg_ptx_mod sg_px_find_mod(const struct sg_px *p, const struct sg_px_tok *t)
{
    unsigned id = find(p->mods, TB_ARRAY_LEN(p->mods), mods, t);

    for (size_t i = 0; !id && i < TB_ARRAY_LEN(aliases); i++)
        if (aliases[i].word.len == t->len && memcmp(aliases[i].word.text, t->s, t->len) == 0)
            id = aliases[i].mod;
    return id;
}
