/* A program with device code in it as nvcc's output has it, made without nvcc: one fat binary with
 * one entry, KIND (1 PTX, 2 machine code) for sm_ARCH. It prints what `softgpu run` set for it and
 * exits with its first argument. Linked to a runtime library or not: CMakeLists.txt. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT                                                                                       \
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry first(.param .u64 p)\n{\n"     \
    " ret;\n}\n.visible .entry second()\n{\n ret;\n}\n"

struct fatbin {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size;
    uint16_t kind, unknown;
    uint32_t entry_header;
    uint64_t payload;
    uint32_t packed, zero;
    uint16_t minor, major;
    uint32_t arch;
    uint64_t names, flags, none, plain;
    char text[256];
};

static const struct fatbin fatbin __attribute__((used, section(".nv_fatbin"), aligned(8))) = {
    .magic = 0xba55ed50,
    .version = 1,
    .header = 16,
    .size = sizeof(struct fatbin) - 16,
    .kind = KIND,
    .unknown = 0x101,
    .entry_header = 64,
    .payload = 256,
    .arch = ARCH,
    .flags = 0x11,
    .text = TEXT,
};

static const struct {
    int magic, version;
    const void *data;
    void *list;
} wrapper __attribute__((used, section(".nvFatBinSegment"))) = {0x466243b1, 1, &fatbin, 0};

int main(int argc, char **argv)
{
    static const char *const names[] = {"LD_LIBRARY_PATH", "LD_PRELOAD",   "TRITON_LIBCUDA_PATH",
                                        "SOFTGPU_ARCH",    "SOFTGPU_SEED", "SOFTGPU_DEVICES",
                                        "SOFTGPU_MEMORY",  "SOFTGPU_ORDER"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        printf("%s=%s\n", names[i], value ? value : "");
    }
    return argc > 1 ? atoi(argv[1]) : 0;
}
