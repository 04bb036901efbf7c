/*
 * /proc/sys/kernel/random/uuid, of which each opening gives another UUID: a file in memory takes
 * its place under the same descriptor, so every way to read it gives the same.
 */
#include <string.h>
#include <sys/mman.h>

#include "deterministic/preload/device.h"
#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

static const char path_of_it[] = "/proc/sys/kernel/random/uuid";

#define TEXT 37 /* bytes, the newline included */

static bool is_dash(int at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

static void write_text(const unsigned char bytes[16], char text[TEXT])
{
    static const char digits[] = "0123456789abcdef";
    int half = 0;

    for (int at = 0; at < TEXT - 1; at++) {
        if (is_dash(at)) {
            text[at] = '-';
            continue;
        }
        text[at] = digits[(bytes[half / 2] >> (half % 2 ? 0 : 4)) & 15];
        half++;
    }
    text[TEXT - 1] = '\n';
}

static void read_text(const char text[TEXT], unsigned char bytes[16])
{
    int half = 0;

    memset(bytes, 0, 16);
    for (int at = 0; at < TEXT - 1; at++) {
        if (is_dash(at))
            continue;
        int value = text[at] <= '9' ? text[at] - '0' : text[at] - 'a' + 10;
        bytes[half / 2] |= (unsigned char)((value & 15) << (half % 2 ? 0 : 4));
        half++;
    }
}

/* From the seed or the log, or what the kernel gives */
static bool draw(struct tb_pins_call *c, int fd, char text[TEXT])
{
    unsigned char bytes[16];

    if (!tb_pins_real(c)) {
        tb_pins_serve(c, bytes, sizeof(bytes));
        bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x40); /* version 4 */
        bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);
        write_text(bytes, text);
        return true;
    }
    if (tb_sys3(SYS_read, fd, (long)text, TEXT) != TEXT)
        return false;
    read_text(text, bytes);
    tb_pins_note_real(c, sizeof(bytes), sizeof(bytes), bytes);
    return true;
}

/* @flags: of dup3(2) */
static void put_in_place(int fd, int flags, const char text[TEXT])
{
    long in_memory = tb_sys3(SYS_memfd_create, (long)"uuid", MFD_CLOEXEC, 0);

    if (in_memory < 0)
        return;
    if (tb_sys3(SYS_write, in_memory, (long)text, TEXT) == TEXT &&
        tb_sys3(SYS_lseek, in_memory, 0, 0 /* SEEK_SET */) == 0)
        (void)tb_sys3(SYS_dup3, in_memory, fd, flags);
    tb_sys_close((int)in_memory);
}

void tb_pins_uuid_opened(int fd, const char *path, int flags, const void *pc)
{
    struct tb_pins_call c;
    char text[TEXT] = "";

    if (tb_likely(fd < 0 || !path || path[0] != '/' || strcmp(path, path_of_it) != 0) ||
        !tb_pins_begin(&c, TB_PRELOAD_DEVICE, TB_ENTROPY, pc) || (c.marks & TB_PRELOAD_EXEMPT))
        return;
    if (draw(&c, fd, text))
        put_in_place(fd, flags, text);
}
