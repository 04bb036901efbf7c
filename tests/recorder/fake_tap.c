/* A tap for fake_torch.c. */
#include "tests/recorder/fake_torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/recorder.h"

#define WIDE 5000

FAKE_EXPORT int twinbit_tap_init(const struct tb_rec_api *api);

static const struct tb_rec_api *R;
static uint64_t step;

static const char add_text[] = "torch\naten::add.Tensor\n"
                               "r f32 cpu [4] - self\nr f32 cpu [4] - other\nw f32 cpu [4] - out\n";

static uint32_t site(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n)
{
    uint32_t id = R->site_find(t, key);

    return id ? id : R->site_define(t, key, text, n);
}

static uint32_t wide_site(struct tb_rec_thread *t)
{
    static const char head[] = "torch\naten::_foreach_add_\n";
    uint32_t id = R->site_find(t, 2);
    char *text, *end;

    if (id || !(text = malloc(sizeof(head) + WIDE * 48)))
        return id;
    memcpy(text, head, sizeof(head));
    end = text + sizeof(head) - 1;
    for (int i = 0; i < WIDE; i++)
        end += sprintf(end, "w f32 cpu [4] - self.%d\n", i);
    id = R->site_define(t, 2, text, (size_t)(end - text));
    free(text);
    return id;
}

static uint32_t range(struct tb_rec_thread *t)
{
    static const char text[] = "forward\tblock.0\t";
    uint32_t id = R->range_find(t, 77);

    return id ? id : R->range_define(t, 77, text, sizeof(text) - 1);
}

static void fill(struct tb_wire_access *a, int n, uint64_t tag)
{
    for (int i = 0; i < n; i++)
        a[i] = (struct tb_wire_access){.alloc = (uint64_t)i + 1, .offset = tag & 0xff};
    float value[4] = {(float)tag, 1, 2, 3};
    struct tb_fp fp = R->fp_host_pool(value, sizeof(value), 0, NULL);
    a[n - 1].alloc |= (uint64_t)TB_FP_BYTES << 48;
    a[n - 1].fp_a = fp.a;
    a[n - 1].fp_b = fp.b;
}

static void extras_before(struct tb_rec_thread *t, int kind)
{
    float value[4] = {0, 1, 2, 3};
    struct tb_fp sums[TB_FP_MAP_MAX];

    if (kind == FAKE_MAPPED || kind == FAKE_HELD)
        R->map(t, 2, sizeof(value), sums, R->fp_map(value, sizeof(value), sums));
    while (kind == FAKE_HELD)
        pause();
    if (kind == FAKE_COVER)
        R->cover(t, 1, R->seq(), "subclass", "aten::add.Tensor", "a tensor that says nothing", 2);
}

static void snapshot(struct tb_rec_thread *t, uint64_t seq)
{
    void *handle;
    float *p = R->snapshot_open(t, 4 * sizeof(float), &handle);

    if (!p)
        return;
    for (int i = 0; i < 4; i++)
        p[i] = (float)i;
    R->snapshot_send(t, handle, seq, 2);
}

static void small_event(struct tb_rec_thread *t, uint64_t tag, int kind)
{
    struct tb_wire_access a[3];
    struct tb_wire_event e = {.kind = TB_EV_OP, .accesses = 3, .args = tag, .step = step};

    e.open = R->seq();
    e.flags = kind == FAKE_BACKWARD ? TB_EVF_BACKWARD : 0;
    e.site = site(t, 1, add_text, sizeof(add_text) - 1);
    e.range = range(t);
    fill(a, 3, tag);
    extras_before(t, kind);
    uint64_t seq = R->event(t, &e, a);
    if (kind == FAKE_SNAPSHOT)
        snapshot(t, seq);
    if (kind == FAKE_STACK)
        R->stack(t, seq, "train.py:3 step\n", 16);
}

static void step_event(struct tb_rec_thread *t, uint64_t tag)
{
    static const char text[] = "torch\nstep\n";
    struct tb_wire_event e = {.kind = TB_EV_STEP, .args = tag, .step = step++};

    e.open = R->seq();
    e.site = site(t, 3, text, sizeof(text) - 1);
    (void)R->event(t, &e, NULL);
}

static void wide_event(struct tb_rec_thread *t, uint64_t tag)
{
    static struct tb_wire_access a[WIDE];
    struct tb_wire_event e = {.kind = TB_EV_OP, .accesses = WIDE, .args = tag, .step = step};

    e.open = R->seq();
    e.site = wide_site(t);
    fill(a, WIDE, tag);
    (void)R->event(t, &e, a);
}

static void meta(struct tb_rec_thread *t)
{
    char *text = malloc(20001);

    if (!text)
        return;
    memset(text, 'x', 20000);
    text[20000] = 0;
    R->meta(t, "long", text);
    free(text);
}

static void on_op(uint64_t tag, int kind)
{
    struct tb_rec_thread *t;

    if (!R->enter())
        return;
    t = R->self();
    if (t && kind == FAKE_STEP)
        step_event(t, tag);
    else if (t && kind == FAKE_WIDE)
        wide_event(t, tag);
    else if (t && kind == FAKE_STOP)
        R->stop("the tap wants no more");
    else if (t && kind == FAKE_META)
        meta(t);
    else if (t)
        small_event(t, tag, kind);
    R->leave();
}

int twinbit_tap_init(const struct tb_rec_api *api)
{
    if (api->version != TB_REC_API_VERSION || api->size < sizeof(*api))
        return 1;
    R = api;
    fake_torch_observe(on_op);
    struct tb_rec_thread *t = api->self();
    if (t)
        api->meta(t, "fake.version", "1");
    return 0;
}
