#include "softgpu/mem/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1u << 20)

/* The linker sends the allocations of the code under test here: the nth one fails. */
static int fail_at;

static bool fails(void)
{
    return fail_at && --fail_at == 0;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

static int setup(void **state)
{
    struct sg_mem *m = NULL;

    if (sg_mem_new(&m, NULL))
        return -1;
    *state = m;
    return 0;
}

static int teardown(void **state)
{
    sg_mem_free(*state);
    return 0;
}

static uint64_t take(struct sg_mem *m, size_t size, size_t align)
{
    uint64_t addr = 0;

    assert_int_equal(sg_mem_reserve(m, size, align, 0, &addr, NULL), TB_OK);
    assert_int_equal(addr % align, 0);
    return addr;
}

static uint8_t *commit(struct sg_mem *m, uint64_t addr, size_t size)
{
    assert_int_equal(sg_mem_commit(m, addr, size, NULL), TB_OK);
    return (uint8_t *)(uintptr_t)addr;
}

static void test_mem__same_calls_give_the_same_offsets(void **state)
{
    struct sg_mem *a = *state, *b = NULL;
    static const size_t sizes[] = {1, 512, 513, 4096, 3 * MIB, 100, 7};

    assert_int_equal(sg_mem_new(&b, NULL), TB_OK);
    for (size_t i = 0; i < TB_ARRAY_LEN(sizes); i++)
        assert_int_equal(take(a, sizes[i], 512) - a->base, take(b, sizes[i], 512) - b->base);
    sg_mem_free(b);
}

static void test_mem__freed_addresses_are_used_again_lowest_first(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a = take(m, 4096, 512), b = take(m, 4096, 512), c = take(m, 4096, 512), d;

    assert_true(a < b && b < c);
    sg_mem_release(m, b);
    sg_mem_release(m, a);
    assert_int_equal(take(m, 8192, 512), a);
    assert_true(take(m, 512, 512) > c);
    sg_mem_release(m, a);
    assert_int_equal(sg_mem_reserve(m, 512, 512, b, &d, NULL), TB_OK);
    assert_int_equal(d, b);
    assert_int_equal(sg_mem_reserve(m, 512, 512, b, &d, NULL), TB_OK);
    assert_int_equal(d, a);
}

static void test_mem__behind_a_guarded_reservation_lies_nothing(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a = 0, b = 0;

    assert_int_equal(sg_mem_reserve_guarded(m, 1000, 512, &a, NULL), TB_OK);
    assert_int_equal(take(m, 512, 512), a + 1024 + SG_MEM_GUARD);
    assert_int_equal(sg_mem_commit(m, a, 1024 + 512, NULL), TB_ERR_ARG);
    memset(commit(m, a, 1000), 1, 1024);
    sg_mem_allow(m, a, 1000, 1, 1);
    assert_true(sg_mem_ok(m, a + 1023, 1, 1, true));
    assert_false(sg_mem_ok(m, a + 1024, 1, 1, true));
    sg_mem_release(m, a);
    assert_int_equal(sg_mem_reserve(m, 1024 + SG_MEM_GUARD, 512, a, &b, NULL), TB_OK);
    assert_int_equal(b, a);
    assert_int_equal(sg_mem_reserve_guarded(m, SIZE_MAX, 512, &b, NULL), TB_ERR_ARG);
    assert_int_equal(sg_mem_reserve_guarded(m, SIZE_MAX - 1023, 512, &b, NULL), TB_ERR_ARG);
}

static void test_mem__what_is_released_comes_back_zeroed(void **state)
{
    struct sg_mem *m = *state;
    static const size_t sizes[] = {1, 512, 1536, 4096, 5000, 3 * MIB + 512};

    take(m, 512, 512); /* so that blocks begin inside a page */
    for (size_t i = 0; i < TB_ARRAY_LEN(sizes); i++) {
        uint64_t addr = take(m, sizes[i], 512), next = take(m, 512, 512);
        uint8_t *p = commit(m, addr, sizes[i]), *q = commit(m, next, 512);

        memset(p, 0xa5, sizes[i]);
        memset(q, 0x5a, 512);
        sg_mem_release(m, addr);
        assert_int_equal(q[0], 0x5a);
        assert_int_equal(q[511], 0x5a);
        assert_int_equal(take(m, sizes[i], 512), addr);
        p = commit(m, addr, sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(p[k], 0);
        sg_mem_release(m, addr);
        sg_mem_release(m, next);
    }
}

static void test_mem__access_is_per_device_and_per_direction(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a = take(m, 1024, 512);

    assert_false(sg_mem_ok(m, a, 4, 1, false));
    sg_mem_allow(m, a, 1024, 3, 1);
    assert_true(sg_mem_ok(m, a, 4, 1, true));
    assert_true(sg_mem_ok(m, a, 4, 2, false));
    assert_false(sg_mem_ok(m, a, 4, 2, true));
    assert_true(sg_mem_ok(m, a + 1020, 4, 1, false));
    assert_false(sg_mem_ok(m, a + 1021, 4, 1, false));
    assert_true(sg_mem_ok_range(m, a, 1024, 1, true));
    assert_false(sg_mem_ok_range(m, a, 1025, 1, true));
    assert_true(sg_mem_ok_range(m, a, 0, 4, true));
    sg_mem_release(m, a);
    assert_false(sg_mem_ok(m, a, 1, 1, false));
}

static void test_mem__a_large_range_is_forgotten_whole(void **state)
{
    struct sg_mem *m = *state;
    size_t size = (size_t)256 * MIB;
    uint64_t low = take(m, 512, 512), a = take(m, size, 512), high = take(m, 512, 512);

    sg_mem_allow(m, low, 512, 1, 1);
    sg_mem_allow(m, a, size, 1, 1);
    sg_mem_allow(m, high, 512, 1, 1);
    assert_true(sg_mem_ok_range(m, low, size + 1024, 1, true));
    sg_mem_allow(m, a, size, 0, 0);
    for (uint64_t off = 0; off < size; off += 512 * 97)
        assert_false(sg_mem_ok(m, a + off, 1, 1, false));
    assert_false(sg_mem_ok(m, a + size - 1, 1, 1, true));
    assert_true(sg_mem_ok(m, low, 512, 1, true));
    assert_true(sg_mem_ok(m, high, 512, 1, true));
}

static void test_mem__windows_are_never_given_out(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a = 0;

    assert_int_equal(sg_mem_reserve(m, 512, 512, m->shared_window, &a, NULL), TB_OK);
    assert_true(a >= m->local_window + SG_MEM_WINDOW);
    assert_int_equal(m->shared_window % SG_MEM_WINDOW, 0);
    assert_false(sg_mem_ok(m, m->shared_window, 4, 0xff, false));
    assert_false(sg_mem_ok(m, m->local_window, 4, 0xff, true));
}

static void test_mem__one_memory_is_seen_at_two_addresses(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a = take(m, 4 * MIB, 2 * MIB), b = take(m, 2 * MIB, 2 * MIB);
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 2 * MIB), 0);
    assert_int_equal(sg_mem_map(m, a + 2 * MIB, 2 * MIB, fd, 0, NULL), TB_OK);
    assert_int_equal(sg_mem_map(m, b, 2 * MIB, fd, 0, NULL), TB_OK);
    *(int *)(uintptr_t)(b + 4096) = 42;
    assert_int_equal(*(int *)(uintptr_t)(a + 2 * MIB + 4096), 42);
    sg_mem_allow(m, b, 2 * MIB, 1, 1);
    sg_mem_unmap(m, b, 2 * MIB);
    assert_false(sg_mem_ok(m, b, 4, 1, false));
    assert_int_equal(*(int *)(uintptr_t)(a + 2 * MIB + 4096), 42);
    assert_int_equal(sg_mem_map(m, b + 1, 4096, fd, 0, NULL), TB_ERR_ARG);
    assert_int_equal(sg_mem_map(m, b + 2 * MIB, 4096, fd, 0, NULL), TB_ERR_ARG);
    sg_mem_release(m, a);
    sg_mem_release(m, b);
    close(fd);
}

static void test_mem__registered_host_memory_is_usable_by_its_devices(void **state)
{
    struct sg_mem *m = *state;
    static char heap[1000];
    uint64_t h = (uintptr_t)heap;

    assert_false(sg_mem_ok(m, h, 4, 1, false));
    assert_int_equal(sg_mem_register(m, h, 600, 1, NULL), TB_OK);
    assert_int_equal(sg_mem_register(m, h + 600, 400, 3, NULL), TB_OK);
    assert_int_equal(sg_mem_register(m, h + 599, 1, 1, NULL), TB_ERR_EXISTS);
    assert_int_equal(sg_mem_register(m, m->base, 1, 1, NULL), TB_ERR_EXISTS);
    assert_true(sg_mem_ok_range(m, h, 1000, 1, true));
    assert_false(sg_mem_ok_range(m, h, 1001, 1, true));
    assert_false(sg_mem_ok(m, h, 4, 2, false));
    assert_true(sg_mem_ok(m, h + 600, 400, 2, false));
    sg_mem_unregister(m, h);
    assert_false(sg_mem_ok(m, h, 4, 1, false));
    sg_mem_unregister(m, h + 600);
}

static void test_mem__what_is_dropped_stays_reserved(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a = take(m, 8192, 4096);
    uint8_t *p = commit(m, a, 8192);

    p[5000] = 1;
    sg_mem_allow(m, a, 8192, 1, 1);
    sg_mem_drop(m, a);
    assert_false(sg_mem_ok(m, a, 1, 1, false));
    assert_true(take(m, 512, 512) != a);
    assert_int_equal(commit(m, a, 8192)[5000], 0);
    sg_mem_drop(m, a + 512); /* not the beginning of a reservation: nothing happens */
}

static void test_mem__misuse_is_refused(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a = 77;

    assert_int_equal(sg_mem_reserve(m, 0, 512, 0, &a, NULL), TB_ERR_ARG);
    assert_int_equal(sg_mem_reserve(m, 1, 256, 0, &a, NULL), TB_ERR_ARG);
    assert_int_equal(sg_mem_reserve(m, 1, 1536, 0, &a, NULL), TB_ERR_ARG);
    assert_int_equal(sg_mem_reserve(m, SIZE_MAX, 512, 0, &a, NULL), TB_ERR_ARG);
    assert_int_equal(sg_mem_reserve(m, (size_t)1 << 60, 512, 0, &a, NULL), TB_ERR_NOMEM);
    assert_int_equal(a, 77);
    assert_int_equal(sg_mem_commit(m, m->base, 512, NULL), TB_ERR_ARG);
    sg_mem_release(m, m->base + 12345);
    sg_mem_free(NULL);
}

/* Seeded reservations of all sizes against their own list: none overlap, all come back. */
static void test_mem__reservations_never_overlap(void **state)
{
    struct sg_mem *m = *state;
    uint64_t addr[64] = {0}, size[64] = {0}, rng = 12345;
    uint64_t first = take(m, 512, 512);

    sg_mem_release(m, first);
    for (int step = 0; step < 4000; step++) {
        size_t i;

        rng = rng * 6364136223846793005u + 1442695040888963407u;
        i = (rng >> 33) % 64;
        if (addr[i]) {
            sg_mem_release(m, addr[i]);
            addr[i] = 0;
            continue;
        }
        size[i] = ((rng >> 40) % 9000) + 1;
        addr[i] = take(m, size[i], (size_t)512 << ((rng >> 60) & 3));
        for (size_t k = 0; k < 64; k++)
            assert_true(k == i || !addr[k] || addr[k] >= addr[i] + size[i] ||
                        addr[i] >= addr[k] + size[k]);
    }
    for (size_t i = 0; i < 64; i++)
        if (addr[i])
            sg_mem_release(m, addr[i]);
    assert_int_equal(take(m, 64 * MIB, 512), first);
}

static void test_mem__a_failed_allocation_at_any_point_leaves_nothing_behind(void **state)
{
    struct sg_mem *m = NULL;
    struct tb_error err = {0};
    int n = 0;

    (void)state;
    do {
        fail_at = ++n;
        assert_true(n < 100);
    } while (sg_mem_new(&m, &err) == TB_ERR_NOMEM);
    fail_at = 0;
    assert_true(n > 5);
    assert_non_null(m);
    sg_mem_free(m);
}

/* Many small holes: the list of gaps and the index of blocks have to grow. */
static void test_mem__what_fails_to_grow_can_be_tried_again(void **state)
{
    struct sg_mem *m = *state;
    uint64_t addr[200];
    unsigned failed = 0;

    for (int i = 0; i < 200; i++) {
        for (fail_at = 1; sg_mem_reserve(m, 512, 1024, 0, &addr[i], NULL) == TB_ERR_NOMEM;
             fail_at = 0)
            failed++;
        assert_true(i == 0 || addr[i] > addr[i - 1]);
    }
    fail_at = 0;
    assert_true(failed >= 2);
    for (int i = 0; i < 200; i += 2)
        sg_mem_release(m, addr[i]);
    for (int i = 0; i < 200; i += 2)
        assert_int_equal(take(m, 512, 1024), addr[i]);
}

/* Addresses of a strict device: the oldest come back when more than so many bytes are held. */
static void test_mem__quarantined_addresses_come_back_oldest_first(void **state)
{
    struct sg_mem *m = *state;
    uint64_t a, b, c;

    sg_mem_quarantine(m, 2 * MIB);
    a = take(m, MIB, 512);
    sg_mem_release(m, a);
    b = take(m, MIB, 512);
    assert_int_not_equal(b, a);
    sg_mem_release(m, b);
    c = take(m, MIB, 512);
    assert_true(c != a && c != b);
    sg_mem_release(m, c);
    assert_int_equal(take(m, MIB, 512), a);
    sg_mem_quarantine(m, 0);
    assert_int_equal(take(m, 2 * MIB, 512), b);
    sg_mem_quarantine(m, MIB); /* what is still held goes with the address space */
    sg_mem_release(m, a);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_mem__same_calls_give_the_same_offsets),
        T(test_mem__freed_addresses_are_used_again_lowest_first),
        T(test_mem__behind_a_guarded_reservation_lies_nothing),
        T(test_mem__what_is_released_comes_back_zeroed),
        T(test_mem__access_is_per_device_and_per_direction),
        T(test_mem__a_large_range_is_forgotten_whole),
        T(test_mem__windows_are_never_given_out),
        T(test_mem__one_memory_is_seen_at_two_addresses),
        T(test_mem__registered_host_memory_is_usable_by_its_devices),
        T(test_mem__what_is_dropped_stays_reserved),
        T(test_mem__quarantined_addresses_come_back_oldest_first),
        T(test_mem__misuse_is_refused),
        T(test_mem__reservations_never_overlap),
        T(test_mem__what_fails_to_grow_can_be_tried_again),
        cmocka_unit_test(test_mem__a_failed_allocation_at_any_point_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
