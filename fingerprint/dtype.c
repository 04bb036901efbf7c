/* Element types: names, sizes, one element as a double. */
#include <string.h>

#include "fingerprint/fingerprint.h"
#include "fingerprint/fp_convert.h"

static const struct {
    char name[8];
    unsigned size;
} types[TB_DT_COUNT] = {
    [TB_DT_U8] = {"u8", 1},      [TB_DT_I8] = {"i8", 1},         [TB_DT_I16] = {"i16", 2},
    [TB_DT_I32] = {"i32", 4},    [TB_DT_I64] = {"i64", 8},       [TB_DT_F16] = {"f16", 2},
    [TB_DT_F32] = {"f32", 4},    [TB_DT_F64] = {"f64", 8},       [TB_DT_BF16] = {"bf16", 2},
    [TB_DT_BOOL] = {"bool", 1},  [TB_DT_C32] = {"c32", 4},       [TB_DT_C64] = {"c64", 8},
    [TB_DT_C128] = {"c128", 16}, [TB_DT_F8E4M3] = {"f8e4m3", 1}, [TB_DT_F8E5M2] = {"f8e5m2", 1},
    [TB_DT_U16] = {"u16", 2},    [TB_DT_U32] = {"u32", 4},       [TB_DT_U64] = {"u64", 8},
};

static bool known(enum tb_dtype dt)
{
    return (unsigned)dt > TB_DT_UNKNOWN && (unsigned)dt < TB_DT_COUNT;
}

const char *tb_dtype_name(enum tb_dtype dt)
{
    return known(dt) ? types[dt].name : "?";
}

enum tb_dtype tb_dtype_from_name(const char *name, size_t len)
{
    for (unsigned k = 1; k < TB_DT_COUNT; k++)
        if (strlen(types[k].name) == len && memcmp(types[k].name, name, len) == 0)
            return (enum tb_dtype)k;
    return TB_DT_UNKNOWN;
}

unsigned tb_dtype_size(enum tb_dtype dt)
{
    return known(dt) ? types[dt].size : 0;
}

#define READ(type, p)                                                                              \
    __extension__({                                                                                \
        type read_;                                                                                \
        memcpy(&read_, p, sizeof read_);                                                           \
        read_;                                                                                     \
    })

double tb_dtype_to_double(enum tb_dtype dt, const void *elem)
{
    switch (dt) {
    case TB_DT_U8:
        return READ(uint8_t, elem);
    case TB_DT_I8:
        return READ(int8_t, elem);
    case TB_DT_I16:
        return READ(int16_t, elem);
    case TB_DT_I32:
        return READ(int32_t, elem);
    case TB_DT_I64:
        return (double)READ(int64_t, elem);
    case TB_DT_F16:
    case TB_DT_C32:
        return fp_f16(READ(uint16_t, elem));
    case TB_DT_F32:
    case TB_DT_C64:
        return (double)READ(float, elem);
    case TB_DT_F64:
    case TB_DT_C128:
        return READ(double, elem);
    case TB_DT_BF16:
        return fp_bf16(READ(uint16_t, elem));
    case TB_DT_BOOL:
        return READ(uint8_t, elem) != 0;
    case TB_DT_F8E4M3:
        return fp_f8e4m3(READ(uint8_t, elem));
    case TB_DT_F8E5M2:
        return fp_f8e5m2(READ(uint8_t, elem));
    case TB_DT_U16:
        return READ(uint16_t, elem);
    case TB_DT_U32:
        return READ(uint32_t, elem);
    case TB_DT_U64:
        return (double)READ(uint64_t, elem);
    case TB_DT_UNKNOWN:
    case TB_DT_COUNT:
        break;
    }
    return 0;
}
