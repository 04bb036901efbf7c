/*
 * Which modifiers, types and numbers of operands the engine takes for each opcode. What a modifier
 * means is known to the files ops_*.c, which ask for those they know: one that they do not ask for
 * would be ignored. So everything that is not written here is refused, by name.
 */
#include "softgpu/exec/exec_internal.h"

/* The names of modifiers without their prefix: SG_M_FTZ is FTZ. */
enum {
#define SG_PTX_MOD(id, text) id = SG_M_##id,
#include "softgpu/ptx/mods.def"
#undef SG_PTX_MOD
};

typedef const uint16_t *list; /* ends with 0 */

/* One form of an opcode; forms are told apart by the first type among the modifiers. */
struct form {
    uint8_t min, max; /* operands; one more with .L2::cache_hint */
    uint8_t ntypes;   /* modifiers that are types, 0: any number */
    list types;       /* what the first type may be; NULL: there is none */
    list one, second; /* exactly one of each of these */
    list mods;        /* and any of these */
};

#define L(...) ((const uint16_t[]){__VA_ARGS__, 0})
#define FORMS(...)                                                                                 \
    (const struct form[])                                                                          \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .max = 0xff                                                                            \
        }                                                                                          \
    }

#define INT16 U16, S16
#define INT32 U32, S32
#define INT64 U64, S64
#define INTS INT16, INT32, INT64
#define BITS B16, B32, B64
#define HALVES F16, F16X2
#define BHALVES BF16, BF16X2
#define VALUES BITS, INTS, F32, F64
#define ROUNDINGS RN, RZ, RM, RP
#define ORDERED EQ, NE, LT, LE, GT, GE
#define UNORDERED EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN
#define COMPARISONS ORDERED, UNORDERED, LO, LS, HI, HS
#define BOOLEANS AND, OR, XOR
#define SHARED_ SHARED, SHARED__CTA, SHARED__CLUSTER
#define ORDERINGS RELAXED, ACQUIRE, RELEASE, ACQ_REL
#define SCOPES CTA, CLUSTER, GPU, SYS
#define SPACES GLOBAL, SHARED_, LOCAL, CONST, PARAM, PARAM__ENTRY, PARAM__FUNC
#define CACHES                                                                                     \
    CA, CG, CS, LU, CV, WB, WT, NC, L1__EVICT_NORMAL, L1__EVICT_UNCHANGED, L1__EVICT_FIRST,        \
        L1__EVICT_LAST, L1__NO_ALLOCATE, L2__EVICT_LAST, L2__EVICT_NORMAL, L2__EVICT_FIRST,        \
        L2__CACHE_HINT, L2__64B, L2__128B, L2__256B
#define MEMORY B8, U8, S8, VALUES
#define VECTORS V2, V4

/* sums, differences and products of floats */
#define FLOAT_FORMS                                                                                \
    {3, 3, 1, L(F32), NULL, NULL, L(ROUNDINGS, FTZ, SAT)},                                         \
        {3, 3, 1, L(F32X2), NULL, NULL, L(ROUNDINGS, FTZ)},                                        \
        {3, 3, 1, L(F64), NULL, NULL, L(ROUNDINGS)},                                               \
        {3, 3, 1, L(HALVES), NULL, NULL, L(RN, FTZ, SAT)},                                         \
    {                                                                                              \
        3, 3, 1, L(BHALVES), NULL, NULL, L(RN)                                                     \
    }

static const struct form form_add[] = {{3, 3, 1, L(INT16, U16X2, S16X2), NULL, NULL, NULL},
                                       {3, 3, 1, L(U32, INT64), NULL, NULL, L(CC)},
                                       {3, 3, 1, L(S32), NULL, NULL, L(SAT, CC)},
                                       FLOAT_FORMS,
                                       {.max = 0xff}};
static const struct form form_mul[] = {{3, 3, 1, L(INT16, INT32), L(LO, HI, WIDE), NULL, NULL},
                                       {3, 3, 1, L(INT64), L(LO, HI), NULL, NULL},
                                       FLOAT_FORMS,
                                       {.max = 0xff}};
static const struct form form_mad[] = {{4, 4, 1, L(INT16), L(LO, HI, WIDE), NULL, NULL},
                                       {4, 4, 1, L(U32), L(LO, HI, WIDE), NULL, L(CC)},
                                       {4, 4, 1, L(S32), L(LO, HI, WIDE), NULL, L(CC, SAT)},
                                       {4, 4, 1, L(INT64), L(LO, HI), NULL, L(CC)},
                                       {4, 4, 1, L(F32), L(ROUNDINGS), NULL, L(FTZ, SAT)},
                                       {4, 4, 1, L(F64), L(ROUNDINGS), NULL, NULL},
                                       {.max = 0xff}};
static const struct form form_fma[] = {{4, 4, 1, L(F32), L(ROUNDINGS), NULL, L(FTZ, SAT)},
                                       {4, 4, 1, L(F32X2), L(ROUNDINGS), NULL, L(FTZ)},
                                       {4, 4, 1, L(F64), L(ROUNDINGS), NULL, NULL},
                                       {4, 4, 1, L(HALVES), L(RN), NULL, L(FTZ, SAT, RELU)},
                                       {4, 4, 1, L(BHALVES), L(RN), NULL, L(RELU)},
                                       {.max = 0xff}};
static const struct form form_minmax[] = {
    {3, 3, 1, L(INT16, U32, INT64, U16X2), NULL, NULL, NULL},
    {3, 3, 1, L(S32, S16X2), NULL, NULL, L(RELU)},
    {3, 4, 1, L(F32), NULL, NULL, L(FTZ, NAN, XORSIGN, ABS)},
    {3, 3, 1, L(F64), NULL, NULL, NULL},
    {3, 3, 1, L(HALVES), NULL, NULL, L(FTZ, NAN, XORSIGN, ABS)},
    {3, 3, 1, L(BHALVES), NULL, NULL, L(NAN, XORSIGN, ABS)},
    {.max = 0xff}};
static const struct form form_sign[] = {{2, 2, 1, L(S16, S32, S64, F64, BHALVES), NULL, NULL, NULL},
                                        {2, 2, 1, L(F32, HALVES), NULL, NULL, L(FTZ)},
                                        {.max = 0xff}};
static const struct form form_carry[] = {{3, 3, 1, L(INT32, INT64), NULL, NULL, L(CC)},
                                         {.max = 0xff}};
static const struct form form_trig[] = {{2, 2, 1, L(F32), L(APPROX), NULL, L(FTZ)}, {.max = 0xff}};
static const struct form form_logic[] = {{3, 3, 1, L(PRED, BITS), NULL, NULL, NULL}, {.max = 0xff}};
static const struct form form_count[] = {{2, 2, 1, L(B32, B64), NULL, NULL, NULL}, {.max = 0xff}};
static const struct form form_dot[] = {{4, 4, 2, L(INT32), NULL, NULL, L(INT32)}, {.max = 0xff}};
static const struct form form_dot_half[] = {{4, 4, 2, L(INT32), L(LO, HI), NULL, L(INT32)},
                                            {.max = 0xff}};
static const struct form form_ld[] = {
    {2, 2, 1, L(MEMORY), NULL, NULL,
     L(WEAK, VOLATILE, RELAXED, ACQUIRE, MMIO, SCOPES, SPACES, CACHES, VECTORS)},
    {.max = 0xff}};
static const struct form form_st[] = {{2, 2, 1, L(MEMORY), NULL, NULL,
                                       L(WEAK, VOLATILE, RELAXED, RELEASE, MMIO, SCOPES, GLOBAL,
                                         SHARED_, LOCAL, PARAM, PARAM__FUNC, CACHES, VECTORS)},
                                      {.max = 0xff}};
static const struct form form_bar[] = {
    {1, 2, 0, NULL, L(SYNC, ARRIVE, WAIT), NULL,
     L(CTA, ALIGNED, WARP, CLUSTER, RELEASE, ACQUIRE, RELAXED)},
    {0, 0, 0, NULL, L(ARRIVE, WAIT), L(CLUSTER), L(ALIGNED, RELEASE, ACQUIRE, RELAXED)},
    {3, 4, 1, L(U32), L(RED), L(POPC), L(CTA, ALIGNED)},
    {3, 4, 1, L(PRED), L(RED), L(AND, OR), L(CTA, ALIGNED)},
    {.max = 0xff}};
static const struct form form_fence[] = {
    {0, 2, 0, NULL, NULL, NULL,
     L(SC, ACQ_REL, ACQUIRE, RELEASE, SCOPES, GL, PROXY, ALIAS, ASYNC, GLOBAL, SHARED_,
       MBARRIER_INIT, PROXY__ASYNC, ASYNC__GENERIC, GENERIC__ASYNC, SHARED__CTA__ASYNC,
       SYNC_RESTRICT__SHARED__CLUSTER, SYNC_RESTRICT__SHARED__CTA, OP_RESTRICT__MBARRIER_INIT)},
    {.max = 0xff}};
static const struct form form_matrix[] = {
    {2, 2, 1, L(B16), L(SYNC), L(M8N8), L(ALIGNED, X1, X2, X4, TRANS, SHARED, SHARED__CTA)},
    {.max = 0xff}};
static const struct form form_video[] = {
    {3, 4, 3, L(INT32), NULL, NULL, L(INT32, SAT, ADD, MIN, MAX)}, {.max = 0xff}};
static const struct form form_video_simd[] = {{4, 4, 3, L(INT32), NULL, NULL, L(INT32, SAT, ADD)},
                                              {.max = 0xff}};
static const struct form form_video_shift[] = {
    {3, 4, 3, L(INT32), L(CLAMP, WRAP), NULL, L(INT32, SAT, ADD, MIN, MAX)}, {.max = 0xff}};
static const struct form form_video_set[] = {
    {3, 4, 2, L(INT32), L(ORDERED), NULL, L(INT32, ADD, MIN, MAX)}, {.max = 0xff}};
static const struct form form_video_set_simd[] = {
    {4, 4, 2, L(INT32), L(ORDERED), NULL, L(INT32, ADD)}, {.max = 0xff}};
static const struct form form_uniform[] = {{0, 1, 0, NULL, NULL, NULL, L(UNI)}, {.max = 0xff}};

#define SHAPES                                                                                     \
    M8N8K4, M8N8K16, M8N8K32, M8N8K128, M16N8K4, M16N8K8, M16N8K16, M16N8K32, M16N8K64, M16N8K128, \
        M16N8K256, M16N16K16, M8N32K16, M32N8K16, M16N16K8
#define TENSOR_TYPES F16, BF16, TF32, F32, F64, U8, S8, U4, S4, B1, S32, E4M3, E5M2

static const struct form *const forms[SG_OP_COUNT] = {
    [SG_OP_ADD] = form_add,
    [SG_OP_SUB] = form_add,
    [SG_OP_MUL] = form_mul,
    [SG_OP_MAD] = form_mad,
    [SG_OP_FMA] = form_fma,
    [SG_OP_ADDC] = form_carry,
    [SG_OP_SUBC] = form_carry,
    [SG_OP_MADC] = FORMS({4, 4, 1, L(INT32, INT64), L(LO, HI), NULL, L(CC)}),
    [SG_OP_MUL24] = FORMS({3, 3, 1, L(INT32), L(LO, HI), NULL, NULL}),
    [SG_OP_MAD24] = FORMS({4, 4, 1, L(INT32), L(LO, HI), NULL, L(SAT)}),
    [SG_OP_SAD] = FORMS({4, 4, 1, L(INTS), NULL, NULL, NULL}),
    [SG_OP_DIV] = FORMS({3, 3, 1, L(INTS), NULL, NULL, NULL},
                        {3, 3, 1, L(F32), L(ROUNDINGS, APPROX, FULL), NULL, L(FTZ)},
                        {3, 3, 1, L(F64), L(ROUNDINGS), NULL, NULL}),
    [SG_OP_REM] = FORMS({3, 3, 1, L(INTS), NULL, NULL, NULL}),
    [SG_OP_MIN] = form_minmax,
    [SG_OP_MAX] = form_minmax,
    [SG_OP_NEG] = form_sign,
    [SG_OP_ABS] = form_sign,
    [SG_OP_COPYSIGN] = FORMS({3, 3, 1, L(F32, F64), NULL, NULL, NULL}),
    [SG_OP_RCP] = FORMS({2, 2, 1, L(F32, F64), L(ROUNDINGS, APPROX), NULL, L(FTZ)}),
    [SG_OP_SQRT] = FORMS({2, 2, 1, L(F32), L(ROUNDINGS, APPROX), NULL, L(FTZ)},
                         {2, 2, 1, L(F64), L(ROUNDINGS), NULL, NULL}),
    [SG_OP_RSQRT] = FORMS({2, 2, 1, L(F32, F64), L(APPROX), NULL, L(FTZ)}),
    [SG_OP_SIN] = form_trig,
    [SG_OP_COS] = form_trig,
    [SG_OP_LG2] = form_trig,
    [SG_OP_EX2] = FORMS({2, 2, 1, L(F32), L(APPROX), NULL, L(FTZ)},
                        {2, 2, 1, L(HALVES), L(APPROX), NULL, NULL},
                        {2, 2, 1, L(BHALVES), L(APPROX), L(FTZ), NULL}),
    [SG_OP_TANH] = FORMS({2, 2, 1, L(F32, HALVES, BHALVES), L(APPROX), NULL, NULL}),
    [SG_OP_AND] = form_logic,
    [SG_OP_OR] = form_logic,
    [SG_OP_XOR] = form_logic,
    [SG_OP_NOT] = FORMS({2, 2, 1, L(PRED, BITS), NULL, NULL, NULL}),
    [SG_OP_CNOT] = FORMS({2, 2, 1, L(BITS), NULL, NULL, NULL}),
    [SG_OP_SHL] = FORMS({3, 3, 1, L(BITS), NULL, NULL, NULL}),
    [SG_OP_SHR] = FORMS({3, 3, 1, L(BITS, INTS), NULL, NULL, NULL}),
    [SG_OP_POPC] = form_count,
    [SG_OP_CLZ] = form_count,
    [SG_OP_BREV] = form_count,
    [SG_OP_BFIND] = FORMS({2, 2, 1, L(INT32, INT64), NULL, NULL, L(SHIFTAMT)}),
    [SG_OP_BFE] = FORMS({4, 4, 1, L(INT32, INT64), NULL, NULL, NULL}),
    [SG_OP_BFI] = FORMS({5, 5, 1, L(B32, B64), NULL, NULL, NULL}),
    [SG_OP_SHF] = FORMS({4, 4, 1, L(B32), L(SG_M_L, R), L(CLAMP, WRAP), NULL}),
    [SG_OP_FNS] = FORMS({4, 4, 1, L(B32), NULL, NULL, NULL}),
    [SG_OP_SZEXT] = FORMS({3, 3, 1, L(INT32), L(CLAMP, WRAP), NULL, NULL}),
    [SG_OP_BMSK] = FORMS({3, 3, 1, L(B32), L(CLAMP, WRAP), NULL, NULL}),
    [SG_OP_LOP3] = FORMS({5, 6, 1, L(B32), NULL, NULL, L(AND, OR)}),
    [SG_OP_PRMT] = FORMS({4, 4, 1, L(B32), NULL, NULL, L(F4E, B4E, RC8, ECL, ECR, RC16)}),
    [SG_OP_DP4A] = form_dot,
    [SG_OP_DP2A] = form_dot_half,
    [SG_OP_CVT] = FORMS(
        {2, 4, 0, L(U8, S8, INTS, F32, F64, HALVES, BHALVES, TF32, E4M3X2, E5M2X2, U4, S4), NULL,
         NULL,
         L(U8, S8, INTS, F32, F64, HALVES, BHALVES, E4M3X2, E5M2X2, B32, ROUNDINGS, RNA, RNI, RZI,
           RMI, RPI, FTZ, SAT, RELU, SATFINITE, PACK)}),
    [SG_OP_SETP] = FORMS({3, 4, 1, L(BITS), L(EQ, NE), NULL, L(BOOLEANS)},
                         {3, 4, 1, L(S16, S32, S64), L(ORDERED), NULL, L(BOOLEANS)},
                         {3, 4, 1, L(U16, U32, U64), L(ORDERED, LO, LS, HI, HS), NULL, L(BOOLEANS)},
                         {3, 4, 1, L(F32, HALVES), L(ORDERED, UNORDERED), NULL, L(BOOLEANS, FTZ)},
                         {3, 4, 1, L(F64, BHALVES), L(ORDERED, UNORDERED), NULL, L(BOOLEANS)}),
    [SG_OP_SET] = FORMS({3, 4, 2, L(INT16, INT32, F32, HALVES, BHALVES), L(COMPARISONS), NULL,
                         L(VALUES, HALVES, BHALVES, BOOLEANS, FTZ)}),
    [SG_OP_SELP] = FORMS({4, 4, 1, L(VALUES), NULL, NULL, NULL}),
    [SG_OP_SLCT] = FORMS({4, 4, 2, L(VALUES), NULL, NULL, L(S32, F32, FTZ)}),
    [SG_OP_TESTP] = FORMS({2, 2, 1, L(F32, F64),
                           L(FINITE, INFINITE, NUMBER, NOTANUMBER, NORMAL, SUBNORMAL), NULL, NULL}),
    [SG_OP_MOV] = FORMS({2, 2, 1, L(PRED, VALUES), NULL, NULL, NULL}),
    [SG_OP_CVTA] = FORMS(
        {2, 2, 1, L(U64), L(GLOBAL, SHARED_, LOCAL, CONST, PARAM, PARAM__ENTRY), NULL, L(TO)}),
    [SG_OP_ISSPACEP] =
        FORMS({2, 2, 0, NULL, L(GLOBAL, SHARED_, LOCAL, CONST, PARAM, PARAM__ENTRY), NULL, NULL}),
    [SG_OP_MAPA] = FORMS({3, 3, 1, L(U32, U64), NULL, NULL, L(SHARED__CLUSTER)}),
    [SG_OP_GETCTARANK] = FORMS({2, 2, 1, L(U32, U64), NULL, NULL, L(SHARED__CLUSTER)}),
    [SG_OP_LD] = form_ld,
    [SG_OP_LDU] = FORMS({2, 2, 1, L(MEMORY), NULL, NULL, L(GLOBAL, VECTORS)}),
    [SG_OP_ST] = form_st,
    [SG_OP_CREATEPOLICY] = FORMS(
        {1, 4, 1, L(B64), L(FRACTIONAL, RANGE, CVT), NULL,
         L(GLOBAL, L2, L2__EVICT_LAST, L2__EVICT_NORMAL, L2__EVICT_FIRST, L2__EVICT_UNCHANGED)}),
    [SG_OP_PREFETCH] = FORMS(
        {1, 1, 0, NULL, NULL, NULL, L(GLOBAL, LOCAL, L1, L2, L2__EVICT_LAST, L2__EVICT_NORMAL)}),
    [SG_OP_PREFETCHU] = FORMS({1, 1, 0, NULL, L(L1), NULL, NULL}),
    [SG_OP_APPLYPRIORITY] = FORMS({2, 2, 0, NULL, L(L2__EVICT_NORMAL), NULL, L(GLOBAL)}),
    [SG_OP_ATOM] = FORMS({2, 4, 1, L(BITS, INT32, INT64, F32, F64),
                          L(ADD, MIN, MAX, INC, DEC, AND, OR, XOR, EXCH, CAS), NULL,
                          L(ORDERINGS, SCOPES, GLOBAL, SHARED_, L2__CACHE_HINT, V2, V4)},
                         {3, 3, 1, L(HALVES, BHALVES), L(ADD, MIN, MAX), L(NOFTZ),
                          L(ORDERINGS, SCOPES, GLOBAL, SHARED_, L2__CACHE_HINT, V2, V4, V8)}),
    [SG_OP_RED] = FORMS({2, 2, 1, L(B32, B64, INT32, INT64, F32, F64),
                         L(ADD, MIN, MAX, INC, DEC, AND, OR, XOR), NULL,
                         L(RELAXED, RELEASE, SCOPES, GLOBAL, SHARED_, L2__CACHE_HINT, V2, V4)},
                        {2, 2, 1, L(HALVES, BHALVES), L(ADD, MIN, MAX), L(NOFTZ),
                         L(RELAXED, RELEASE, SCOPES, GLOBAL, SHARED_, L2__CACHE_HINT, V2, V4, V8)}),
    [SG_OP_SHFL] = FORMS({4, 5, 1, L(B32), L(UP, DOWN, BFLY, IDX), NULL, L(SYNC)}),
    [SG_OP_VOTE] = FORMS({2, 3, 1, L(PRED), L(ALL, ANY, UNI), NULL, L(SYNC)},
                         {2, 3, 1, L(B32), L(BALLOT), NULL, L(SYNC)}),
    [SG_OP_MATCH] = FORMS({3, 3, 1, L(B32, B64), L(ANY, ALL), L(SYNC), NULL}),
    [SG_OP_REDUX] = FORMS({3, 3, 1, L(INT32), L(ADD, MIN, MAX), L(SYNC), NULL},
                          {3, 3, 1, L(B32), L(AND, OR, XOR), L(SYNC), NULL},
                          {3, 3, 1, L(F32), L(MIN, MAX), L(SYNC), L(ABS, NAN)}),
    [SG_OP_ACTIVEMASK] = FORMS({1, 1, 1, L(B32), NULL, NULL, NULL}),
    [SG_OP_ELECT] = FORMS({2, 2, 0, NULL, L(SYNC), NULL, NULL}),
    [SG_OP_CP] = FORMS(
        {0, 6, 0, NULL, L(ASYNC), NULL,
         L(CA, CG, SHARED_, GLOBAL, L2, L2__CACHE_HINT, L2__64B, L2__128B, L2__256B, COMMIT_GROUP,
           WAIT_GROUP, WAIT_ALL, BULK, BULK_GROUP, READ, PREFETCH, MBARRIER__COMPLETE_TX__BYTES)},
        {1, 1, 1, L(B64), L(ASYNC), L(MBARRIER), L(ARRIVE, NOINC, SHARED_)}),
    [SG_OP_MBARRIER] = FORMS(
        {1, 4, 1, L(B64), L(INIT, INVAL, ARRIVE, ARRIVE_DROP, TEST_WAIT, TRY_WAIT, PENDING_COUNT),
         NULL, L(EXPECT_TX, NOCOMPLETE, PARITY, SHARED_, ACQUIRE, RELEASE, RELAXED, CTA, CLUSTER)},
        {2, 2, 1, L(B64), L(EXPECT_TX, COMPLETE_TX), NULL, L(SHARED_, RELAXED, CTA, CLUSTER)}),
    [SG_OP_MMA] = FORMS({4, 4, 4, L(TENSOR_TYPES), L(SHAPES), L(SYNC),
                         L(TENSOR_TYPES, ALIGNED, ROW, COL, SATFINITE, XOR, AND, POPC, ROUNDINGS)}),
    [SG_OP_WMMA] =
        FORMS({4, 4, 0, L(TENSOR_TYPES), L(SHAPES), L(MMA),
               L(TENSOR_TYPES, SYNC, ALIGNED, ROW, COL, SATFINITE, XOR, AND, POPC, ROUNDINGS)},
              {2, 3, 1, L(TENSOR_TYPES), L(SHAPES), L(LOAD, STORE),
               L(A, B, C, D, SYNC, ALIGNED, ROW, COL, GLOBAL, SHARED_)}),
    [SG_OP_LDMATRIX] = form_matrix,
    [SG_OP_STMATRIX] = form_matrix,
    [SG_OP_MOVMATRIX] = form_matrix,
    [SG_OP_BRA] = form_uniform,
    [SG_OP_BRX] = FORMS({2, 2, 0, NULL, L(IDX), NULL, L(UNI)}),
    [SG_OP_CALL] = FORMS({3, 4, 0, NULL, NULL, NULL, L(UNI)}),
    [SG_OP_RET] = form_uniform,
    [SG_OP_EXIT] = FORMS({0, 0, 0, NULL, NULL, NULL, NULL}),
    [SG_OP_TRAP] = FORMS({0, 0, 0, NULL, NULL, NULL, NULL}),
    [SG_OP_BRKPT] = FORMS({0, 0, 0, NULL, NULL, NULL, NULL}),
    [SG_OP_BAR] = form_bar,
    [SG_OP_BARRIER] = form_bar,
    [SG_OP_MEMBAR] = form_fence,
    [SG_OP_FENCE] = form_fence,
    [SG_OP_NANOSLEEP] = FORMS({1, 1, 1, L(U32), NULL, NULL, NULL}),
    [SG_OP_PMEVENT] = FORMS({1, 1, 0, NULL, NULL, NULL, L(MASK)}),
    [SG_OP_GRIDDEPCONTROL] = FORMS({0, 0, 0, NULL, L(LAUNCH_DEPENDENTS, WAIT), NULL, NULL}),
    [SG_OP_SETMAXNREG] = FORMS({1, 1, 1, L(U32), L(INC, DEC), L(SYNC), L(ALIGNED)}),
    [SG_OP_VADD] = form_video,
    [SG_OP_VSUB] = form_video,
    [SG_OP_VABSDIFF] = form_video,
    [SG_OP_VMIN] = form_video,
    [SG_OP_VMAX] = form_video,
    [SG_OP_VSHL] = form_video_shift,
    [SG_OP_VSHR] = form_video_shift,
    [SG_OP_VSET] = form_video_set,
    [SG_OP_VMAD] = FORMS({4, 4, 3, L(INT32), NULL, NULL, L(INT32, SAT, SHR7, SHR15, PO)}),
    [SG_OP_VADD2] = form_video_simd,
    [SG_OP_VSUB2] = form_video_simd,
    [SG_OP_VABSDIFF2] = form_video_simd,
    [SG_OP_VMIN2] = form_video_simd,
    [SG_OP_VMAX2] = form_video_simd,
    [SG_OP_VAVRG2] = form_video_simd,
    [SG_OP_VSET2] = form_video_set_simd,
    [SG_OP_VADD4] = form_video_simd,
    [SG_OP_VSUB4] = form_video_simd,
    [SG_OP_VABSDIFF4] = form_video_simd,
    [SG_OP_VMIN4] = form_video_simd,
    [SG_OP_VMAX4] = form_video_simd,
    [SG_OP_VAVRG4] = form_video_simd,
    [SG_OP_VSET4] = form_video_set_simd,
};

/* At most one of each; copies and conversions have their own rules. */
static const list exclusive[] = {L(ROUNDINGS, RNA, RNI, RZI, RMI, RPI, APPROX, FULL),
                                 L(LO, HI, WIDE),
                                 L(SAT, CC, RELU),
                                 L(SPACES),
                                 L(V2, V4, V8),
                                 L(BOOLEANS),
                                 L(F4E, B4E, RC8, ECL, ECR, RC16),
                                 L(SHR7, SHR15, PO),
                                 L(X1, X2, X4)};

static bool in_list(list l, uint16_t m)
{
    for (; l != NULL && *l != 0; l++)
        if (*l == m)
            return true;
    return false;
}

static unsigned count_in(const struct sg_ptx_insn *p, list l)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->nmods; i++)
        n += in_list(l, p->mods[i]);
    return n;
}

static bool is_type(uint16_t m)
{
    return m != 0 && m <= S2F6X2;
}

/* The first modifier that @f does not know, or 0. */
static uint16_t unknown(const struct sg_ptx_insn *p, const struct form *f)
{
    bool first = true;

    for (unsigned i = 0; i < p->nmods; i++) {
        uint16_t m = p->mods[i];
        list types = first && is_type(m) ? f->types : NULL;
        first = first && !is_type(m);
        if (!in_list(types, m) && !in_list(f->one, m) && !in_list(f->second, m) &&
            !in_list(f->mods, m))
            return m;
    }
    return 0;
}

static bool fits(const struct sg_ptx_insn *p, const struct form *f)
{
    unsigned ntypes = 0, hint = p->op != SG_OP_CP && sg_ptx_has(p, SG_M_L2__CACHE_HINT);
    uint16_t first = 0;

    for (unsigned i = p->nmods; i-- > 0;)
        if (is_type(p->mods[i])) {
            first = p->mods[i];
            ntypes++;
        }
    return (f->types == NULL ? first == 0 : in_list(f->types, first)) &&
           p->nopnds >= f->min + hint && p->nopnds <= f->max + hint &&
           (f->ntypes == 0 || ntypes == f->ntypes) &&
           (f->one == NULL || count_in(p, f->one) == 1) &&
           (f->second == NULL || count_in(p, f->second) == 1);
}

/* Registers of predicates may be negated, others by vmad only; parts of registers are for video
 * instructions; vectors are used element by element. */
static bool operand(struct sg_dec *d, const struct sg_ptx_insn *p, const struct sg_ptx_opnd *o)
{
    bool video = p->op >= SG_OP_VABSDIFF && p->op <= SG_OP_VSUB4 && p->op != SG_OP_VOTE;

    switch (o->kind) {
    case SG_OPND_REG: {
        const struct sg_ptx_reg *r = &d->ptx->regs[o->reg];
        if (o->neg && r->type != SG_M_PRED && p->op != SG_OP_VMAD)
            return sg_dec_refuse(d, "'-' before '%s'", r->name);
        if (o->half != 0 && !video)
            return sg_dec_refuse(d, "a part of '%s'", r->name);
        if (r->vec > 1 ? !o->has_comp : o->has_comp)
            return sg_dec_refuse(d, "elements of '%s'", r->name);
        return true;
    }
    case SG_OPND_SREG:
        return o->sreg != SG_SREG_CURRENT_GRAPH_EXEC ||
               sg_dec_refuse(d, "special register %s", sg_ptx_sreg_name(o->sreg));
    case SG_OPND_VEC:
    case SG_OPND_PAIR:
    case SG_OPND_ADDR:
        for (uint32_t i = 0; i < (o->kind == SG_OPND_VEC    ? o->n
                                  : o->kind == SG_OPND_PAIR ? 2
                                                            : 1);
             i++)
            if (!operand(d, p, &o->sub[i]))
                return false;
        return true;
    default:
        return true;
    }
}

static bool exclusions(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (p->op == SG_OP_CP || p->op == SG_OP_FENCE)
        return true;
    for (size_t i = 0; i < TB_ARRAY_LEN(exclusive); i++)
        if (count_in(p, exclusive[i]) > 1 && !(p->op == SG_OP_CVT && exclusive[i][0] == SAT))
            return sg_dec_refuse(d, "modifiers that exclude each other");
    return true;
}

bool sg_insn_legal(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    const struct form *f = forms[p->op];
    uint16_t odd = 0;

    if (f == NULL)
        return sg_dec_refuse(d, "not supported");
    while (f->max != 0xff && !(fits(p, f) && (odd = unknown(p, f)) == 0))
        f++;
    if (f->max == 0xff)
        return odd != 0 ? sg_dec_refuse(d, "modifier '.%s' is not supported",
                                        sg_ptx_mod_name((enum sg_ptx_mod)odd))
                        : sg_dec_refuse(d,
                                        "not supported with these types, modifiers and %u "
                                        "operands",
                                        p->nopnds);
    for (unsigned i = 0; i < p->nopnds; i++)
        if (!operand(d, p, &p->opnds[i]))
            return false;
    return exclusions(d, p);
}
