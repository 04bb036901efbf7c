/* x86-64: instructions of any length, at any address; Zydis decodes. */
#include <Zydis/Zydis.h>
#include <elf.h>
#include <emmintrin.h>

#include "collector/code.h"

/* 0F 31: rdtsc; 0F 01 F9: rdtscp; 0F C7 with a register: rdrand, rdseed. Prefixes come before. */
static bool may_be(const uint8_t *p)
{
    return p[0] == 0x0F && (p[1] == 0x31 || (p[1] == 0x01 && p[2] == 0xF9) ||
                            (p[1] == 0xC7 && (p[2] & 0xF0) == 0xF0));
}

/* Which of the 16 places from @p on have the first two bytes of a candidate? */
static unsigned places(const uint8_t *p)
{
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(p + 1));
    __m128i second = _mm_or_si128(_mm_cmpeq_epi8(b, _mm_set1_epi8(0x31)),
                                  _mm_or_si128(_mm_cmpeq_epi8(b, _mm_set1_epi8(0x01)),
                                               _mm_cmpeq_epi8(b, _mm_set1_epi8((char)0xC7))));

    return (unsigned)_mm_movemask_epi8(
        _mm_and_si128(_mm_cmpeq_epi8(a, _mm_set1_epi8(0x0F)), second));
}

static size_t next(const uint8_t *bytes, size_t n, size_t from)
{
    for (size_t i = from; i < n; i += 16)
        for (unsigned bits = places(bytes + i); bits; bits &= bits - 1) {
            size_t at = i + (size_t)__builtin_ctz(bits);
            if (at < n && may_be(bytes + at))
                return at;
        }
    return n;
}

static bool is_ours(ZydisMnemonic mnemonic, enum tb_code_kind *kind)
{
    bool random = mnemonic == ZYDIS_MNEMONIC_RDRAND || mnemonic == ZYDIS_MNEMONIC_RDSEED;

    *kind = random ? TB_CODE_RANDOM : TB_CODE_CLOCK;
    return random || mnemonic == ZYDIS_MNEMONIC_RDTSC || mnemonic == ZYDIS_MNEMONIC_RDTSCP;
}

static bool decode(const uint8_t *bytes, size_t n, bool end, size_t *at, size_t to,
                   enum tb_code_kind *kind)
{
    ZydisDecodedInstruction in;
    ZydisDecoder d;

    if (ZYAN_FAILED(ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
        ZYAN_FAILED(ZydisDecoderEnableMode(&d, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE))) {
        *at = to + 1;
        return false;
    }
    while (*at <= to && *at < n && (end || n - *at >= ZYDIS_MAX_INSTRUCTION_LENGTH)) {
        bool good =
            ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&d, NULL, bytes + *at, n - *at, &in));
        size_t length = good ? in.length : 1; /* data in the middle of code */
        if (good && *at + length > to) {
            *at += length;
            return is_ours(in.mnemonic, kind);
        }
        *at += length;
    }
    return false;
}

const struct tb_code_cpu tb_code_x86 = {EM_X86_64, next, decode};
