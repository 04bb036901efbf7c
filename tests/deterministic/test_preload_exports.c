/* What the preloaded library exports and imports, and what it does where it is not wanted */
#include "tests/recorder/exports.h"

#if __GLIBC_PREREQ(2, 36)
#define ARC4 "arc4random\narc4random_buf\narc4random_uniform\n"
#else
#define ARC4 ""
#endif

static const char exported[] =
    "_Exit\n_ZNSt13random_device9_M_getvalEv\n__open64_2\n__open_2\n__openat64_2\n__openat_2\n__"
    "pread64_"
    "chk\n__pread_chk\n__read_chk\n_exit\n" ARC4
    "clock_gettime\nclosedir\ndlclose\ndup\ndup2\ndup3\nerand48\n"
    "execl\nexecle\nexeclp\nexecv\nexecve\nexecveat\nexecvp\nexecvpe\nfcntl\nfcntl64\nfdopen\nfexec"
    "ve\nfileno\n"
    "fileno_"
    "unlocked\nfopen\nfopen64\ngetentropy\ngetpid\ngetrandom\ngettimeofday\nglob\nglob64\ninitstate"
    "\ninitstate_r\njrand48\nlcong48\nlcong48_r\nmkdtem"
    "p\n"
    "mkostemp\nmkostemp64\nmkostemps\nmkostemps64\nmkstemp\nmkstemp64\nmkstemps\nmkstemps64\n"
    "mktemp\nnrand48\nopen\nopen64\nopenat\nopenat64\nposix_spawn\nposix_"
    "spawnp\npread\npread64\npreadv\n"
    "preadv64\npthread_create\nrand_r\nread\nreaddir\nreaddir64\nreaddir64_r\nreaddir_"
    "r\nreadv\nrewinddir\n"
    "scandir\nscandir64\nscandirat\nscandirat64\nseed48\nseed48_"
    "r\nseekdir\nsrand\nsrand48\nsrand48_"
    "r\nsrandom\nsrandom_r\nsyscall\ntelldir\ntempnam\ntime\ntimespec_get\ntmpnam\n"
    "tmpnam_r\ntwinbit_pins_decide\ntwinbit_pins_decided\ntwinbit_pins_decides\ntwinbit_pins_seed\n"
    "twinbit_pins_seed_text\n"
    "twinbit_pins_seeds\ntwinbit_pins_thread\n";

static void test_preload_exports__it_exports_only_what_it_interposes(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("nm -D --defined-only '" TEST_PINS "' | awk '{print $3}' | LC_ALL=C sort"),
        exported);
}

static void test_preload_exports__it_needs_libc_alone(void **state)
{
    (void)state;
    check_needed(TEST_PINS);
}

/* Neither what ends the job, prints or allocates, nor what it interposes: it finds these itself. */
static void test_preload_exports__it_cannot_end_or_print_for_the_job(void **state)
{
    char imports[8192], name[64];

    (void)state;
    check_imports(TEST_PINS, NULL);
    (void)snprintf(imports, sizeof(imports), "\n%s",
                   output_of("nm -D --undefined-only '" TEST_PINS
                             "' | awk '{sub(/@.*/, \"\", $2); print $2}'"));
    for (const char *e = exported; *e; e = strchr(e, '\n') + 1) {
        (void)snprintf(name, sizeof(name), "\n%.*s\n", (int)(strchr(e, '\n') - e), e);
        if (strstr(imports, name))
            fail_msg("it calls '%.*s' through the linker", (int)strlen(name) - 2, name + 1);
    }
}

/* Without a configuration: no file, no line, the program's own status. */
static void test_preload_exports__without_a_configuration_nothing_happens(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("cd / && LD_PRELOAD='" TEST_PINS "' sh -c 'echo $((6 * 7)); exit 3'; echo $?"),
        "42\n3\n");
    assert_string_equal(output_of("TWINBIT_PINS=/nowhere LD_PRELOAD='" TEST_PINS
                                  "' sh -c 'ls / >/dev/null && echo listed'"),
                        "listed\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preload_exports__it_exports_only_what_it_interposes),
        cmocka_unit_test(test_preload_exports__it_needs_libc_alone),
        cmocka_unit_test(test_preload_exports__it_cannot_end_or_print_for_the_job),
        cmocka_unit_test(test_preload_exports__without_a_configuration_nothing_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
