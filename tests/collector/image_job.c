/*
 * A job that asks what the kernels of images do: image_job WHAT...
 *
 *   text, fatbin, wrapper, list   the same PTX in these forms, without saying its size
 *   damaged, cubin, nothing       what is refused
 *   large                         one that takes a while
 *   twice                         text, asked again
 *   many                          text from eight threads at once
 *   kill                          large, and it is killed while it waits
 *
 * Prints a line for each answer.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/recorder.h"
#include "tests/kernelinfo/dump.h"

static const struct tb_rec_api *api;

static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                           ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %d;\n"
                           "ld.param.u64 %d, [p];\nst.global.u32 [%d], 1;\nret;\n}\n";

static void ask(const char *what, const void *image, size_t n)
{
    const struct tb_wire_kernels *t;
    size_t bytes = 0;
    char line[4096] = "?";

    errno = 77;
    t = api->image(image, n, &bytes);
    if (t && t->kernels)
        ki_dump(t, 0, line, sizeof(line));
    printf("%s: %s%s\n", what, t ? line : "unknown", errno == 77 ? "" : " errno");
}

/* A header and one entry, stored as it is */
static size_t pack(char *to)
{
    uint32_t magic = 0xba55ed50, entry_header = 64, arch = 80;
    uint16_t version = 1, header = 16, kind = 1;
    uint64_t payload = (sizeof(text) + 7) / 8 * 8, rest = 64 + payload;

    memcpy(to, &magic, 4);
    memcpy(to + 4, &version, 2);
    memcpy(to + 6, &header, 2);
    memcpy(to + 8, &rest, 8);
    memcpy(to + 16, &kind, 2);
    memcpy(to + 20, &entry_header, 4);
    memcpy(to + 24, &payload, 8);
    memcpy(to + 44, &arch, 4);
    memcpy(to + 80, text, sizeof(text));
    return 80 + payload;
}

/* Each instruction needs the one behind it: round after round, until the analysis gives up */
static char *large(void)
{
    enum { LINES = 400000 };
    char *p = malloc(64 * LINES), *at = p;

    at += sprintf(at,
                  ".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 p)\n{\n"
                  ".reg .b64 %%d<%d>;\nld.param.u64 %%d0, [p];\n",
                  LINES + 1);
    for (int i = LINES; i > 0; i--)
        at += sprintf(at, "add.s64 %%d%d, %%d%d, 8;\n", i, i - 1);
    sprintf(at, "st.global.u32 [%%d%d], 1;\nret;\n}\n", LINES);
    return p;
}

static void *ask_text(void *arg)
{
    ask(arg, text, SIZE_MAX);
    return NULL;
}

static void many(void)
{
    pthread_t threads[8];

    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, ask_text, "many");
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

static void *kill_later(void *arg)
{
    usleep(300000);
    kill(getpid(), SIGKILL);
    return arg;
}

static void run(const char *what)
{
    static char fatbin[4096] __attribute__((aligned(8)));
    const void *list[] = {fatbin, fatbin, NULL};
    struct {
        uint32_t magic, version;
        const void *data;
        const void *const *list;
    } wrapper = {0x466243b1, 1, fatbin, NULL};
    Elf64_Ehdr elf = {.e_ident = ELFMAG, .e_shoff = sizeof(elf)};
    pthread_t thread;

    pack(fatbin);
    if (strcmp(what, "text") == 0 || strcmp(what, "twice") == 0)
        ask(what, text, SIZE_MAX);
    if (strcmp(what, "twice") == 0)
        ask(what, text, strlen(text));
    if (strcmp(what, "fatbin") == 0)
        ask(what, fatbin, SIZE_MAX);
    if (strcmp(what, "wrapper") == 0)
        ask(what, &wrapper, SIZE_MAX);
    if (strcmp(what, "list") == 0) {
        wrapper.version = 2;
        wrapper.list = list;
        ask(what, &wrapper, SIZE_MAX);
    }
    if (strcmp(what, "damaged") == 0)
        ask(what, text, 100);
    if (strcmp(what, "cubin") == 0)
        ask(what, &elf, SIZE_MAX);
    if (strcmp(what, "nothing") == 0)
        ask(what, "junk", 4);
    if (strcmp(what, "many") == 0)
        many();
    if (strcmp(what, "kill") == 0)
        pthread_create(&thread, NULL, kill_later, NULL);
    if (strcmp(what, "kill") == 0 || strcmp(what, "large") == 0)
        ask(what, large(), SIZE_MAX);
}

int main(int argc, char **argv)
{
    const struct tb_rec_api *(*runtime)(void) =
        (const struct tb_rec_api *(*)(void))dlsym(RTLD_DEFAULT, "twinbit_runtime");

    api = runtime ? runtime() : NULL;
    if (!api)
        return 88;
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    return 0;
}
