#include "collector/collector_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fingerprint/fingerprint.h"

#define COMPILE_MS 280000u /* the job waits 300 s */
#define ASK_MS 10000u
#define MAX_ARGS 40
#define MAX_CXX_WORDS 8 /* "ccache g++" */

/* As torch's own headers want it: without NDEBUG at::RecordFunction has another layout. */
static const char *const flags[] = {
    "-O2", "-DNDEBUG", "-fPIC", "-shared", "-w", "-fvisibility=hidden", "-fno-access-control",
};

struct tap {
    const char *libdir;
    char lib[PATH_MAX];   /* folder of libtorch_cpu.so */
    char torch[PATH_MAX]; /* the one above it: include/ lies there */
    char libtorch[PATH_MAX];
    char
        cuda[PATH_MAX]; /* folder of headers of CUDA's runtime, "": none, or a torch without CUDA */
    char cxx[256], cxx_version[256];
    int major, minor;
    struct tb_elf_facts facts;
    bool cxx11_abi;
    char cache[PATH_MAX - 300], key[200];
    struct tb_tap_control *control;
};

/* ---------------------------------------------------------------- what it is built against */

static void cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash)
        *slash = 0;
}

static bool version_from(struct tap *t, const char *header)
{
    char path[PATH_MAX], line[256];

    t->major = t->minor = -1;
    (void)snprintf(path, sizeof(path), "%.3900s/include/%s", t->torch, header);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "#define TORCH_VERSION_MAJOR %d", &t->major) != 1)
            (void)sscanf(line, "#define TORCH_VERSION_MINOR %d", &t->minor);
    }
    (void)fclose(f);
    return t->major >= 0 && t->minor >= 0;
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%.3900s/%s", folder, name);
    return access(path, R_OK) == 0;
}

/* crt/ has a package of its own, and comes with whole toolkits. */
static bool try_cuda(struct tap *t, const char *base, const char *below)
{
    (void)snprintf(t->cuda, sizeof(t->cuda), "%.3800s/%s", base, below);
    if (has_file(t->cuda, "cuda_runtime_api.h") && has_file(t->cuda, "crt/host_defines.h"))
        return true;
    t->cuda[0] = 0;
    return false;
}

/* Headers that torch's own for CUDA include; not needed, but with them its allocator can be asked
 */
static void find_cuda(struct tap *t)
{
    static const char *const wheels[] = {"nvidia/cu13/include", "nvidia/cuda_runtime/include"};
    const char *home = getenv("CUDA_HOME");
    char site[PATH_MAX];

    if (!has_file(t->lib, "libc10_cuda.so") ||
        !has_file(t->torch, "include/c10/cuda/CUDACachingAllocator.h"))
        return;
    (void)snprintf(site, sizeof(site), "%s", t->torch);
    cut_name(site);
    for (size_t i = 0; i < TB_ARRAY_LEN(wheels); i++)
        if (try_cuda(t, site, wheels[i]))
            return;
    if (home && home[0] == '/' && try_cuda(t, home, "include"))
        return;
    (void)try_cuda(t, "/usr/local/cuda", "include");
}

static enum tb_status find_torch(struct tap *t, const char *libtorch, struct tb_error *err)
{
    char c10[PATH_MAX];
    struct tb_elf_facts facts;

    if (!realpath(libtorch, t->libtorch))
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot find '%s'", libtorch);
    (void)snprintf(t->lib, sizeof(t->lib), "%s", t->libtorch);
    cut_name(t->lib);
    (void)snprintf(t->torch, sizeof(t->torch), "%s", t->lib);
    cut_name(t->torch);
    if (!version_from(t, "torch/headeronly/version.h") &&
        !version_from(t, "torch/csrc/api/include/torch/version.h")) /* before torch 2.8 */
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "no torch headers in '%s/include': reinstall torch with its headers",
                       t->torch);
    enum tb_status st = tb_elf_read(t->libtorch, &t->facts, err);
    if (st != TB_OK)
        return st;
    (void)snprintf(c10, sizeof(c10), "%.4000s/libc10.so", t->lib);
    t->cxx11_abi = tb_elf_read(c10, &facts, NULL) == TB_OK ? facts.cxx11_abi : t->facts.cxx11_abi;
    find_cuda(t);
    return TB_OK;
}

/* Cuts @text at its blanks, as make does with $(CXX); at most @max words. */
static size_t cut_words(char *text, char **word, size_t max)
{
    size_t n = 0;
    char *rest = NULL;

    for (char *w = strtok_r(text, " \t", &rest); w && n < max; w = strtok_r(NULL, " \t", &rest))
        word[n++] = w;
    return n;
}

static bool ask_compiler(struct tap *t, const char *cxx)
{
    char words[sizeof(t->cxx)], *argv[MAX_CXX_WORDS + 2], *text = NULL;
    int status;
    size_t n;

    if (strlen(cxx) >= sizeof(words))
        return false;
    memcpy(words, cxx, strlen(cxx) + 1);
    size_t count = cut_words(words, argv, MAX_CXX_WORDS);
    if (!count)
        return false;
    argv[count] = (char *)(uintptr_t) "--version";
    argv[count + 1] = NULL;
    text = tb_command_output(argv, ASK_MS, 4096, &status, &n);
    if (text && status == 0 && n) {
        text[strcspn(text, "\n")] = 0;
        memcpy(t->cxx, cxx, strlen(cxx) + 1);
        (void)snprintf(t->cxx_version, sizeof(t->cxx_version), "%s", text);
    }
    free(text);
    return t->cxx[0] != 0;
}

static enum tb_status find_compiler(struct tap *t, struct tb_error *err)
{
    static const char *const known[] = {"g++", "clang++", "c++"};
    const char *cxx = getenv("CXX");

    if (cxx && cxx[0] && ask_compiler(t, cxx))
        return TB_OK;
    for (size_t i = 0; i < TB_ARRAY_LEN(known); i++)
        if (ask_compiler(t, known[i]))
            return TB_OK;
    return tb_fail(err, TB_ERR_UNSUPPORTED,
                   "no C++ compiler for the torch tap: install one with: apt-get install g++");
}

/* ---------------------------------------------------------------- cache and key */

/* t->cache as a folder of ours that others cannot write to: code is loaded from it */
static enum tb_status own_folder(const struct tap *t, struct tb_error *err)
{
    struct stat st;

    if (mkdir(t->cache, 0700) != 0 && errno != EEXIST)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot make '%s'", t->cache);
    if (lstat(t->cache, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return tb_fail(err, TB_ERR_IO, "'%s' is not a folder of this user", t->cache);
    if ((st.st_mode & 077) && chmod(t->cache, 0700) != 0)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot close '%s' to others", t->cache);
    if (access(t->cache, W_OK | X_OK) != 0)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot write into '%s'", t->cache);
    return TB_OK;
}

/* The user's cache, or where that cannot be had a folder for temporary files */
static enum tb_status make_cache(struct tap *t, struct tb_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *tmp = getenv("TMPDIR");
    struct tb_error first = {0};

    if (cache && cache[0] == '/') {
        (void)mkdir(cache, 0700);
        (void)snprintf(t->cache, sizeof(t->cache), "%.3700s/twinbit", cache);
        if (own_folder(t, &first) == TB_OK)
            return TB_OK;
    } else if (home && home[0] == '/') {
        (void)snprintf(t->cache, sizeof(t->cache), "%.3700s/.cache", home);
        (void)mkdir(t->cache, 0700);
        (void)snprintf(t->cache, sizeof(t->cache), "%.3700s/.cache/twinbit", home);
        if (own_folder(t, &first) == TB_OK)
            return TB_OK;
    }
    (void)snprintf(t->cache, sizeof(t->cache), "%.3700s/twinbit-%u",
                   tmp && tmp[0] == '/' ? tmp : "/tmp", (unsigned)geteuid());
    enum tb_status st = own_folder(t, err);
    return st == TB_OK || first.status == TB_OK
               ? st
               : tb_fail(err, TB_ERR_UNSUPPORTED,
                         "no folder for the torch tap: %.300s; set XDG_CACHE_HOME to one that can "
                         "be written",
                         first.text);
}

static void hash_file(struct tb_fp_stream *s, const char *path)
{
    char buf[16384];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
        tb_fp_stream_update(s, buf, (size_t)n);
    if (fd >= 0)
        (void)close(fd);
}

static int not_hidden(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Names and contents of all files below @folder, in the order of their names. */
static void hash_folder(struct tb_fp_stream *s, const char *folder)
{
    struct dirent **list = NULL;
    struct stat st;
    char path[PATH_MAX];
    int n = scandir(folder, &list, not_hidden, alphasort);

    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof(path), "%.3800s/%.250s", folder, list[i]->d_name);
        tb_fp_stream_update(s, list[i]->d_name, strlen(list[i]->d_name) + 1);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            hash_folder(s, path);
        else
            hash_file(s, path);
        free(list[i]);
    }
    free(list);
}

static void make_key(struct tap *t)
{
    struct tb_fp_stream sources, rest;
    char path[PATH_MAX], id[80];
    struct stat st = {0};

    tb_fp_stream_init(&sources, 0);
    (void)snprintf(path, sizeof(path), "%.3900s/torch", t->libdir);
    hash_folder(&sources, path);
    (void)snprintf(path, sizeof(path), "%.3900s/include", t->libdir);
    hash_folder(&sources, path);
    tb_fp_stream_init(&rest, 0);
    tb_fp_stream_update(&rest, t->cxx, strlen(t->cxx) + 1);
    tb_fp_stream_update(&rest, t->cxx_version, strlen(t->cxx_version) + 1);
    for (size_t i = 0; i < TB_ARRAY_LEN(flags); i++)
        tb_fp_stream_update(&rest, flags[i], strlen(flags[i]) + 1);
    tb_fp_stream_update(&rest, t->cxx11_abi ? "1" : "0", 1);
    tb_fp_stream_update(&rest, t->cuda, strlen(t->cuda) + 1);
    (void)stat(t->libtorch, &st);
    (void)snprintf(id, sizeof(id), "%s", t->facts.build_id);
    if (!id[0]) {
        tb_fp_stream_update(&rest, t->libtorch, strlen(t->libtorch) + 1);
        (void)snprintf(id, sizeof(id), "%llx-%llx%09lx", (unsigned long long)st.st_size,
                       (unsigned long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    }
    (void)snprintf(t->key, sizeof(t->key), "tap-%.64s-%016llx-%016llx", id,
                   (unsigned long long)tb_fp_stream_final(&rest).a,
                   (unsigned long long)tb_fp_stream_final(&sources).a);
}

static void cache_path(const struct tap *t, const char *suffix, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s%s", t->cache, t->key, suffix);
}

/* ---------------------------------------------------------------- compiling */

struct args {
    char text[MAX_ARGS][PATH_MAX + 64];
    char *argv[MAX_ARGS + 1];
    size_t n;
};

static TB_PRINTF(2, 3) void arg(struct args *a, const char *fmt, ...)
{
    va_list ap;

    if (a->n == MAX_ARGS)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(a->text[a->n], sizeof(a->text[0]), fmt, ap);
    va_end(ap);
    a->argv[a->n] = a->text[a->n];
    a->n++;
}

static int compile(const struct tap *t, const char *std, bool cuda, const char *to, int log)
{
    struct args *a = calloc(1, sizeof(*a));
    char words[sizeof(t->cxx)], *word[MAX_CXX_WORDS];
    int status = -1;

    if (!a)
        return -1;
    memcpy(words, t->cxx, sizeof(words));
    for (size_t i = 0, n = cut_words(words, word, MAX_CXX_WORDS); i < n; i++)
        arg(a, "%s", word[i]);
    arg(a, "-std=%s", std);
    for (size_t i = 0; i < TB_ARRAY_LEN(flags); i++)
        arg(a, "%s", flags[i]);
    arg(a, "-D_GLIBCXX_USE_CXX11_ABI=%d", t->cxx11_abi);
    arg(a, "-I%s/include", t->libdir);
    arg(a, "-isystem");
    arg(a, "%s/include", t->torch);
    arg(a, "-isystem");
    arg(a, "%s/include/torch/csrc/api/include", t->torch);
    if (cuda) {
        arg(a, "-DTB_CUDA_HEADERS");
        arg(a, "-isystem");
        arg(a, "%s", t->cuda);
    }
    arg(a, "%s/torch/tap.cc", t->libdir);
    arg(a, "-o");
    arg(a, "%s", to);
    arg(a, "-Wl,--as-needed,--allow-shlib-undefined");
    arg(a, "%s", t->libtorch);
    arg(a, "-L%s", t->lib);
    arg(a, "-l:libc10.so");
    status = tb_command_run(a->argv, log, COMPILE_MS, t->control);
    free(a);
    return status;
}

/* The first line of the log that says "error". */
static enum tb_status compile_failed(const char *log, struct tb_error *err)
{
    char line[400], first[400] = "the compiler failed";
    FILE *f = fopen(log, "re");

    while (f && fgets(line, sizeof(line), f))
        if (strstr(line, "error")) {
            line[strcspn(line, "\n")] = 0;
            memcpy(first, line, sizeof(first));
            break;
        }
    if (f)
        (void)fclose(f);
    return tb_fail(err, TB_ERR_UNSUPPORTED,
                   "cannot build the torch tap: %.300s (all of it: %.150s)", first, log);
}

static enum tb_status build(const struct tap *t, const char *to, struct tb_error *err)
{
    bool newer = t->major > 2 || (t->major == 2 && t->minor >= 10);
    const char *const std = newer ? "c++20" : "c++17", *const other = newer ? "c++17" : "c++20";
    const struct {
        const char *std;
        bool cuda;
    } attempts[] = {{std, true}, {std, false}, {other, false}};
    char log[PATH_MAX], tmp[PATH_MAX], suffix[40];
    int status = -1;

    cache_path(t, ".log", log, sizeof(log));
    (void)snprintf(suffix, sizeof(suffix), ".%d.tmp", (int)getpid());
    cache_path(t, suffix, tmp, sizeof(tmp));
    for (size_t i = t->cuda[0] ? 0 : 1; i < TB_ARRAY_LEN(attempts) && status != 0; i++) {
        /* Without CUDA's headers the first attempt's words are the ones worth keeping. */
        int fd = open(log, O_WRONLY | O_CREAT | O_CLOEXEC | (i > 1 ? O_APPEND : O_TRUNC), 0600);
        if (fd < 0)
            return tb_fail_sys(err, TB_ERR_IO, errno, "cannot write '%s'", log);
        status = compile(t, attempts[i].std, attempts[i].cuda, tmp, fd);
        (void)close(fd);
        if (t->control && __atomic_load_n(&t->control->cancel, __ATOMIC_ACQUIRE))
            break;
    }
    if (status == 0 && rename(tmp, to) == 0) {
        (void)unlink(log);
        return TB_OK;
    }
    (void)unlink(tmp);
    return compile_failed(log, err);
}

/* Another twinbit may be building the same one: wait for it. */
static int take_lock(const struct tap *t)
{
    char path[PATH_MAX];

    cache_path(t, ".lock", path, sizeof(path));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break; /* a file system without locks: build twice, rename is atomic */
        if (t->control && __atomic_load_n(&t->control->cancel, __ATOMIC_ACQUIRE))
            break;
        (void)poll(NULL, 0, 20);
    }
    return fd;
}

static enum tb_status find_or_build(struct tap *t, const char *libtorch, char *path, size_t size,
                                    struct tb_error *err)
{
    char so[PATH_MAX];
    enum tb_status st = find_torch(t, libtorch, err);

    if (st == TB_OK)
        st = find_compiler(t, err);
    if (st == TB_OK)
        st = make_cache(t, err);
    if (st != TB_OK)
        return st;
    make_key(t);
    cache_path(t, ".so", so, sizeof(so));
    int lock = access(so, R_OK) == 0 ? -1 : take_lock(t);
    if (access(so, R_OK) != 0) {
        if (!t->control || !t->control->quiet)
            (void)fprintf(stderr,
                          "twinbit: building the torch tap for torch %d.%d with %s: once for this "
                          "torch, about half a minute\n",
                          t->major, t->minor, t->cxx);
        st = build(t, so, err);
    }
    if (lock >= 0)
        (void)close(lock);
    if (st == TB_OK && strlen(so) >= size)
        return tb_fail(err, TB_ERR_LIMIT, "the path of the cache is too long: '%.200s'", t->cache);
    if (st == TB_OK)
        (void)snprintf(path, size, "%s", so);
    return st;
}

enum tb_status tb_tap_build_controlled(const char *libdir, const char *libtorch, char *path,
                                       size_t size, struct tb_tap_control *control,
                                       struct tb_error *err)
{
    const char *given = getenv("TWINBIT_TAP"); /* built beforehand, by who packages it */
    struct tap *t = calloc(1, sizeof(*t));
    enum tb_status st;

    if (!t)
        return tb_fail(err, TB_ERR_NOMEM, "no memory to build the torch tap");
    t->libdir = libdir;
    t->control = control;
    if (given && given[0] == '/' && strlen(given) < size) {
        (void)snprintf(path, size, "%s", given);
        st = TB_OK;
    } else {
        st = find_or_build(t, libtorch, path, size, err);
    }
    free(t);
    return st;
}

enum tb_status tb_tap_build(const char *libdir, const char *libtorch, char *path, size_t size,
                            struct tb_error *err)
{
    return tb_tap_build_controlled(libdir, libtorch, path, size, NULL, err);
}
