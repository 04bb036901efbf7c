/* What an instruction that calculates makes of the origins of its operands. */
#include "kernelinfo/kernelinfo_internal.h"

/* How an instruction uses its operands. */
enum rule {
    ANY = 0,  /* the result may come from any operand */
    NOTHING,  /* no result that could be an address */
    NUMBER,   /* operands are numbers, and so is the result */
    SCALE,    /* operands are numbers; the result may be brought back by a shift */
    MULTIPLY, /* a * b */
    MULTIPLY_ADD,
    ADD,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    JOIN, /* operands may be parts that are put together */
    CONVERT,
    MOVE,
    FIRST,  /* the result is the first operand, the others are numbers */
    SELECT, /* one of the first two operands; the third is a number */
    COMPARE,
    TO_SPACE, /* cvta */
    SHARED_ADDRESS,
    LOCAL_ADDRESS,
    CALL,
};

static const uint8_t rules[SG_OP_COUNT] = {
    [SG_OP_ACTIVEMASK] = NUMBER,
    [SG_OP_ADD] = ADD,
    [SG_OP_ADDC] = ADD,
    [SG_OP_ALLOCA] = LOCAL_ADDRESS,
    [SG_OP_APPLYPRIORITY] = NOTHING,
    [SG_OP_BAR] = NUMBER,
    [SG_OP_BARRIER] = NUMBER,
    [SG_OP_BFE] = SHIFT_RIGHT,
    [SG_OP_BFI] = JOIN,
    [SG_OP_BFIND] = NUMBER,
    [SG_OP_BMSK] = NUMBER,
    [SG_OP_BRA] = NOTHING,
    [SG_OP_BREV] = SCALE,
    [SG_OP_BRKPT] = NOTHING,
    [SG_OP_BRX] = NUMBER,
    [SG_OP_CALL] = CALL,
    [SG_OP_CLUSTERLAUNCHCONTROL] = NUMBER,
    [SG_OP_CLZ] = NUMBER,
    [SG_OP_CNOT] = NUMBER,
    [SG_OP_COPYSIGN] = NUMBER,
    [SG_OP_COS] = NUMBER,
    [SG_OP_CREATEPOLICY] = NUMBER,
    [SG_OP_CVT] = CONVERT,
    [SG_OP_CVTA] = TO_SPACE,
    [SG_OP_DIV] = SCALE,
    [SG_OP_DP2A] = NUMBER,
    [SG_OP_DP4A] = NUMBER,
    [SG_OP_ELECT] = NUMBER,
    [SG_OP_EX2] = NUMBER,
    [SG_OP_EXIT] = NOTHING,
    [SG_OP_FENCE] = NOTHING,
    [SG_OP_FMA] = NUMBER,
    [SG_OP_FNS] = NUMBER,
    [SG_OP_GETCTARANK] = NUMBER,
    [SG_OP_GRIDDEPCONTROL] = NOTHING,
    [SG_OP_ISSPACEP] = NOTHING,
    [SG_OP_ISTYPEP] = NOTHING,
    [SG_OP_LG2] = NUMBER,
    [SG_OP_LOP3] = JOIN,
    [SG_OP_MAD] = MULTIPLY_ADD,
    [SG_OP_MAD24] = MULTIPLY_ADD,
    [SG_OP_MADC] = MULTIPLY_ADD,
    [SG_OP_MAPA] = SHARED_ADDRESS,
    [SG_OP_MATCH] = NUMBER,
    [SG_OP_MBARRIER] = NUMBER,
    [SG_OP_MEMBAR] = NOTHING,
    [SG_OP_MMA] = NUMBER,
    [SG_OP_MOV] = MOVE,
    [SG_OP_MUL] = MULTIPLY,
    [SG_OP_MUL24] = MULTIPLY,
    [SG_OP_NANOSLEEP] = NUMBER,
    [SG_OP_OR] = JOIN,
    [SG_OP_PMEVENT] = NOTHING,
    [SG_OP_POPC] = NUMBER,
    [SG_OP_PRMT] = JOIN,
    [SG_OP_RCP] = NUMBER,
    [SG_OP_REM] = SCALE,
    [SG_OP_RET] = NOTHING,
    [SG_OP_RSQRT] = NUMBER,
    [SG_OP_SAD] = SCALE,
    [SG_OP_SELP] = SELECT,
    [SG_OP_SET] = COMPARE,
    [SG_OP_SETMAXNREG] = NOTHING,
    [SG_OP_SETP] = COMPARE,
    [SG_OP_SHFL] = FIRST,
    [SG_OP_SHL] = SHIFT_LEFT,
    [SG_OP_SHR] = SHIFT_RIGHT,
    [SG_OP_SIN] = NUMBER,
    [SG_OP_SLCT] = SELECT,
    [SG_OP_SQRT] = NUMBER,
    [SG_OP_STACKRESTORE] = NOTHING,
    [SG_OP_STACKSAVE] = LOCAL_ADDRESS,
    [SG_OP_SUB] = ADD,
    [SG_OP_SUBC] = ADD,
    [SG_OP_SUQ] = NUMBER,
    [SG_OP_TANH] = NUMBER,
    [SG_OP_TESTP] = NUMBER,
    [SG_OP_TRAP] = NOTHING,
    [SG_OP_TXQ] = NUMBER,
    [SG_OP_VOTE] = NUMBER,
    [SG_OP_WGMMA] = NUMBER,
};

static void numbers(const struct ki_at *at, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to && i < at->in->nopnds; i++)
        ki_value_used(at->k, ki_get(at, &at->in->opnds[i]).set);
}

static struct ki_val sources(const struct ki_at *at, unsigned from, unsigned to)
{
    struct ki_val v = {0};

    for (unsigned i = from; i < to && i < at->in->nopnds; i++)
        v = ki_join(at->k, v, ki_get(at, &at->in->opnds[i]));
    v.displaced = 2;
    return v;
}

static void result(const struct ki_at *at, struct ki_val v)
{
    ki_put(at, &at->in->opnds[0], v);
}

static bool is_64_bits(const struct sg_ptx_insn *in)
{
    return sg_ptx_type_size((enum sg_ptx_mod)ki_type(in, 0)) >= 8;
}

static struct ki_val typed(const struct ki_at *at, struct ki_val v)
{
    v.dt = ki_dt_of(ki_type(at->in, 0));
    return v;
}

static void number(const struct ki_at *at, unsigned from, unsigned to)
{
    numbers(at, from, to);
    result(at, ki_number(ki_dt_of(ki_type(at->in, 0))));
}

/* Shift by @n bits to the left: whole bytes put parts of a word to their places, others scale. */
static struct ki_val shifted(const struct ki_at *at, struct ki_val v, bool known, int64_t n)
{
    enum ki_map map = KI_MAP_SHIFT;

    if (known && n % 8 != 0)
        map = KI_MAP_SCALE;
    else if (known && n >= 32)
        map = KI_MAP_JOIN;
    else if (known)
        map = KI_MAP_JOIN_32;
    if (n != 0 || !known)
        ki_value_used(at->k, map == KI_MAP_SCALE || map == KI_MAP_SHIFT ? v.set : 0);
    return ki_mapped(at->k, map, v);
}

static void shift_left(const struct ki_at *at)
{
    const struct sg_ptx_opnd *n = &at->in->opnds[2];

    numbers(at, 2, 3);
    result(at, shifted(at, sources(at, 1, 2), n->kind == SG_OPND_IMM, n->imm));
}

static void shift_right(const struct ki_at *at)
{
    const struct sg_ptx_opnd *n = &at->in->opnds[2];
    struct ki_val v = sources(at, 1, 2);

    if (n->kind != SG_OPND_IMM || n->imm % 8 != 0)
        ki_value_used(at->k, v.set);
    numbers(at, 2, at->in->nopnds);
    v = ki_mapped(at->k, KI_MAP_BACK, v);
    v.dt = KI_DT_MIXED;
    result(at, v);
}

/* a * b; a power of two is a shift */
static struct ki_val product(const struct ki_at *at)
{
    const struct sg_ptx_opnd *b = &at->in->opnds[2];
    struct ki_val v = sources(at, 1, 3);

    if (b->kind == SG_OPND_IMM && b->imm > 0 && (b->imm & (b->imm - 1)) == 0)
        return shifted(at, sources(at, 1, 2), true, __builtin_ctzll((uint64_t)b->imm));
    ki_value_used(at->k, v.set);
    return ki_mapped(at->k, KI_MAP_SCALE, v);
}

static void add(const struct ki_at *at)
{
    const struct sg_ptx_opnd *a = &at->in->opnds[1], *b = &at->in->opnds[2];
    struct ki_val v;

    if (b->kind == SG_OPND_IMM && a->kind != SG_OPND_IMM) {
        v = ki_get(at, a);
        v.off += v.displaced != 1 ? 0 : at->in->op == SG_OP_SUB ? -b->imm : b->imm;
        v.set = ki_union(&at->k->sets, v.set, ki_get(at, b).set);
    } else if (a->kind == SG_OPND_IMM && at->in->op == SG_OP_ADD) {
        v = ki_get(at, b);
        v.off += v.displaced == 1 ? a->imm : 0;
        v.set = ki_union(&at->k->sets, v.set, ki_get(at, a).set);
    } else {
        v = sources(at, 1, 3);
    }
    result(at, typed(at, v));
}

/* or, bfi, prmt, lop3: parts may be put together where more than one comes in */
static void join(const struct ki_at *at)
{
    struct ki_val v = sources(at, 1, at->in->nopnds);
    unsigned inputs = 0;

    for (unsigned i = 1; i < at->in->nopnds; i++)
        inputs += at->in->opnds[i].kind == SG_OPND_REG;
    if (inputs > 1 || at->in->op == SG_OP_PRMT)
        v = ki_mapped(at->k, is_64_bits(at->in) ? KI_MAP_JOIN : KI_MAP_JOIN_32, v);
    v.dt = KI_DT_MIXED;
    result(at, v);
}

static void convert(const struct ki_at *at)
{
    uint8_t to = ki_dt_of(ki_type(at->in, 0)), from = ki_dt_of(ki_type(at->in, 1));

    if (ki_dt_is_float(to) || ki_dt_is_float(from) || to == KI_DT_MIXED || from == KI_DT_MIXED)
        number(at, 1, at->in->nopnds);
    else
        result(at, typed(at, sources(at, 1, at->in->nopnds)));
}

static bool is_clock(const struct sg_ptx_opnd *o)
{
    switch (o->kind == SG_OPND_SREG ? o->sreg : SG_SREG_NONE) {
    case SG_SREG_CLOCK:
    case SG_SREG_CLOCK_HI:
    case SG_SREG_CLOCK64:
    case SG_SREG_GLOBALTIMER:
    case SG_SREG_GLOBALTIMER_LO:
    case SG_SREG_GLOBALTIMER_HI:
        return true;
    default:
        return false;
    }
}

static void move(const struct ki_at *at)
{
    const struct sg_ptx_opnd *from = &at->in->opnds[1];
    struct ki_val v = ki_get(at, from);

    if (from->kind == SG_OPND_VEC && from->n > 1) {
        uint8_t dt = v.dt;

        v = ki_mapped(at->k, is_64_bits(at->in) ? KI_MAP_JOIN : KI_MAP_JOIN_32, v);
        v.dt = dt;
    } else if (at->in->opnds[0].kind == SG_OPND_VEC) {
        v.displaced = 2;
    }
    result(at, v);
}

/* A comparison with 0 asks whether there is a pointer; other ones are of numbers. */
static void compare(const struct ki_at *at)
{
    bool with_zero = false;

    for (unsigned i = 1; i < at->in->nopnds; i++)
        with_zero |= at->in->opnds[i].kind == SG_OPND_IMM && at->in->opnds[i].imm == 0;
    if (!with_zero)
        numbers(at, 1, at->in->nopnds);
    if (at->in->op == SG_OP_SET)
        result(at, ki_number(ki_dt_of(ki_type(at->in, 0))));
}

static bool has_object(struct ki_flow *k, uint32_t set)
{
    for (uint32_t i = 0; i < k->sets.set[set].n; i++)
        if (KI_KIND(k->sets.atoms[k->sets.set[set].at + i]) == KI_OBJECT)
            return true;
    return false;
}

static void with_object(const struct ki_at *at, uint32_t object)
{
    struct ki_val v = sources(at, 1, 2);

    result(at, ki_join(at->k, v, ki_from(at->k, KI_ATOM(KI_OBJECT, object))));
}

/* A generic address of what lies in a state space; which object is known, or it is any of them. */
static void to_space(const struct ki_at *at)
{
    struct ki_val v = ki_get(at, &at->in->opnds[1]);

    if (sg_ptx_has(at->in, SG_M_SHARED) || sg_ptx_has(at->in, SG_M_SHARED__CTA) ||
        sg_ptx_has(at->in, SG_M_SHARED__CLUSTER))
        with_object(at, KI_OBJECT_SHARED);
    else if (sg_ptx_has(at->in, SG_M_LOCAL) && !has_object(at->k, v.set))
        with_object(at, KI_OBJECT_LOCAL);
    else
        result(at, v);
}

static void multiply_add(const struct ki_at *at)
{
    struct ki_val v = product(at);

    v = ki_join(at->k, v, sources(at, 3, 4));
    v.displaced = 2;
    result(at, typed(at, v));
}

/* Arithmetic on floats: no address comes of it. */
static bool calculates_floats(const struct sg_ptx_insn *in)
{
    switch (rules[in->op]) {
    case ANY:
    case SCALE:
    case MULTIPLY:
    case MULTIPLY_ADD:
    case ADD:
        return ki_dt_is_float(ki_dt_of(ki_type(in, 0)));
    default:
        return false;
    }
}

static void apply(const struct ki_at *at, enum rule rule)
{
    struct ki_val v;

    switch (rule) {
    case NOTHING:
        break;
    case NUMBER:
        number(at, 1, at->in->nopnds);
        break;
    case SCALE:
        numbers(at, 1, at->in->nopnds);
        result(at, typed(at, ki_mapped(at->k, KI_MAP_SCALE, sources(at, 1, at->in->nopnds))));
        break;
    case MULTIPLY:
        result(at, typed(at, product(at)));
        break;
    case MULTIPLY_ADD:
        multiply_add(at);
        break;
    case ADD:
        add(at);
        break;
    case SHIFT_LEFT:
        shift_left(at);
        break;
    case SHIFT_RIGHT:
        shift_right(at);
        break;
    case JOIN:
        join(at);
        break;
    case CONVERT:
        convert(at);
        break;
    case MOVE:
        move(at);
        break;
    case FIRST:
    case SELECT:
        v = sources(at, 1, rule == FIRST ? 2 : 3);
        numbers(at, rule == FIRST ? 2 : 3, at->in->nopnds);
        result(at, v);
        break;
    case COMPARE:
        compare(at);
        break;
    case TO_SPACE:
        to_space(at);
        break;
    case SHARED_ADDRESS:
        with_object(at, KI_OBJECT_SHARED);
        break;
    case LOCAL_ADDRESS:
        result(at, ki_from(at->k, KI_ATOM(KI_OBJECT, KI_OBJECT_LOCAL)));
        break;
    case CALL:
        ki_call(at);
        break;
    default:
        result(at, typed(at, sources(at, 1, at->in->nopnds)));
    }
}

/* Operands that the rule of an opcode looks at without asking whether they are there. */
static unsigned least_operands(enum rule rule)
{
    switch (rule) {
    case NOTHING:
    case CALL:
        return 0;
    case MULTIPLY:
    case MULTIPLY_ADD:
    case ADD:
    case SHIFT_LEFT:
    case SHIFT_RIGHT:
        return 3;
    case MOVE:
    case TO_SPACE:
    case SHARED_ADDRESS:
        return 2;
    default:
        return 1;
    }
}

void ki_step(const struct ki_at *at)
{
    enum rule rule = (enum rule)rules[at->in->op];

    for (unsigned i = 0; at->k->report && i < at->in->nopnds; i++)
        if (is_clock(&at->in->opnds[i]))
            at->k->flags |= TB_KERNEL_CLOCK;
    if (ki_memory(at))
        return;
    if (at->in->nopnds < least_operands(rule))
        return;
    if (calculates_floats(at->in))
        number(at, 1, at->in->nopnds);
    else
        apply(at, rule);
}
