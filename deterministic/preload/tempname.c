/*
 * Names of temporary files. libc draws their letters inside itself, where they cannot be answered,
 * so these functions are done here: the letters come from this thread's stream, and a name that is
 * taken is followed by the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

#define LETTERS 6u
#define ATTEMPTS (62 * 62 * 62)

/** struct made - what is to be made of a name, and what became of it: a descriptor, 0, or -errno */
struct made {
    enum { A_FILE, A_FOLDER, A_NAME } what;
    int flags;
    long result;
};

static void attempt(struct made *m, const char *path)
{
    struct stat st;

    if (m->what == A_FILE) {
        int flags = (m->flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL;
        m->result = tb_sys_open(path, flags, 0600);
    } else if (m->what == A_FOLDER) {
        m->result = tb_sys6(SYS_mkdirat, AT_FDCWD, (long)path, 0700, 0, 0, 0);
    } else {
        m->result =
            tb_sys6(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, AT_SYMLINK_NOFOLLOW, 0, 0);
        m->result = m->result == 0 ? -EEXIST : m->result == -ENOENT ? 0 : m->result;
    }
}

static void put_letters(const struct tb_pins_call *c, char *letters, uint32_t i)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint64_t word;

    tb_pins_fill(c, &word, sizeof(word), 8ull * i);
    for (unsigned k = 0; k < LETTERS; k++, word /= 62)
        letters[k] = all[word % 62];
}

static void copy_letters(char *to, const char *from)
{
    for (unsigned k = 0; k < LETTERS; k++)
        to[k] = from[k];
}

/* The name of the log, if it differs from this template in its letters only and can be made. */
static bool as_recorded(struct tb_pins_call *c, struct made *m, char *path, char *letters)
{
    const struct tb_preload_record *r = tb_pins_recorded(c);
    size_t n = strlen(path), from = (size_t)(letters - path);

    if (!r || r->payload != n)
        return false;
    const char *name = (const char *)(r + 1);
    if (memcmp(name, path, from) != 0 ||
        memcmp(name + from + LETTERS, letters + LETTERS, n - from - LETTERS) != 0 ||
        memchr(name + from, '/', LETTERS) || memchr(name + from, 0, LETTERS))
        return false;
    copy_letters(letters, name + from);
    attempt(m, path);
    c->marks |= TB_PRELOAD_FROM_LOG | (r->caller != c->caller ? TB_PRELOAD_OTHER_CALLER : 0);
    return m->result != -EEXIST;
}

/* Puts letters at @letters of @path until one can be made. */
static void make(struct tb_pins_call *c, struct made *m, char *path, char *letters)
{
    bool done = false;

    if (c->mode == TB_PRELOAD_REPLAY && !(done = as_recorded(c, m, path, letters))) {
        c->marks &= (uint16_t) ~(TB_PRELOAD_FROM_LOG | TB_PRELOAD_OTHER_CALLER);
        c->marks |= TB_PRELOAD_NOT_IN_LOG;
    }
    for (uint32_t i = 0; !done && i < ATTEMPTS; i++) {
        put_letters(c, letters, i);
        attempt(m, path);
        done = m->result != -EEXIST;
    }
    if (m->result < 0)
        c->marks |= TB_PRELOAD_FAILED;
    tb_pins_note(c, strlen(path), m->result < 0 ? 0 : strlen(path), path, strlen(path), 0);
}

/* The six X of a template before its suffix; NULL: it is not one. */
static char *letters_of(char *path, int suffix)
{
    size_t n = strlen(path);

    if (suffix < 0 || n < LETTERS + (size_t)suffix)
        return NULL;
    char *letters = path + n - (size_t)suffix - LETTERS;
    return memcmp(letters, "XXXXXX", LETTERS) == 0 ? letters : NULL;
}

/* Only the GNU C Library has it. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* What a failed call leaves of the template: the name that was tried last with glibc, the X with
 * others */
static void leave_template(char *letters)
{
    if (!gnu_get_libc_version)
        copy_letters(letters, "XXXXXX");
}

/* true: answered, and @result is what the function returns. */
static bool answer(struct made *m, char *path, int suffix, const void *pc, int *result)
{
    char *letters = letters_of(path, suffix);
    struct tb_pins_call c;

    if (!letters || !tb_pins_self() || tb_pins.config->tempnames == TB_PRELOAD_LOG ||
        !tb_pins_begin(&c, TB_PRELOAD_TEMPNAME, TB_TEMPNAME, pc))
        return false;
    make(&c, m, path, letters);
    *result = (int)m->result;
    if (m->result < 0) {
        leave_template(letters);
        errno = (int)-m->result;
        *result = -1;
    }
    return true;
}

/* Passed on: what came of it is written down. */
static int noted(int result, const char *path, const void *pc)
{
    struct tb_pins_call c;

    if (tb_pins_self() && tb_pins.config->tempnames == TB_PRELOAD_LOG &&
        tb_pins_begin(&c, TB_PRELOAD_TEMPNAME, TB_TEMPNAME, pc))
        tb_pins_note_real(&c, path ? strlen(path) : 0,
                          result < 0 || !path ? -1 : (int64_t)strlen(path), path);
    return result;
}

static int file(char *path, int suffix, int flags, const void *pc, int (*next)(char *, int, int))
{
    struct made m = {.what = A_FILE, .flags = flags};
    int result;

    if (!letters_of(path, suffix))
        return next(path, suffix, flags); /* refused, and no name of anything */
    return answer(&m, path, suffix, pc, &result) ? result
                                                 : noted(next(path, suffix, flags), path, pc);
}

static int next_file(char *path, int suffix, int flags)
{
    return TB_NEXT(mkostemps)(path, suffix, flags);
}

#define FILES(suffix64)                                                                            \
    TB_EXPORT int mkstemp##suffix64(char *path)                                                    \
    {                                                                                              \
        return file(path, 0, 0, TB_HERE, next_file);                                               \
    }                                                                                              \
    TB_EXPORT int mkostemp##suffix64(char *path, int flags)                                        \
    {                                                                                              \
        return file(path, 0, flags, TB_HERE, next_file);                                           \
    }                                                                                              \
    TB_EXPORT int mkstemps##suffix64(char *path, int suffix)                                       \
    {                                                                                              \
        return file(path, suffix, 0, TB_HERE, next_file);                                          \
    }                                                                                              \
    TB_EXPORT int mkostemps##suffix64(char *path, int suffix, int flags)                           \
    {                                                                                              \
        return file(path, suffix, flags, TB_HERE, next_file);                                      \
    }

FILES()
FILES(64)

TB_EXPORT char *mkdtemp(char *path)
{
    struct made m = {.what = A_FOLDER};
    bool good = letters_of(path, 0) != NULL;
    int result;

    if (answer(&m, path, 0, TB_HERE, &result))
        return result < 0 ? NULL : path;
    char *p = TB_NEXT(mkdtemp)(path);
    if (good)
        (void)noted(p ? 0 : -1, p, TB_HERE);
    return p;
}

TB_EXPORT char *mktemp(char *path)
{
    struct made m = {.what = A_NAME};
    bool good = letters_of(path, 0) != NULL;
    int result;

    if (answer(&m, path, 0, TB_HERE, &result)) {
        if (result < 0)
            *path = 0;
        return path;
    }
    char *p = TB_NEXT(mktemp)(path);
    if (good)
        (void)noted(p && *p ? 0 : -1, p, TB_HERE);
    return p;
}

/* libc made the name, in memory of its own or of the caller; its last letters become ours. */
static char *again(char *path, const void *pc)
{
    struct made m = {.what = A_NAME};
    size_t n = path ? strlen(path) : 0;
    char found[LETTERS];
    int result;

    if (n < LETTERS)
        return path;
    copy_letters(found, path + n - LETTERS);
    copy_letters(path + n - LETTERS, "XXXXXX");
    if (answer(&m, path, 0, pc, &result) && result == 0)
        return path;
    copy_letters(path + n - LETTERS, found);
    (void)noted(0, path, pc);
    return path;
}

TB_EXPORT char *tmpnam(char out[L_tmpnam])
{
    return again(TB_NEXT(tmpnam)(out), TB_HERE);
}

TB_EXPORT char *tmpnam_r(char out[L_tmpnam])
{
    return again(TB_NEXT(tmpnam_r)(out), TB_HERE);
}

TB_EXPORT char *tempnam(const char *folder, const char *prefix)
{
    return again(TB_NEXT(tempnam)(folder, prefix), TB_HERE);
}
