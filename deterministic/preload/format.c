/* What the preloaded library and its readers share: checks of formats, hash. Needs nothing. */
#include <string.h>

#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"

static bool text_ends(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

bool tb_preload_config_good(const struct tb_preload_config *c)
{
    return c->magic == TB_PRELOAD_MAGIC && c->version == TB_PRELOAD_VERSION &&
           c->size == sizeof(*c) && c->entropy < TB_PRELOAD_MODES && c->time <= TB_PRELOAD_LOG &&
           c->listing < TB_PRELOAD_MODES && c->tempnames < TB_PRELOAD_MODES &&
           c->seeds < TB_PRELOAD_MODES && c->folder[0] == '/' &&
           text_ends(c->folder, sizeof(c->folder)) && text_ends(c->replay, sizeof(c->replay)) &&
           c->real[sizeof(c->real) - 1] == 0 && c->real[sizeof(c->real) - 2] == 0;
}

uint64_t tb_preload_hash(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint64_t word;

    h = tb_preload_mix64(h ^ n ^ 0xA0761D6478BD642Full);
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        h = tb_preload_mix64(h ^ word) + 0x9E3779B97F4A7C15ull;
    }
    word = 0;
    memcpy(&word, p, n);
    return tb_preload_mix64(h ^ word);
}

bool tb_preload_file_good(const void *bytes, uint64_t n)
{
    const struct tb_preload_file *f = bytes;

    return n >= sizeof(*f) && f->magic == TB_PRELOAD_LOG_MAGIC &&
           f->min_version <= TB_PRELOAD_LOG_VERSION && f->size >= sizeof(*f) &&
           f->size % TB_PRELOAD_LOG_ALIGN == 0;
}

static bool whole(const struct tb_preload_record *r, uint64_t offset, uint64_t room)
{
    uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);
    uint32_t size = (uint32_t)head;

    return size >= sizeof(*r) && size <= TB_PRELOAD_RECORD_MAX && size <= room &&
           size == tb_preload_size(r->payload) && head == tb_preload_head(r, offset, size);
}

const struct tb_preload_record *tb_preload_next(const void *bytes, uint64_t n, uint64_t *at)
{
    const uint64_t step = TB_PRELOAD_LOG_ALIGN;

    *at = (*at + step - 1) & ~(step - 1);
    for (; *at < n && n - *at >= sizeof(struct tb_preload_record); *at += step) {
        const struct tb_preload_record *r = (const void *)((const char *)bytes + *at);
        if (!whole(r, *at, n - *at))
            continue;
        *at += (uint32_t)r->head;
        return r;
    }
    return NULL;
}
