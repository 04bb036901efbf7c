/* Bits of the shadow: allocations, gaps behind them, copies of what was never written. */
#include "softgpu/mem/shadow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct sg_mem *mem;
static struct sg_shadow *shadow;

static int setup(void **state)
{
    struct tb_error err = {0};

    (void)state;
    return sg_mem_new(&mem, &err) != TB_OK || sg_shadow_new(mem, &shadow, &err) != TB_OK;
}

static int teardown(void **state)
{
    (void)state;
    sg_shadow_free(shadow);
    sg_mem_free(mem);
    return 0;
}

static uint64_t place(uint64_t granule)
{
    return mem->base + 2 * SG_MEM_WINDOW + granule * SG_MEM_GRANULE;
}

static void test_shadow__an_allocation_is_unwritten_and_ends_at_its_last_byte(void **state)
{
    uint64_t p = place(8);

    (void)state;
    sg_shadow_alloc(shadow, p, 700, false);
    assert_int_equal(sg_shadow_undefined(shadow, p, 700), 0);
    assert_int_equal(sg_shadow_in_gap(shadow, p, 700), 700);
    assert_int_equal(sg_shadow_in_gap(shadow, p + 698, 4), 2);
    assert_int_equal(sg_shadow_in_gap(shadow, p + 1023, 1), 0);
    assert_int_equal(sg_shadow_in_gap(shadow, p + 1024, 1), 1);
    sg_shadow_alloc(shadow, p, 1024, true);
    assert_int_equal(sg_shadow_undefined(shadow, p, 1024), 1024);
    assert_int_equal(sg_shadow_in_gap(shadow, p, 1024), 1024);
    sg_shadow_drop(shadow, p, 1024);
    assert_int_equal(sg_shadow_undefined(shadow, p + 5, 1), 0);
}

static void test_shadow__any_range_is_set_and_found_as_byte_by_byte(void **state)
{
    uint64_t p = place(64);
    uint8_t model[600];
    uint32_t x = 12345;

    (void)state;
    memset(model, 0, sizeof(model));
    for (unsigned round = 0; round < 2000; round++) {
        unsigned at, n, value;

        x = x * 1664525u + 1013904223u;
        at = (x >> 8) % 600;
        n = (x >> 20) % (601 - at);
        value = x >> 31;
        sg_shadow_define(shadow, p + at, n, value);
        memset(model + at, (int)value, n);
        x = x * 1664525u + 1013904223u;
        at = (x >> 8) % 600;
        n = (x >> 20) % (601 - at);
        const uint8_t *z = memchr(model + at, 0, n);
        assert_int_equal(sg_shadow_undefined(shadow, p + at, n),
                         z ? (unsigned)(z - model) - at : n);
    }
}

static void test_shadow__copies_carry_what_was_never_written(void **state)
{
    uint64_t p = place(128), q = place(256);
    uint8_t host[64];
    uint8_t model[2048];
    uint32_t x = 777;

    (void)state;
    for (unsigned i = 0; i < sizeof(model); i++) {
        x = x * 1664525u + 1013904223u;
        model[i] = x >> 30 != 0;
        sg_shadow_define(shadow, p + i, 1, model[i]);
    }
    for (unsigned round = 0; round < 300; round++) { /* overlapping ones too */
        unsigned from, to, n;

        x = x * 1664525u + 1013904223u;
        from = (x >> 4) % 1024;
        to = (x >> 16) % 1024;
        n = x % 1000;
        sg_shadow_copy(shadow, p + to, p + from, n);
        memmove(model + to, model + from, n);
    }
    for (unsigned i = 0; i < sizeof(model); i++)
        assert_int_equal(sg_shadow_undefined(shadow, p + i, 1), model[i]);
    sg_shadow_copy(shadow, q, (uintptr_t)host, sizeof(host));
    assert_int_equal(sg_shadow_undefined(shadow, q, 65), 64);
    assert_int_equal(sg_shadow_undefined(shadow, (uintptr_t)host, 64), 64);
}

static void test_shadow__large_allocations_cost_what_is_touched(void **state)
{
    uint64_t p = place(1 << 20), size = UINT64_C(40) << 30;

    (void)state;
    sg_shadow_alloc(shadow, p, size, false);
    sg_shadow_define(shadow, p + size - 3, 3, true);
    assert_int_equal(sg_shadow_undefined(shadow, p + size - 3, 3), 3);
    sg_shadow_define(shadow, p + (64 << 20), 64 << 20, true);
    sg_shadow_drop(shadow, p, size);
    assert_int_equal(sg_shadow_undefined(shadow, p + size - 3, 3), 0);
    assert_int_equal(sg_shadow_undefined(shadow, p + (100 << 20), 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shadow__an_allocation_is_unwritten_and_ends_at_its_last_byte),
        cmocka_unit_test(test_shadow__any_range_is_set_and_found_as_byte_by_byte),
        cmocka_unit_test(test_shadow__copies_carry_what_was_never_written),
        cmocka_unit_test(test_shadow__large_allocations_cost_what_is_touched),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
