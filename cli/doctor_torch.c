/* Checks of what a PyTorch job needs: the injected library, python, torch, the tap. */
#include "cli/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collector/collector.h"

void tb_doctor_libdir(struct tb_doctor *d, struct tb_doctor_check *c)
{
    struct tb_error err = {0};

    if (tb_cli_libdir(d->given_libdir, d->libdir, sizeof(d->libdir), &err) == TB_OK) {
        tb_doctor_say(c, TB_DOCTOR_OK, "%s/libtwinbit.so", d->libdir);
        return;
    }
    d->libdir[0] = '\0';
    tb_doctor_say(c, TB_DOCTOR_MISSING, "%s", err.text);
    tb_doctor_mend(c, "make build");
}

void tb_doctor_python(struct tb_doctor *d, struct tb_doctor_check *c)
{
    const char *env = getenv("TWINBIT_PYTHON");
    const char *name = env && *env ? env : "python3";
    char out[128] = "", code[] = "import platform; print(platform.python_version())", flag[] = "-c";
    char *argv[] = {d->python, flag, code, NULL};

    if (!tb_doctor_find(name, d->python, sizeof(d->python)) ||
        tb_doctor_capture(argv, NULL, out, sizeof(out)) != 0) {
        d->python[0] = '\0';
        tb_doctor_say(c, TB_DOCTOR_MISSING, "cannot run '%s'%s", name,
                      env && *env ? " (TWINBIT_PYTHON)" : "");
        tb_doctor_mend(c, env && *env ? "unset TWINBIT_PYTHON" : "apt-get install python3");
        return;
    }
    out[strcspn(out, "\n")] = '\0';
    tb_doctor_say(c, TB_DOCTOR_OK, "%s, %s", d->python, out);
}

/* Is libtwinbit.so in the maps of a program that was started with it? */
void tb_doctor_preload(struct tb_doctor *d, struct tb_doctor_check *c)
{
    static char maps[1 << 16];
    char lib[4200], maps_path[] = "/proc/self/maps", cat[] = "cat", flag[] = "-c";
    char code[] = "print(open('/proc/self/maps').read())";
    char *with_cat[] = {cat, maps_path, NULL}, *with_python[] = {d->python, flag, code, NULL};

    if (!d->libdir[0]) {
        tb_doctor_say(c, TB_DOCTOR_MISSING, "not tried: no library");
        return;
    }
    (void)snprintf(lib, sizeof(lib), "%s/libtwinbit.so", d->libdir);
    int status = tb_doctor_capture(d->python[0] ? with_python : with_cat, lib, maps, sizeof(maps));
    if (status == 0 && strstr(maps, "/libtwinbit.so")) {
        tb_doctor_say(c, TB_DOCTOR_OK, "the library gets into %s",
                      d->python[0] ? "this python" : "programs");
        return;
    }
    tb_doctor_say(c, TB_DOCTOR_NOTE, "LD_PRELOAD has no effect on '%s'",
                  d->python[0] ? d->python : "cat");
    tb_doctor_mend(c, "twinbit run --attach python -- CMD");
}

static const char torch_code[] =
    "import torch, os\n"
    "lib = os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_cpu.so')\n"
    "print(torch.__version__)\n"
    "print(int(torch.compiled_with_cxx11_abi()))\n"
    "print(torch.get_num_threads())\n"
    "print(lib if os.path.exists(lib) else '')\n";

/* Ends @text at its first newline; what comes after it, or NULL */
static char *cut_line(char *text)
{
    char *end = strchr(text, '\n');

    if (!end)
        return NULL;
    *end = '\0';
    return end + 1;
}

void tb_doctor_torch(struct tb_doctor *d, struct tb_doctor_check *c)
{
    char out[2048], flag[] = "-c", code[sizeof(torch_code)];
    char *argv[] = {d->python, flag, code, NULL}, *line[4] = {out};

    if (!d->python[0]) {
        tb_doctor_say(c, TB_DOCTOR_MISSING, "not tried: no python");
        return;
    }
    memcpy(code, torch_code, sizeof(code));
    if (tb_doctor_capture(argv, NULL, out, sizeof(out)) != 0) {
        tb_doctor_say(c, TB_DOCTOR_MISSING, "'%s' cannot import torch", d->python);
        tb_doctor_mend(c, "%s -m pip install torch", d->python);
        return;
    }
    for (size_t i = 1; i < TB_ARRAY_LEN(line); i++)
        line[i] = line[i - 1] ? cut_line(line[i - 1]) : NULL;
    if (!line[3]) {
        tb_doctor_say(c, TB_DOCTOR_MISSING, "'%s' gave no answer about torch", d->python);
        return;
    }
    (void)cut_line(line[3]);
    (void)snprintf(d->libtorch, sizeof(d->libtorch), "%s", line[3]);
    if (d->libtorch[0])
        tb_doctor_say(c, TB_DOCTOR_OK, "%s, C++11 ABI %s, %s threads, %s", line[0], line[1],
                      line[2], d->libtorch);
    else
        tb_doctor_say(c, TB_DOCTOR_NOTE, "%s has no libtorch_cpu.so of its own", line[0]);
}

void tb_doctor_compiler(struct tb_doctor *d, struct tb_doctor_check *c)
{
    const char *env = getenv("CXX");
    const char *const names[] = {env && *env ? env : "c++", "g++", "clang++"};
    char path[1024], out[512], flag[] = "--version";
    char *argv[] = {path, flag, NULL};

    (void)d;
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++) {
        if (!tb_doctor_find(names[i], path, sizeof(path)) ||
            tb_doctor_capture(argv, NULL, out, sizeof(out)) != 0)
            continue;
        (void)cut_line(out);
        tb_doctor_say(c, TB_DOCTOR_OK, "%s: %s", path, out);
        return;
    }
    tb_doctor_say(c, TB_DOCTOR_NOTE,
                  "no C++ compiler: torch is recorded from Python, which is much slower");
    tb_doctor_mend(c, "apt-get install g++");
}

/* As the collector decides it: the tap written in Python, if there is one and nothing else can be
 * had. */
static void say_fallback(const struct tb_doctor *d, struct tb_doctor_check *c, enum tb_status st,
                         const struct tb_error *why)
{
    char path[4200];

    (void)snprintf(path, sizeof(path), "%s/libtwinbit_pytap.so", d->libdir);
    if (st == TB_ERR_UNSUPPORTED && access(path, R_OK) == 0)
        tb_doctor_say(c, TB_DOCTOR_NOTE,
                      "the Python tap, which is slower and sees less: '%.200s'; %.250s", path,
                      why->text);
    else
        tb_doctor_say(c, TB_DOCTOR_MISSING, "%s", why->text);
}

void tb_doctor_tap(struct tb_doctor *d, struct tb_doctor_check *c)
{
    struct timespec a, b;
    struct tb_error err = {0};
    char path[1024] = "";

    if (!d->libdir[0] || !d->libtorch[0]) {
        tb_doctor_say(c, TB_DOCTOR_NOTE, "not tried: no %s", d->libdir[0] ? "torch" : "library");
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &a);
    enum tb_status st = tb_tap_build(d->libdir, d->libtorch, path, sizeof(path), &err);
    (void)clock_gettime(CLOCK_MONOTONIC, &b);
    double s = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    if (st == TB_OK)
        tb_doctor_say(c, TB_DOCTOR_OK, "%s (%s)", path, s < 1 ? "cached" : "built now");
    else
        say_fallback(d, c, st, &err);
}
