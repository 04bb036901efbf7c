/*
 * Prints what kernels do, a line each, and how many are fully known.
 *
 * usage: show FILE...   PTX, a fat binary, or a program with fat binaries in it
 */
#include "kernelinfo/kernelinfo.h"
#include "tests/kernelinfo/dump.h"

#include <stdlib.h>
#include <string.h>

static unsigned kernels, complete, failed;

static void show(const char *path, const void *image, size_t n)
{
    struct tb_error err = {0};
    void *table = NULL;
    size_t bytes = 0;
    char line[16384];

    if (tb_kernelinfo(image, n, &table, &bytes, &err) != TB_OK) {
        failed += err.status != TB_ERR_UNSUPPORTED;
        if (err.status != TB_ERR_UNSUPPORTED)
            printf("# %s: %s\n", path, err.text);
        return;
    }
    if (err.text[0])
        printf("# %s: %s\n", path, err.text);
    for (uint32_t i = 0; i < ((struct tb_wire_kernels *)table)->kernels; i++) {
        const unsigned doubts = TB_KERNEL_INDIRECT_READ | TB_KERNEL_INDIRECT_WRITE |
                                TB_KERNEL_UNTRACED_READ | TB_KERNEL_UNTRACED_WRITE;

        ki_dump(table, i, line, sizeof(line));
        puts(line);
        kernels++;
        complete += !(ki_kernels(table)[i].flags & doubts);
    }
    free(table);
}

/* All fat binaries in a file: each starts with its magic and says how long it is. */
static void show_program(const char *path, const char *data, size_t n)
{
    static const unsigned char magic[4] = {0x50, 0xed, 0x55, 0xba};

    for (size_t i = 0; i + 16 <= n; i += 8) {
        uint64_t rest;

        if (memcmp(data + i, magic, sizeof(magic)) != 0)
            continue;
        memcpy(&rest, data + i + 8, sizeof(rest));
        if (rest <= n - i - 16)
            show(path, data + i, 16 + (size_t)rest);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        char *data;
        long n;

        if (!f || fseek(f, 0, SEEK_END) != 0 || (n = ftell(f)) < 0 ||
            !(data = malloc((size_t)n + 1)))
            return 2;
        rewind(f);
        if (fread(data, 1, (size_t)n, f) != (size_t)n)
            return 2;
        fclose(f);
        if (n > 4 && memcmp(data, "\177ELF", 4) == 0)
            show_program(argv[i], data, (size_t)n);
        else
            show(argv[i], data, (size_t)n);
        free(data);
    }
    printf("# %u kernels, %u with nothing unknown\n", kernels, complete);
    return failed ? 1 : 0;
}
