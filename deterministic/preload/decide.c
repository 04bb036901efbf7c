/*
 * Decisions that the job's interpreter makes: which future is handed out next, which worker's batch
 * came first. It writes them down here, and finds those of the run that is repeated; called by
 * python/twinbit/_decisions.py, and by nobody else. Format: log.h, TB_PRELOAD_STREAM.
 */
#include <errno.h>
#include <string.h>

#include "deterministic/preload/pins_internal.h"

/** twinbit_pins_decides - 0: decisions are not written down; 1: they are; 2: and repeated as well
 */
TB_EXPORT int twinbit_pins_decides(void);

/** twinbit_pins_thread - number of the calling thread, the same in a run that is repeated */
TB_EXPORT uint64_t twinbit_pins_thread(void);

/**
 * twinbit_pins_decide - write one down; 0: there was no room, which was counted
 * @what: its kind, and its marks shifted by 16 bits
 * @took: microseconds since its stream was opened
 */
TB_EXPORT int twinbit_pins_decide(unsigned what, uint64_t stream, uint32_t n, uint64_t took,
                                  const void *value, uint32_t bytes);

/**
 * twinbit_pins_decided - the record of the run that is repeated; NULL: it has none
 * @at: where to look first, 0 in the beginning; moved behind the record that was found
 */
TB_EXPORT const struct tb_preload_record *twinbit_pins_decided(unsigned kind, uint64_t stream,
                                                               uint32_t n, uint64_t *at);

int twinbit_pins_decides(void)
{
    const struct tb_pins_proc *p = tb_pins_self();

    if (!p || !(tb_pins.config->flags & TB_PRELOAD_DECISIONS))
        return 0;
    return tb_pins.config->replay[0] ? 2 : 1;
}

uint64_t twinbit_pins_thread(void)
{
    struct tb_pins_proc *p = tb_pins_self();

    if (p)
        tb_pins_thread(p);
    return p ? tb_pins_tls.thread : 0;
}

int twinbit_pins_decide(unsigned what, uint64_t stream, uint32_t n, uint64_t took,
                        const void *value, uint32_t bytes)
{
    struct tb_pins_proc *p = tb_pins_self();
    struct tb_preload_record *r = NULL;
    uint64_t offset = 0;

    if (!p || !tb_preload_is_decision((uint16_t)what))
        return 0;
    bool cut = bytes > tb_pins.config->value_limit;
    int saved = errno;
    tb_pins_thread(p);
    r = tb_pins_log_room(p, cut ? 0 : bytes, &offset);
    errno = saved;
    if (!r)
        return 0;
    r->kind = (uint16_t)what;
    r->marks = (uint16_t)((what >> 16) | tb_pins_tls.marks | (cut ? TB_PRELOAD_CUT : 0));
    r->thread = tb_pins_tls.thread;
    r->n = n;
    r->asked = stream;
    r->served = took;
    r->hash = tb_preload_hash(0, value, bytes);
    r->payload = cut ? 0 : bytes;
    memcpy(r + 1, value, r->payload);
    tb_pins_log_whole(r, offset);
    return 1;
}

static const struct tb_preload_record *look(const struct tb_pins_proc *p, uint64_t *at,
                                            uint64_t end, unsigned kind, uint64_t stream,
                                            uint32_t n)
{
    const struct tb_preload_record *r;

    while (*at < end && (r = tb_preload_next(p->replay, end, at)) != NULL)
        if (r->kind == kind && r->asked == stream && r->n == n)
            return r->payload == 0 || tb_preload_hash(0, r + 1, r->payload) == r->hash ? r : NULL;
    return NULL;
}

const struct tb_preload_record *twinbit_pins_decided(unsigned kind, uint64_t stream, uint32_t n,
                                                     uint64_t *at)
{
    const struct tb_pins_proc *p = tb_pins_self();
    const struct tb_preload_record *r;

    if (!p || !p->replay)
        return NULL;
    uint64_t from = *at ? *at : TB_PRELOAD_LOG_START, here = from;
    r = look(p, &here, p->replay_size, kind, stream, n);
    if (!r) {
        here = TB_PRELOAD_LOG_START;
        r = look(p, &here, from, kind, stream, n);
    }
    if (r)
        *at = here;
    return r;
}
