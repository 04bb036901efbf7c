#include "collector/frozen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_MOST 4096u
#define DEPTH_MOST 64

void tb_frozen_release(struct tb_frozen *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->file[i].path);
    free(f->file);
    *f = (struct tb_frozen){0};
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tb_frozen_file *)a)->path,
                  ((const struct tb_frozen_file *)b)->path);
}

const struct tb_frozen_file *tb_frozen_find(const struct tb_frozen *f, const char *path)
{
    const struct tb_frozen_file key = {.path = (char *)(uintptr_t)path};

    return f->count ? bsearch(&key, f->file, f->count, sizeof(key), by_path) : NULL;
}

bool tb_frozen_fits(const struct tb_frozen *f, uint64_t most)
{
    return f->bytes <= most && f->bytes <= TB_FROZEN_BYTES && f->count <= TB_FROZEN_FILES;
}

static struct tb_frozen_file *add(struct tb_frozen *f, const char *path)
{
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 64;
        void *grown = realloc(f->file, room * sizeof(*f->file));
        if (!grown)
            return NULL;
        f->file = grown;
        f->room = room;
    }
    char *copy = strdup(path);
    if (!copy)
        return NULL;
    f->file[f->count] = (struct tb_frozen_file){.path = copy};
    return &f->file[f->count++];
}

static enum tb_status no_memory(struct tb_error *err)
{
    return tb_fail(err, TB_ERR_NOMEM, "no memory for a frozen cache");
}

/* ---------------------------------------------------------------- looking */

/* One name in the open folder; *@sub is its descriptor if it is a folder, else -1 */
static enum tb_status look_at(struct tb_frozen *f, int dir, const char *name, const char *path,
                              int *sub, struct tb_error *err)
{
    struct stat st;

    *sub = -1;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return TB_OK; /* gone meanwhile */
    if (S_ISDIR(st.st_mode)) {
        *sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return TB_OK;
    }
    if (!S_ISREG(st.st_mode)) {
        f->special++;
        return TB_OK;
    }
    struct tb_frozen_file *file = add(f, path);
    if (!file)
        return no_memory(err);
    file->bytes = (uint64_t)st.st_size;
    file->mode = st.st_mode & 0777;
    f->bytes += file->bytes;
    return TB_OK;
}

/* Takes @fd. @path: of the folder, with a '/' behind it, "" for the first; has PATH_MOST bytes */
static enum tb_status look_below(struct tb_frozen *f, int fd, char *path, int depth, /* NOLINT */
                                 struct tb_error *err)
{
    DIR *d = fdopendir(fd);
    size_t n = strlen(path);
    enum tb_status st = TB_OK;

    if (!d)
        (void)close(fd);
    for (struct dirent *e; d && st == TB_OK && (e = readdir(d)) != NULL;) {
        int sub;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (n + strlen(e->d_name) + 2 > PATH_MOST || depth == DEPTH_MOST) {
            f->special++;
            continue;
        }
        (void)snprintf(path + n, PATH_MOST - n, "%s", e->d_name);
        st = look_at(f, dirfd(d), e->d_name, path, &sub, err);
        if (sub >= 0) {
            strcat(path, "/");
            st = look_below(f, sub, path, depth + 1, err);
        }
        path[n] = 0;
    }
    if (d)
        (void)closedir(d);
    return st;
}

enum tb_status tb_frozen_look(struct tb_frozen *f, const char *folder, struct tb_error *err)
{
    char path[PATH_MOST] = "";
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot read folder '%s'", folder);
    enum tb_status st = look_below(f, fd, path, 0, err);
    if (f->count)
        qsort(f->file, f->count, sizeof(*f->file), by_path);
    return st;
}

/* ---------------------------------------------------------------- into the trace */

/* All bytes of the file, malloc'ed; NULL: it is gone, cut, or no plain file any more */
static char *whole(const char *folder, const struct tb_frozen_file *file)
{
    char path[2 * PATH_MOST];
    struct stat st;
    uint64_t n = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, file->path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool plain = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    char *data = plain ? malloc(file->bytes + 1) : NULL;
    while (data && n < file->bytes) {
        ssize_t got = read(fd, data + n, file->bytes - n);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        n += got > 0 ? (uint64_t)got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    if (n == file->bytes)
        return data;
    free(data);
    return NULL;
}

static enum tb_status keep_file(const struct tb_frozen_file *file, const char *data,
                                struct tb_store *store, const char *name, struct tb_error *err)
{
    const struct tb_store_file row = {name, file->path, file->mode, file->bytes};
    enum tb_status st = TB_OK;

    for (uint64_t part = 0, done = 0; st == TB_OK && (done < file->bytes || part == 0); part++) {
        uint64_t left = file->bytes - done;
        size_t n = left < TB_STORE_PART ? (size_t)left : TB_STORE_PART;
        st = tb_store_file(store, &row, part, data + done, n, err);
        done += n;
    }
    return st;
}

enum tb_status tb_frozen_keep(struct tb_frozen *f, const char *folder, struct tb_store *store,
                              const char *name, struct tb_error *err)
{
    enum tb_status st = TB_OK;
    size_t kept = 0;

    for (size_t i = 0; i < f->count; i++) {
        struct tb_frozen_file *file = &f->file[i];
        char *data = st == TB_OK ? whole(folder, file) : NULL;
        if (!data) {
            free(file->path);
            continue;
        }
        file->fp = tb_fp_host(data, file->bytes, 0);
        if (store)
            st = keep_file(file, data, store, name, err);
        free(data);
        f->file[kept++] = *file;
    }
    f->count = kept;
    return st;
}

/* ---------------------------------------------------------------- out of a trace */

struct unpacking {
    struct tb_frozen *frozen;
    const char *was, *folder;
    struct tb_fp_stream fp;
    int fd;
};

/* Names with '/' between them, none of them empty, "." or ".." */
static bool good_path(const char *path)
{
    size_t n;

    if (strlen(path) >= PATH_MOST / 2)
        return false;
    for (;; path += n + 1) {
        n = strcspn(path, "/");
        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        if (!path[n])
            return true;
    }
}

static enum tb_status cannot_write(const char *path, struct tb_error *err)
{
    return tb_fail_sys(err, TB_ERR_IO, errno, "cannot write '%.300s'", path);
}

/* The folder is ours and new: nothing in it leads elsewhere */
static enum tb_status make_file(struct unpacking *u, const struct tb_store_file *file,
                                struct tb_error *err)
{
    char path[2 * PATH_MOST];
    size_t at = (size_t)snprintf(path, sizeof(path), "%s/", u->folder);

    (void)snprintf(path + at, sizeof(path) - at, "%s", file->path);
    for (char *slash = path + at; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return cannot_write(path, err);
        *slash = '/';
    }
    u->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                 (file->mode & 0777) | 0600);
    return u->fd >= 0 ? TB_OK : cannot_write(path, err);
}

static enum tb_status begin_file(struct unpacking *u, const struct tb_store_file *file,
                                 struct tb_error *err)
{
    if (!good_path(file->path))
        return tb_fail(err, TB_ERR_CORRUPT,
                       "the trace's frozen cache '%s' has a file '%.80s', which leads out of its "
                       "folder: nothing is taken from it",
                       file->folder, file->path);
    u->frozen->bytes += file->bytes < TB_FROZEN_BYTES ? file->bytes : TB_FROZEN_BYTES + 1;
    struct tb_frozen_file *added = add(u->frozen, file->path);
    if (!added)
        return no_memory(err);
    added->bytes = file->bytes;
    added->mode = file->mode & 0777;
    if (!tb_frozen_fits(u->frozen, TB_FROZEN_BYTES))
        return tb_fail(err, TB_ERR_LIMIT,
                       "the trace's frozen cache '%s' is more than %llu MiB or %u files",
                       file->folder, TB_FROZEN_BYTES >> 20, TB_FROZEN_FILES);
    tb_fp_stream_init(&u->fp, 0);
    return make_file(u, file, err);
}

static enum tb_status put(struct unpacking *u, const char *data, size_t n, struct tb_error *err)
{
    tb_fp_stream_update(&u->fp, data, n);
    while (n > 0) {
        ssize_t got = write(u->fd, data, n);
        if (got < 0 && errno != EINTR)
            return cannot_write(u->folder, err);
        data += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return TB_OK;
}

/* Triton's lists of a kernel's files, "__grp__...", hold whole paths */
static bool holds_paths(const struct unpacking *u, const struct tb_store_file *file)
{
    const char *slash = strrchr(file->path, '/'), *base = slash ? slash + 1 : file->path;

    return strncmp(base, "__grp__", 7) == 0 && file->bytes <= TB_STORE_PART &&
           strcmp(u->was, u->folder) != 0;
}

/* "WAS/" becomes "FOLDER/" */
static enum tb_status put_moved(struct unpacking *u, const char *data, size_t n,
                                struct tb_error *err)
{
    size_t len = strlen(u->was);
    enum tb_status st = TB_OK;

    while (st == TB_OK && n > 0) {
        const char *found = len ? memmem(data, n, u->was, len) : NULL;
        size_t before = found ? (size_t)(found - data) : n;
        bool whole = found && before + len < n && found[len] == '/';
        st = put(u, data, before, err);
        if (found && st == TB_OK)
            st = whole ? put(u, u->folder, strlen(u->folder), err) : put(u, found, len, err);
        before += found ? len : 0;
        data += before;
        n -= before;
    }
    return st;
}

static enum tb_status take_part(void *arg, const struct tb_store_file *file, uint64_t part,
                                const void *data, size_t n, struct tb_error *err)
{
    struct unpacking *u = arg;
    enum tb_status st = TB_OK;

    if (part == 0) {
        if (u->fd >= 0)
            (void)close(u->fd);
        u->fd = -1;
        st = begin_file(u, file, err);
    }
    if (st == TB_OK)
        st = holds_paths(u, file) ? put_moved(u, data, n, err) : put(u, data, n, err);
    if (st == TB_OK) { /* so far */
        u->frozen->file[u->frozen->count - 1].fp = tb_fp_stream_final(&u->fp);
        u->frozen->file[u->frozen->count - 1].bytes = u->fp.n;
    }
    return st;
}

enum tb_status tb_frozen_unpack(struct tb_frozen *f, struct tb_trace *t, const char *name,
                                const char *was, const char *folder, struct tb_error *err)
{
    struct unpacking u = {.frozen = f, .was = was, .folder = folder, .fd = -1};
    enum tb_status st = tb_trace_files(t, name, take_part, &u, err);

    if (u.fd >= 0)
        (void)close(u.fd);
    if (f->count)
        qsort(f->file, f->count, sizeof(*f->file), by_path);
    return st;
}
