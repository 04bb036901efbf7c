/* What is wanted, and the way to the log, which is libtwinbit_pins.so's. */
#include <stdlib.h>
#include <string.h>

#include "deterministic/cublas/cublas.h"
#include "deterministic/cublas/cublas_internal.h"

/* Of libtwinbit_pins.so (preload/decide.c), which is preloaded with this library */
#define OF_PINS __attribute__((weak))
extern int twinbit_pins_decides(void) OF_PINS;
extern uint64_t twinbit_pins_thread(void) OF_PINS;
extern int twinbit_pins_decide(unsigned what, uint64_t stream, uint32_t n, uint64_t took,
                               const void *value, uint32_t bytes) OF_PINS;
extern const struct tb_preload_record *twinbit_pins_decided(unsigned kind, uint64_t stream,
                                                            uint32_t n, uint64_t *at) OF_PINS;

/* Written by begin() before anything of the job runs, then constant */
static struct tb_cublas_wanted wanted;

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (; text && *text; text += strcspn(text, ","), text += *text == ',')
        if (strncmp(text, word, n) == 0 && (text[n] == ',' || text[n] == 0))
            return true;
    return false;
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv(TB_CUBLAS_ENV);
    bool log =
        twinbit_pins_decides && twinbit_pins_thread && twinbit_pins_decide && twinbit_pins_decided;
    int decides = log && text ? twinbit_pins_decides() : 0;

    wanted.atomics = decides && has_word(text, TB_CUBLAS_ATOMICS);
    wanted.force = wanted.atomics && has_word(text, TB_CUBLAS_FORCE);
    wanted.heuristics = decides && has_word(text, TB_CUBLAS_HEURISTICS);
    wanted.replay = wanted.heuristics && decides == 2;
}

const struct tb_cublas_wanted *tb_cublas_wanted(void)
{
    return &wanted;
}

void tb_cublas_say(unsigned what, uint64_t stream, uint32_t n, const void *value, uint32_t bytes,
                   const void *pc)
{
    char text[512];
    size_t place = 0;

    if (bytes > sizeof(text) / 2)
        return;
    if (bytes) {
        memcpy(text, value, bytes);
        place = tb_cublas_place(pc, text + bytes, sizeof(text) - bytes);
    }
    (void)twinbit_pins_decide(what, stream, n, 0, text, bytes + (uint32_t)place);
}

uint64_t tb_cublas_thread(void)
{
    return twinbit_pins_thread();
}

const struct tb_preload_record *tb_cublas_recorded(unsigned kind, uint64_t stream, uint32_t n,
                                                   uint64_t *at)
{
    return twinbit_pins_decided(kind, stream, n, at);
}
