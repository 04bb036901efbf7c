/* ldmatrix, stmatrix, movmatrix: 8x8 tiles of 16-bit elements between shared memory and lanes. */
#include "softgpu/exec/access.h"

typedef uint32_t u32;
typedef uint64_t u64;
typedef uint16_t u16;

/* Row and column of half @i of lane @l: neighbours of a row, or of a column. */
static void place(unsigned l, unsigned i, bool trans, unsigned *row, unsigned *col)
{
    *row = trans ? l % 4 * 2 + i : l / 4;
    *col = trans ? l / 4 : l % 4 * 2 + i;
}

/* Lane 8 m + r names row r of matrix m. x: matrices; guard_neg is unused, y holds TRANS. */
enum { Y_TRANS = 1 << 24 };

static const struct sg_insn *move(struct sg_warp *w, const struct sg_insn *in, bool load)
{
    u64 a[SG_WARP];

    if (!sg_warp_converged(w, in, SG_FULL_MASK))
        return sg_warp_leave(w);
    sg_addresses(w, in, a);
    for (unsigned m = 0; m < in->x; m++) {
        u32 *r = sg_opnd(w, in->r[m]);
        u16 *row[8];
        for (unsigned k = 0; k < 8; k++) {
            u64 at = a[8 * m + k];
            row[k] = at % 16 ? NULL : sg_lane_space(w, 8 * m + k, SG_SPACE(in), at, 16, !load);
            if (row[k] == NULL)
                return sg_bad_address(w, in, 8 * m + k, at, 16, !load);
        }
        for (unsigned l = 0; l < SG_WARP; l++) {
            u16 half[2];
            memcpy(half, &r[l], sizeof(half));
            for (unsigned i = 0; i < 2; i++) {
                unsigned y, x;
                place(l, i, in->y & Y_TRANS, &y, &x);
                if (load)
                    half[i] = row[y][x];
                else
                    row[y][x] = half[i];
            }
            if (load)
                memcpy(&r[l], half, sizeof(half));
        }
    }
    return in + 1;
}

SG_HANDLER(ldmatrix)
{
    return move(w, in, true);
}

SG_HANDLER(stmatrix)
{
    return move(w, in, false);
}

SG_HANDLER(movmatrix)
{
    const u32 *a = sg_opnd(w, in->r[1]);
    u32 *d = sg_opnd(w, in->r[0]), t[SG_WARP];
    u16 m[8][8];

    if (!sg_warp_converged(w, in, SG_FULL_MASK))
        return sg_warp_leave(w);
    for (unsigned l = 0; l < SG_WARP; l++)
        for (unsigned i = 0; i < 2; i++)
            m[l % 4 * 2 + i][l / 4] = (u16)(a[l] >> (16 * i));
    for (unsigned l = 0; l < SG_WARP; l++)
        t[l] = m[l / 4][l % 4 * 2] | (u32)m[l / 4][l % 4 * 2 + 1] << 16;
    memcpy(d, t, sizeof(t));
    return in + 1;
}

static bool decode_move(struct sg_dec *d, const struct sg_ptx_insn *p, bool load)
{
    u32 n = sg_ptx_has(p, SG_M_X4) ? 4 : sg_ptx_has(p, SG_M_X2) ? 2 : 1;
    const struct sg_ptx_opnd *v = &p->opnds[load ? 0 : 1];
    int32_t r[4] = {0};
    struct sg_address a;

    if (p->nopnds != 2 || !sg_ptx_has(p, SG_M_M8N8) || !sg_ptx_has(p, SG_M_B16))
        return false;
    if (n != (v->kind == SG_OPND_VEC ? v->n : 1))
        return sg_dec_refuse(d, "%u registers are expected", n);
    if (!SG_ISA(sg_dec_address)(d, &p->opnds[load ? 1 : 0], SG_ISA(sg_space_of)(p), &a) || a.param)
        return false;
    for (u32 i = 0; i < n; i++) {
        const struct sg_ptx_opnd *o = v->kind == SG_OPND_VEC ? &v->sub[i] : v;
        r[i] = load ? sg_dec_dst(d, o, SG_M_B32) : sg_dec_src(d, o, SG_M_B32);
    }
    struct sg_insn *in = sg_dec_emit(d, load ? ldmatrix : stmatrix);
    memcpy(in->r, r, sizeof(r));
    sg_address_store(in, &a);
    in->x = n;
    in->y |= sg_ptx_has(p, SG_M_TRANS) ? (u32)Y_TRANS : 0;
    return true;
}

bool SG_ISA(sg_decode_matrix)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (p->op != SG_OP_MOVMATRIX)
        return decode_move(d, p, p->op == SG_OP_LDMATRIX);
    if (!sg_ptx_has(p, SG_M_M8N8) || !sg_ptx_has(p, SG_M_B16))
        return false;
    sg_emit_op(d, movmatrix, SG_M_B32, SG_M_B32, SG_M_NONE, SG_M_NONE);
    return true;
}
