/* The library of the Python tap against a recorder that keeps what it is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fingerprint/fingerprint.h"
#include "recorder/pytap/pytap.h"

/* As _glue.py calls them; the library declares them where it defines them. */
int twinbit_tap_init(const struct tb_rec_api *api);
uint32_t twinbit_intern(const char *s);
void twinbit_module_push(uint32_t id);
void twinbit_module_pop(void);
void twinbit_suppress(int delta);
uint64_t twinbit_step_now(void);
void twinbit_step_end(int64_t step);
void twinbit_state_bytes(uint32_t name, const void *p, size_t n);

/* ---------------------------------------------------------------- a recorder */

#define MAX_ACCESS 16

static struct kept {
    char site[64][1024], range[64][1024], cover[2048];
    uint64_t site_key[64], range_key[64];
    uint32_t sites, ranges;
    struct tb_wire_event event;
    struct tb_wire_access access[MAX_ACCESS];
    uint64_t seq;
    unsigned events, covers, stops;
    char snapshot[256];
    unsigned snapshots;
} kept;

static struct tb_wire_config config;

static struct tb_rec_thread *fake_self(void)
{
    return (struct tb_rec_thread *)&kept;
}

static uint32_t fake_generation(void)
{
    return 0;
}

static uint64_t fake_seq(void)
{
    return kept.seq;
}

static uint32_t find(const uint64_t *keys, uint32_t n, uint64_t key)
{
    for (uint32_t i = 0; i < n; i++)
        if (keys[i] == key)
            return i + 1;
    return 0;
}

static uint32_t site_find(struct tb_rec_thread *t, uint64_t key)
{
    (void)t;
    return find(kept.site_key, kept.sites, key);
}

static uint32_t range_find(struct tb_rec_thread *t, uint64_t key)
{
    (void)t;
    return find(kept.range_key, kept.ranges, key);
}

static uint32_t site_define(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n)
{
    (void)t;
    assert_true(kept.sites < 64 && n < 1024);
    kept.site_key[kept.sites] = key;
    memcpy(kept.site[kept.sites], text, n);
    kept.site[kept.sites][n] = 0;
    return ++kept.sites;
}

static uint32_t range_define(struct tb_rec_thread *t, uint64_t key, const char *text, size_t n)
{
    (void)t;
    assert_true(kept.ranges < 64 && n < 1024);
    kept.range_key[kept.ranges] = key;
    memcpy(kept.range[kept.ranges], text, n);
    kept.range[kept.ranges][n] = 0;
    return ++kept.ranges;
}

static uint64_t fake_event(struct tb_rec_thread *t, struct tb_wire_event *head,
                           const struct tb_wire_access *access)
{
    (void)t;
    assert_true(head->accesses <= MAX_ACCESS);
    kept.event = *head;
    if (head->accesses)
        memcpy(kept.access, access, head->accesses * sizeof(*access));
    kept.events++;
    return kept.seq++;
}

static void fake_cover(struct tb_rec_thread *t, unsigned severity, uint64_t seq, const char *kind,
                       const char *subject, const char *detail, uint64_t count)
{
    (void)t;
    (void)seq;
    (void)count;
    kept.covers++;
    (void)snprintf(kept.cover, sizeof(kept.cover), "%u %s: %s: %s", severity, kind, subject,
                   detail);
}

static void *snapshot_open(struct tb_rec_thread *t, uint64_t bytes, void **handle)
{
    (void)t;
    *handle = &kept;
    return bytes <= sizeof(kept.snapshot) ? kept.snapshot : NULL;
}

static void snapshot_send(struct tb_rec_thread *t, void *handle, uint64_t seq, uint32_t access)
{
    (void)t;
    (void)seq;
    (void)access;
    assert_ptr_equal(handle, &kept);
    kept.snapshots++;
}

static void fake_stop(const char *why)
{
    assert_non_null(why);
    kept.stops++;
}

static struct tb_fp_leaf xxh128(const void *src, size_t n)
{
    return tb_fp_leaf_hash(src, n);
}

static uint64_t alloc_new(void)
{
    static uint64_t drawn;

    return ++drawn;
}

static const struct tb_rec_api api = {
    .version = TB_REC_API_VERSION,
    .size = sizeof(api),
    .config = &config,
    .self = fake_self,
    .generation = fake_generation,
    .seq = fake_seq,
    .site_find = site_find,
    .site_define = site_define,
    .range_find = range_find,
    .range_define = range_define,
    .event = fake_event,
    .cover = fake_cover,
    .snapshot_open = snapshot_open,
    .snapshot_send = snapshot_send,
    .stop = fake_stop,
    .alloc_new = alloc_new,
    .fp_host_pool = tb_fp_host_pool,
    .fp_strided = tb_fp_strided,
    .xxh128 = xxh128,
};

/* ---------------------------------------------------------------- operator calls */

static float values[6] = {1, 2, 3, 4, 5, 6};

static size_t put(int64_t *w, char mode, const char *name, const float *data, uint64_t storage,
                  bool transposed)
{
    const int64_t dims[] = {transposed ? 3 : 2, transposed ? 2 : 3, 1, 3};
    size_t n = transposed ? 4 : 2;

    w[0] = mode | TB_DT_F32 << 8 | 4 << 16 | 2 << 24;
    w[0] |= transposed ? 0 : (int64_t)TB_PT_CONTIGUOUS << 32;
    w[1] = twinbit_intern(name);
    w[2] = w[4] = (int64_t)(uintptr_t)data;
    w[3] = (int64_t)storage;
    w[5] = sizeof(values);
    w[6] = 0;
    memcpy(w + TB_PT_WORDS, dims, n * sizeof(*w));
    return TB_PT_WORDS + n;
}

static struct tb_pt_call call_of(const char *op, const char *args)
{
    return (struct tb_pt_call){.op = twinbit_intern(op),
                               .kind = TB_EV_OP,
                               .node_seq = -1,
                               .next_seq = -1,
                               .args = (int64_t)(uintptr_t)args,
                               .args_size = (int64_t)strlen(args)};
}

/* One call that reads @in and writes @out, at @node */
static void one(struct tb_pt_call call, uint64_t in, const float *read, uint64_t out,
                float *written)
{
    int64_t w[64];
    size_t n = put(w, 'r', "self", read, in, false);

    assert_int_equal(twinbit_op_begin(&call, w, n), 1);
    n = put(w, 'w', "out", written, out, false);
    twinbit_op_end(w, n, 0);
}

static const char *last_range(void)
{
    return kept.event.range ? kept.range[kept.event.range - 1] : "";
}

static void test_pytap__a_call_is_an_event(void **state)
{
    int64_t w[64];
    struct tb_pt_call call = call_of("aten::t_copy", "1 [2");
    float out[6] = {0};

    (void)state;
    size_t n = put(w, 'r', "self", values, 64, true);
    assert_int_equal(twinbit_op_wants(), TB_PT_RECORD);
    assert_int_equal(twinbit_op_begin(&call, w, n), 1);
    memcpy(out, values, sizeof(out));
    n = put(w, 'w', "out", out, 128, false);
    twinbit_op_end(w, n, 0);
    assert_string_equal(kept.site[kept.event.site - 1],
                        "torch\naten::t_copy\nr f32 cpu [3,2] [1,3] self\nw f32 cpu [2,3] - out\n");
    struct tb_fp want = tb_fp_host(out, sizeof(out), 0);
    assert_int_equal(kept.access[1].fp_a, want.a);
    assert_int_equal(kept.access[1].fp_b, want.b);
    assert_int_equal(kept.access[1].alloc >> 48, TB_FP_BYTES);
    assert_int_equal(kept.access[0].alloc >> 48, TB_FP_ROWMAJOR); /* the host's: nobody wrote it */
    assert_int_not_equal(kept.event.args, 0);
    assert_string_equal(last_range(), "forward\t\t");
}

static void test_pytap__arguments_are_hashed(void **state)
{
    float out[6] = {0};

    (void)state;
    one(call_of("aten::mul", "2.0"), 64, values, 192, out);
    uint64_t args = kept.event.args;
    one(call_of("aten::mul", "2.5"), 64, values, 192, out);
    assert_int_not_equal(kept.event.args, args);
    one(call_of("aten::mul", "2.0"), 64, values, 192, out);
    assert_int_equal(kept.event.args, args);
}

static void test_pytap__written_bytes_are_not_hashed_when_read(void **state)
{
    float out[6] = {0};

    (void)state;
    one(call_of("aten::mul", ""), 64, values, 256, out);
    one(call_of("aten::mul", ""), 256, out, 320, values);
    assert_int_equal(kept.access[0].alloc >> 48, TB_FP_NONE);
    uint64_t alloc = kept.access[0].alloc & TB_ALLOC_MASK;
    twinbit_storage_drop(256); /* another storage with the same identity is another allocation */
    one(call_of("aten::mul", ""), 256, out, 320, values);
    assert_int_equal(kept.access[0].alloc >> 48, TB_FP_BYTES);
    assert_int_not_equal(kept.access[0].alloc & TB_ALLOC_MASK, alloc);
}

static void test_pytap__gradients_belong_to_their_forward_module(void **state)
{
    struct tb_pt_call call = call_of("aten::mm", "");
    float out[6] = {0};

    (void)state;
    call.next_seq = 5;
    one(call, 64, values, 128, out);
    twinbit_module_push(twinbit_intern("model"));
    twinbit_module_push(twinbit_intern("model.fc"));
    call.next_seq = 6; /* node 5 */
    one(call, 64, values, 128, out);
    assert_string_equal(last_range(), "forward\tmodel.fc\t");
    twinbit_module_pop();
    call.next_seq = 7; /* node 6 */
    one(call, 64, values, 128, out);
    twinbit_module_pop();
    call.node = 77;
    call.node_seq = 5;
    call.node_name = twinbit_intern("MmBackward0");
    one(call, 64, values, 128, out);
    assert_string_equal(last_range(), "backward\tmodel.fc\tMmBackward0");
    assert_true(kept.event.flags & TB_EVF_BACKWARD);
    call.node = 78;
    call.node_seq = 6;
    one(call, 64, values, 128, out);
    assert_string_equal(last_range(), "backward\tmodel\tMmBackward0");
    twinbit_module_push(twinbit_intern("model.again")); /* a recomputation in a backward pass */
    call.node = 79;
    one(call, 64, values, 128, out);
    assert_string_equal(last_range(), "backward\tmodel.again\tMmBackward0");
    twinbit_module_pop();
    one(call, 64, values, 128, out);
    assert_string_equal(last_range(), "backward\tmodel\tMmBackward0");
}

static void test_pytap__inputs_find_a_write_that_nobody_made(void **state)
{
    float a[6] = {0}, b[6] = {0};

    (void)state;
    one(call_of("aten::zeros_like", ""), 64, values, 512, a);
    unsigned before = kept.covers;
    one(call_of("aten::add", ""), 512, a, 576, b);
    assert_int_equal(kept.covers, before);
    a[3] = 7;
    one(call_of("aten::add", ""), 512, a, 576, b);
    assert_int_equal(kept.covers, before + 1);
    assert_non_null(strstr(kept.cover, "2 unseen writer: aten::zeros_like: allocation"));
    assert_non_null(strstr(kept.cover, "found by aten::add"));
}

static void test_pytap__an_empty_tensor_that_is_read_is_told(void **state)
{
    int64_t w[64];
    float a[6] = {0}, b[6] = {0};

    (void)state;
    size_t n = put(w, 'w', "", a, 640, false);
    twinbit_op_empty(w, n, 0);
    one(call_of("aten::add", ""), 640, a, 704, b);
    assert_non_null(strstr(kept.cover, "1 uninitialised read: aten::add"));
    n = put(w, 'w', "", a, 768, false);
    twinbit_op_empty(w, n, 0);
    twinbit_op_empty(w, n, 1); /* torch.tensor() has filled it */
    one(call_of("aten::add", ""), 768, a, 704, b);
    assert_non_null(strstr(kept.cover, "0 origin: host construction"));
}

static void test_pytap__silent_and_failed_calls(void **state)
{
    struct tb_pt_call call = call_of("aten::reshape", "");
    int64_t w[64];
    size_t n = put(w, 'r', "self", values, 64, false);

    (void)state;
    unsigned before = kept.events;
    assert_int_equal(twinbit_op_begin(&call, w, n), 1);
    twinbit_op_end(w, 0, TB_PT_SILENT);
    assert_int_equal(kept.events, before);
    assert_int_equal(twinbit_op_begin(&call, w, n), 1);
    twinbit_op_end(NULL, 0, TB_PT_FAILED);
    assert_int_equal(kept.events, before + 1);
    assert_true(kept.event.flags & TB_EVF_FAILED);
    assert_int_equal(kept.event.accesses, 1);
    twinbit_op_end(NULL, 0, 0); /* without a begin: nothing */
    assert_int_equal(kept.events, before + 1);
}

static void test_pytap__cut_words_stop_the_recording(void **state)
{
    struct tb_pt_call call = call_of("aten::add", "");
    int64_t w[64];
    size_t n = put(w, 'r', "self", values, 64, true);

    (void)state;
    for (size_t cut = 1; cut < n; cut++) {
        unsigned before = kept.stops;
        assert_int_equal(twinbit_op_begin(&call, w, cut), 0);
        assert_int_equal(kept.stops, before + 1);
    }
}

static void test_pytap__numbers_and_generators(void **state)
{
    int64_t w[TB_PT_WORDS] = {'g' | (int64_t)TB_PT_CONTIGUOUS << 32};
    struct tb_pt_call call = call_of("aten::_local_scalar_dense", "");
    static uint8_t rng[5056];

    (void)state;
    w[1] = twinbit_intern("rng:cpu:default");
    w[2] = (int64_t)(uintptr_t)rng;
    w[5] = sizeof(rng);
    w[6] = 3;
    assert_int_equal(twinbit_op_begin(&call, w, TB_PT_WORDS), 1);
    int64_t h[TB_PT_WORDS] = {'h' | TB_DT_F64 << 8 | (int64_t)TB_PT_CONTIGUOUS << 32,
                              twinbit_intern("out"), 17, 18};
    twinbit_op_end(h, TB_PT_WORDS, 0);
    assert_int_equal(kept.access[0].alloc & TB_ALLOC_MASK, TB_ALLOC_RNG + 3);
    assert_int_equal(kept.access[1].fp_a, 17);
    assert_int_equal(kept.access[1].fp_b, 18);
    assert_string_equal(
        kept.site[kept.event.site - 1],
        "torch\naten::_local_scalar_dense\ng ? cpu [] - rng:cpu:default\nh f64 cpu [] - out\n");
    uint64_t fp = kept.access[0].fp_a;
    rng[5044] = 1; /* padding of at::CPUGeneratorImplState */
    assert_int_equal(twinbit_op_begin(&call, w, TB_PT_WORDS), 1);
    twinbit_op_end(h, TB_PT_WORDS, 0);
    assert_int_equal(kept.access[0].fp_a, fp);
    rng[24] = 1; /* its first word */
    assert_int_equal(twinbit_op_begin(&call, w, TB_PT_WORDS), 1);
    twinbit_op_end(h, TB_PT_WORDS, 0);
    assert_int_not_equal(kept.access[0].fp_a, fp);
}

static void test_pytap__steps_state_and_suppression(void **state)
{
    int64_t w[64];
    size_t n = put(w, 's', "param:fc weight", values, 64, false);

    (void)state;
    twinbit_state_tensors(w, n);
    assert_int_equal(kept.event.kind, TB_EV_STATE);
    assert_string_equal(kept.site[kept.event.site - 1],
                        "torch\nstate\ns f32 cpu [2,3] - param:fc weight\n");
    twinbit_state_bytes(twinbit_intern("rng:python"), "abc", 3);
    assert_int_equal(kept.access[0].fp_a, tb_fp_host("abc", 3, 0).a);
    assert_int_equal(kept.access[0].alloc >> 48, TB_FP_STATE);
    twinbit_step_end(41);
    assert_int_equal(kept.event.kind, TB_EV_STEP);
    assert_int_equal(kept.event.step, 41);
    assert_int_equal(twinbit_step_now(), 42);
    twinbit_suppress(1);
    assert_int_equal(twinbit_op_wants(), 0);
    twinbit_suppress(-1);
    assert_int_not_equal(twinbit_op_wants(), 0);
}

static void test_pytap__a_chosen_event_is_kept_whole(void **state)
{
    struct tb_pt_call call = call_of("aten::mm", "");
    float out[6] = {9, 8, 7, 6, 5, 4};

    (void)state;
    while (twinbit_step_now() < 3)
        twinbit_step_end(-1);
    twinbit_module_push(twinbit_intern("model"));
    unsigned before = kept.snapshots;
    one(call, 64, values, 128, out);
    assert_int_equal(kept.snapshots, before);
    one(call, 64, values, 128, out); /* the second of its name: #1 */
    assert_int_equal(kept.snapshots, before + 2);
    assert_memory_equal(kept.snapshot, out, sizeof(out));
    one(call, 64, values, 128, out);
    assert_int_equal(kept.snapshots, before + 2);
    twinbit_module_pop();
}

static void test_pytap__many_storages_and_names(void **state)
{
    char name[40];
    float out[6] = {0};
    uint32_t first = twinbit_intern("name 0");

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof(name), "name %u", i);
        (void)twinbit_intern(name);
        one(call_of("aten::mul", ""), 64, values, 4096 + 64u * i, out);
        if (i % 2)
            twinbit_storage_drop(4096 + 64u * i);
    }
    assert_int_equal(twinbit_intern("name 0"), first);
    assert_int_equal(twinbit_intern("name 19999"), twinbit_intern("name 19999"));
    one(call_of("aten::mul", ""), 4096, out, 64, values); /* still known: read without a hash */
    assert_int_equal(kept.access[0].alloc >> 48,
                     config.flags & TB_CFG_INPUTS ? TB_FP_BYTES : TB_FP_NONE);
}

static int start(void **state)
{
    (void)state;
    memset(&kept, 0, sizeof(kept));
    config.level = TB_LEVEL_OP;
    config.step_to = UINT64_MAX;
    (void)snprintf(config.snapshots, sizeof(config.snapshots), "%s",
                   "0/job.py/main/3/forward:model/aten::mm#1\nnonsense\n");
    return twinbit_tap_init(&api);
}

static int start_inputs(void **state)
{
    config.flags |= TB_CFG_INPUTS;
    config.snapshots[0] = 0;
    (void)state;
    return twinbit_tap_init(&api);
}

int main(void)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(test_pytap__a_call_is_an_event),
        cmocka_unit_test(test_pytap__arguments_are_hashed),
        cmocka_unit_test(test_pytap__written_bytes_are_not_hashed_when_read),
        cmocka_unit_test(test_pytap__gradients_belong_to_their_forward_module),
        cmocka_unit_test(test_pytap__silent_and_failed_calls),
        cmocka_unit_test(test_pytap__cut_words_stop_the_recording),
        cmocka_unit_test(test_pytap__numbers_and_generators),
        cmocka_unit_test(test_pytap__many_storages_and_names),
        cmocka_unit_test(test_pytap__a_chosen_event_is_kept_whole),
        cmocka_unit_test(test_pytap__steps_state_and_suppression),
    };
    const struct CMUnitTest inputs[] = {
        cmocka_unit_test(test_pytap__inputs_find_a_write_that_nobody_made),
        cmocka_unit_test(test_pytap__an_empty_tensor_that_is_read_is_told),
    };

    return cmocka_run_group_tests(plain, start, NULL) +
           cmocka_run_group_tests(inputs, start_inputs, NULL);
}
