/* Names, version node and start-up of the built library, against the headers and against PyTorch.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *library;

static const char *lib_path(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", RT_LIB_FOLDER, name);
    return path;
}

static int open_library(void **state)
{
    (void)state;
    library = dlopen(lib_path("libcudart.so." RT_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        print_error("%s\n", dlerror());
    return library == NULL ? -1 : 0;
}

static bool is_exported(const char *name)
{
    bool there = dlvsym(library, name, "libcudart.so." RT_MAJOR) != NULL;

    if (!there)
        print_error("'%s' is not exported\n", name);
    return there;
}

static char *read_whole(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text;
    long n;

    if (f == NULL)
        print_error("cannot open '%s'\n", path);
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    n = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    return text;
}

/* Every `CUDARTAPI name(` of the header, per-thread and versioned forms by their macros. */
static void test_exports__hold_every_function_of_the_header(void **state)
{
    char *text = read_whole(RT_HEADER);
    size_t seen = 0, missing = 0;

    (void)state;
    for (const char *p = strstr(text, "CUDARTAPI "); p != NULL; p = strstr(p, "CUDARTAPI ")) {
        char name[128];
        size_t n = 0;

        p += strlen("CUDARTAPI ");
        while (*p == ' ')
            p++;
        while (isalnum((unsigned char)p[n]) || p[n] == '_')
            n++;
        if (p[n] != '(' || strncmp(p, "cuda", 4) != 0 || n >= sizeof(name))
            continue;
        memcpy(name, p, n);
        name[n] = '\0';
        missing += !is_exported(name);
        seen++;
    }
    free(text);
    assert_true(seen > 250);
    assert_int_equal(missing, 0);
}

static void test_exports__hold_every_per_thread_form(void **state)
{
    char *text = read_whole(RT_HEADER);
    size_t seen = 0, missing = 0;

    (void)state;
    for (const char *p = strstr(text, "__CUDART_API_PT"); p != NULL;
         p = strstr(p + 1, "__CUDART_API_PT")) {
        char name[128], form[8];

        if (sscanf(p, "__CUDART_API_%7[PTDSZ](%100[a-zA-Z0-9_])", form, name) != 2 ||
            strncmp(name, "cuda", 4) != 0)
            continue;
        strcat(name, strcmp(form, "PTDS") == 0 ? "_ptds" : "_ptsz");
        missing += !is_exported(name);
        seen++;
    }
    free(text);
    assert_true(seen > 50);
    assert_int_equal(missing, 0);
}

static void test_exports__hold_what_pytorch_imports(void **state)
{
    size_t seen = 0, missing = 0;
    char *text;

    (void)state;
    if (strcmp(RT_MAJOR, "13") != 0)
        skip(); /* the wheel is of CUDA 13 */
    text = read_whole(RT_SOURCE "/pytorch-2.15.0.imports");
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (*line == '#')
            continue;
        missing += !is_exported(line);
        seen++;
    }
    free(text);
    assert_int_equal(seen, 113);
    assert_int_equal(missing, 0);
}

static void test_exports__hold_what_nvcc_calls(void **state)
{
    static const char *const names[] = {
        "__cudaRegisterFatBinary",    "__cudaRegisterFatBinaryEnd",
        "__cudaUnregisterFatBinary",  "__cudaRegisterFunction",
        "__cudaRegisterVar",          "__cudaRegisterManagedVar",
        "__cudaInitModule",           "__cudaPushCallConfiguration",
        "__cudaPopCallConfiguration", "__cudaGetKernel",
        "__cudaLaunchKernel",         "__cudaLaunchKernel_ptsz",
        "cudaProfilerStart",          "cudaProfilerStop",
        "softgpu_rt_set_hooks",
    };
    size_t missing = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        missing += !is_exported(names[i]);
    assert_int_equal(missing, 0);
}

/* Nothing else, and all of it under the one version node. */
static void test_exports__are_cudas_names_alone(void **state)
{
    char line[512], command[4200];
    size_t seen = 0, others = 0;
    FILE *p;

    (void)state;
    snprintf(command, sizeof(command), "nm -D --defined-only %s",
             lib_path("libcudart.so." RT_MAJOR));
    p = popen(command, "r");
    assert_non_null(p);
    while (fgets(line, sizeof(line), p) != NULL) {
        char kind, name[256];

        if (sscanf(line, "%*x %c %255s", &kind, name) != 2 || kind == 'A')
            continue;
        seen++;
        if (strstr(name, "@@libcudart.so." RT_MAJOR) == NULL ||
            (strncmp(name, "cuda", 4) != 0 && strncmp(name, "__cuda", 6) != 0 &&
             strncmp(name, "softgpu_rt_set_hooks@", 21) != 0)) {
            print_error("'%s' is exported\n", name);
            others++;
        }
    }
    assert_int_equal(pclose(p), 0);
    assert_true(seen > 300);
    assert_int_equal(others, 0);
}

/* LD_PRELOAD reaches every child of a job. */
static void test_preload__leaves_a_plain_program_alone(void **state)
{
    char line[512] = "", command[4200];
    FILE *p;

    (void)state;
    if (RT_SANITIZED)
        skip(); /* the sanitizer wants to be first */
    snprintf(command, sizeof(command),
             "LD_PRELOAD=%s SOFTGPU_LOG=3 sh -c 'ls /proc/$$/task; :' 2>&1",
             lib_path("libsoftgpu_rt.so"));
    p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(line, sizeof(line), p)); /* its one thread */
    assert_null(fgets(command, sizeof(command), p));
    assert_int_equal(pclose(p), 0);
    assert_true(strspn(line, "0123456789\n") == strlen(line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exports__hold_every_function_of_the_header),
        cmocka_unit_test(test_exports__hold_every_per_thread_form),
        cmocka_unit_test(test_exports__hold_what_pytorch_imports),
        cmocka_unit_test(test_exports__hold_what_nvcc_calls),
        cmocka_unit_test(test_exports__are_cudas_names_alone),
        cmocka_unit_test(test_preload__leaves_a_plain_program_alone),
    };

    return cmocka_run_group_tests_name("softgpu.runtime_exports", tests, open_library, NULL);
}
