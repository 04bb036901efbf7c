/*
 * What the kernels of a module do: its code goes to the collector in a memfd, the answer comes back
 * as another one, which stays mapped.
 *
 * Code is given to the driver without its size. PTX ends with a NUL, machine code and fat binaries
 * say how long they are; programs hand over a wrapper (fatbinary_section.h of CUDA) that points to
 * a fat binary, or to a list of them that the driver links.
 */
#include "recorder/recorder_internal.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRAPPER UINT32_C(0x466243b1)
#define FATBIN UINT32_C(0xba55ed50)
#define MOST_IMAGE (UINT64_C(1) << 30)
#define MOST_PIECES 4096u

struct piece {
    const void *data;
    uint64_t bytes;
};

/* A fat binary's wrapper */
struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void *const *list; /* version 2: fat binaries up to a NULL, or NULL */
};

static uint32_t magic_of(const char *p)
{
    uint32_t magic = 0;

    if (p[0] && p[1] && p[2]) /* a text may end before four bytes are there */
        memcpy(&magic, p, sizeof(magic));
    return magic;
}

/* To where its tables and its sections end. */
static uint64_t elf_bytes(const char *p)
{
    Elf64_Ehdr h;
    Elf64_Shdr s;
    uint64_t end, segments;

    memcpy(&h, p, sizeof(h));
    if (h.e_ident[EI_CLASS] != ELFCLASS64)
        return 0;
    end = h.e_shoff + (uint64_t)h.e_shentsize * h.e_shnum;
    segments = h.e_phoff + (uint64_t)h.e_phentsize * h.e_phnum;
    end = segments > end ? segments : end;
    for (uint32_t i = 0; i < h.e_shnum && h.e_shentsize == sizeof(s); i++) {
        memcpy(&s, p + h.e_shoff + i * sizeof(s), sizeof(s));
        if (s.sh_type != SHT_NOBITS && s.sh_offset + s.sh_size > end)
            end = s.sh_offset + s.sh_size;
    }
    return end;
}

/* The head of a fat binary, and of each code in it: both are followed by so many bytes. */
struct fat_head {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes;
};
struct fat_entry {
    uint16_t kind, version; /* kind 1: PTX */
    uint32_t head_bytes;
    uint64_t bytes;
};
#define KIND_PTX 1u

static bool has_ptx(const struct piece *p)
{
    const char *data = p->data;
    struct fat_head head;
    struct fat_entry e;

    if (magic_of(data) != FATBIN)
        return memcmp(data, ELFMAG, SELFMAG) != 0;
    memcpy(&head, data, sizeof(head));
    for (uint64_t at = head.head_bytes; at + sizeof(e) <= p->bytes; at += e.head_bytes + e.bytes) {
        memcpy(&e, data + at, sizeof(e));
        if (e.kind == KIND_PTX)
            return true;
        if (e.head_bytes < sizeof(e) || e.bytes > p->bytes)
            break;
    }
    return false;
}

/* Bytes of code that is no wrapper; 0: it is none of what drivers take. */
static uint64_t bytes_of(const char *p)
{
    uint32_t magic = magic_of(p);
    struct fat_head head;

    if (magic == FATBIN) {
        memcpy(&head, p, sizeof(head));
        return head.bytes <= MOST_IMAGE ? head.head_bytes + head.bytes : 0;
    }
    if (magic && memcmp(p, ELFMAG, SELFMAG) == 0)
        return elf_bytes(p);
    if (p[0] == '.' || p[0] == '/' || p[0] == ' ' || (p[0] >= '\t' && p[0] <= '\r'))
        return strlen(p);
    return 0;
}

/* What is to be sent, in order. */
static uint32_t pieces_of(const void *image, size_t n, struct piece *out, uint32_t most)
{
    struct wrapper w;
    uint32_t count = 0;

    if (n < 4 || magic_of(image) != WRAPPER) {
        out[0] = (struct piece){image, n == SIZE_MAX ? bytes_of(image) : n};
        return out[0].bytes != 0;
    }
    memcpy(&w, image, sizeof(w));
    if (w.version == 2 && w.list) {
        for (; count < most && w.list[count]; count++) {
            out[count] = (struct piece){w.list[count], bytes_of(w.list[count])};
            if (magic_of(w.list[count]) != FATBIN || !out[count].bytes)
                return 0;
        }
        return w.list[count] ? 0 : count;
    }
    if (!w.data)
        return 0;
    out[0] = (struct piece){w.data, bytes_of(w.data)};
    return out[0].bytes != 0;
}

/* All pieces in one memfd, or -1. */
static int gather(const struct piece *p, uint32_t count)
{
    uint64_t bytes = 0, at = 0;
    const char *why;
    char *to;
    int fd;

    for (uint32_t i = 0; i < count; i++)
        bytes += p[i].bytes <= MOST_IMAGE ? p[i].bytes : MOST_IMAGE + 1;
    if (!count || bytes == 0 || bytes > MOST_IMAGE)
        return -1;
    fd = tb_rt_memfd("twinbit-image", bytes, &why);
    if (fd < 0)
        return -1;
    to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (to == MAP_FAILED) {
        (void)close(fd);
        return -1;
    }
    for (uint32_t i = 0; i < count; at += p[i++].bytes)
        memcpy(to + at, p[i].data, p[i].bytes);
    (void)munmap(to, bytes);
    return fd;
}

/* Do the parts of the table lie where its head says? */
static bool good_table(const struct tb_wire_kernels *t, uint64_t bytes)
{
    uint64_t end;

    if (bytes < sizeof(*t) || t->magic != TB_WIRE_MAGIC || t->version != TB_WIRE_VERSION)
        return false;
    end = sizeof(*t) + (uint64_t)t->kernels * sizeof(struct tb_wire_kernel) +
          (uint64_t)t->words * sizeof(struct tb_wire_word) +
          (uint64_t)t->globals * sizeof(struct tb_wire_global) + t->text_bytes;
    return end == bytes;
}

static const struct tb_wire_kernels *map_answer(int fd, size_t *bytes)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(struct tb_wire_kernels))
        return NULL;
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (!good_table(p, (uint64_t)st.st_size)) {
        (void)munmap(p, (size_t)st.st_size);
        return NULL;
    }
    *bytes = (size_t)st.st_size;
    return p;
}

/* *@bytes as struct tb_rec_api says. */
static const struct tb_wire_kernels *ask(int fd, size_t *bytes)
{
    struct tb_wire_msg *msg = tb_rt_message(TB_MSG_IMAGE);
    struct tb_wire_reply *reply = tb_rt_pool(sizeof(*reply));
    const struct tb_wire_kernels *table = NULL;
    enum tb_rt_conn result = TB_CONN_FAIL;
    int answer = -1;

    if (msg && reply)
        result = tb_rt_call(msg, fd, reply, &answer, TB_WIRE_IMAGE_MS);
    if (result == TB_CONN_OK && reply->status == TB_REPLY_OK && answer >= 0)
        table = map_answer(answer, bytes);
    else if (result == TB_CONN_OK && reply->status == TB_REPLY_REFUSED)
        *bytes = 0;
    if (answer >= 0)
        (void)close(answer);
    if (reply)
        tb_rt_unmap(reply, sizeof(*reply));
    tb_rt_message_done(msg);
    return table;
}

static struct tb_rec_code code_of(const struct piece *p, uint32_t count)
{
    struct tb_rec_code c = {.pieces = count};

    for (uint32_t i = 0; i < count; i++) {
        struct tb_fp_leaf pair[2] = {c.hash, tb_fp_leaf_hash(p[i].data, p[i].bytes)};
        c.hash = i ? tb_fp_leaf_hash(pair, sizeof(pair)) : pair[1];
        c.ptx = c.ptx || has_ptx(&p[i]);
        c.bytes += p[i].bytes;
    }
    return c;
}

static struct tb_rec_code image_code(const void *image)
{
    struct tb_rec_code c = {.pieces = 0};
    struct piece *pieces = image ? tb_rt_pool(MOST_PIECES * sizeof(*pieces)) : NULL;

    if (!pieces)
        return c;
    c = code_of(pieces, pieces_of(image, SIZE_MAX, pieces, MOST_PIECES));
    tb_rt_unmap(pieces, MOST_PIECES * sizeof(*pieces));
    return c;
}

static const struct tb_wire_kernels *image_kernels(const void *image, size_t n, size_t *bytes)
{
    const struct tb_wire_kernels *table = NULL;
    struct piece *pieces;
    int saved = errno, fd;

    *bytes = SIZE_MAX;
    if (!image || n == 0 || tb_tls.busy || tb_rt_state() != TB_RT_ON)
        return NULL;
    tb_tls.busy = 1;
    pieces = tb_rt_pool(MOST_PIECES * sizeof(*pieces));
    if (pieces) {
        fd = gather(pieces, pieces_of(image, n, pieces, MOST_PIECES));
        tb_rt_unmap(pieces, MOST_PIECES * sizeof(*pieces));
        if (fd >= 0) {
            for (int i = 0; i < 2 && *bytes == SIZE_MAX; i++) /* what it began is done by then */
                table = ask(fd, bytes);
            (void)close(fd);
        }
    }
    tb_tls.busy = 0;
    errno = saved;
    return table;
}

void tb_rt_image_init(struct tb_rec_api *api)
{
    api->image = image_kernels;
    api->code = image_code;
}
