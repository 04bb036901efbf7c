/*
 * What stands in place of a seed that is the clock or the pid. A job may use one value twice, for
 * two parts of one data set or for two libraries: both get the same, so what was replaced is kept.
 * A table of the image, which a fork copies; what is used in another process first is not known
 * here.
 *
 * A value of the thread's own reading follows from the thread, so that threads which each read the
 * clock do not depend on who is first; seconds, and what came from elsewhere, from how many such
 * values the process had.
 */
#include "deterministic/preload/seeds.h"

#define KEPT 256u

/* Written under `lock`; `n` is stored last */
static struct {
    uint32_t lock, n;
    uint32_t of_process; /* among them: that follow from the process */
    struct {
        uint64_t asked, given;
    } slot[KEPT];
} others;

/* A thread that forks while another one holds it leaves it held in the child: nothing waits long.
 */
static bool hold(void)
{
    for (int i = 0; i < 10000; i++) {
        uint32_t free = 0;
        if (__atomic_compare_exchange_n(&others.lock, &free, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

static bool find(uint64_t asked, uint64_t *given)
{
    uint32_t n = __atomic_load_n(&others.n, __ATOMIC_ACQUIRE);

    for (uint32_t i = 0; i < n; i++)
        if (others.slot[i].asked == asked) {
            *given = others.slot[i].given;
            return true;
        }
    return false;
}

static uint64_t draw(const struct tb_pins_call *c, bool own, uint64_t at)
{
    uint64_t seed = 0;

    if (own) {
        tb_pins_fill(c, &seed, sizeof(seed), at * sizeof(seed));
        return seed;
    }
    seed = tb_preload_mix(tb_pins.config->seed, c->p->id);
    return tb_preload_mix(seed, 0x73656564ull + others.of_process);
}

uint64_t tb_pins_other_seed(const struct tb_pins_call *c, uint64_t x, unsigned bits, uint64_t at)
{
    bool own = tb_pins_is_own_reading(x, bits), held;
    uint64_t given;

    if (find(x, &given))
        return given;
    held = hold();
    if (held && find(x, &given)) { /* another thread was first */
        __atomic_store_n(&others.lock, 0, __ATOMIC_RELEASE);
        return given;
    }
    given = draw(c, own, at);
    if (held && others.n < KEPT) {
        others.slot[others.n].asked = x;
        others.slot[others.n].given = given;
        others.of_process += !own;
        __atomic_store_n(&others.n, others.n + 1, __ATOMIC_RELEASE);
    }
    if (held)
        __atomic_store_n(&others.lock, 0, __ATOMIC_RELEASE);
    return given;
}
