/*
 * make_trace - writes a small trace for tests of the command line: 2 steps of an invented job.
 *
 * usage: make_trace OUT [same|differs|lost|cut|device]
 *   differs: the write of step 1's second addmm has another fingerprint; lost: 3 records were lost;
 *   cut: the program is killed before it closes the trace; device: with work of a GPU before the
 *   steps, of which one fingerprint never came
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"
#include "store/store.h"

struct maker {
    struct tb_store *store;
    struct tb_error err;
    uint32_t process, main_thread, backward_thread;
    uint64_t seq;
    bool differs;
};

static void must(struct maker *m, enum tb_status st)
{
    if (st == TB_OK)
        return;
    fprintf(stderr, "make_trace: %s\n", m->err.text);
    exit(2);
}

static struct tb_store_access access_of(uint64_t alloc, const char *content)
{
    struct tb_store_access a = {.alloc = alloc, .fp_kind = TB_FP_BYTES};

    tb_fp_store(a.fp, tb_fp_host(content, strlen(content), 0));
    return a;
}

static void event(struct maker *m, uint32_t thread, unsigned kind, uint64_t step, const char *site,
                  const char *range, const struct tb_store_access *a, uint32_t n)
{
    struct tb_store_event e = {.thread = thread,
                               .kind = (uint8_t)kind,
                               .seq = m->seq,
                               .open = m->seq,
                               .step = step,
                               .time_ns = 1000000 * m->seq};

    must(m, tb_store_intern_site(m->store, site, strlen(site), &e.site, &m->err));
    if (*range)
        must(m, tb_store_intern_range(m->store, range, strlen(range), &e.range, &m->err));
    must(m, tb_store_event(m->store, &e, a, n, NULL, &m->err));
    m->seq++;
}

static void addmm(struct maker *m, uint64_t step, const char *content)
{
    static const char site[] =
        "torch\naten::addmm\nr f32 cpu [4,8] - self\nr f32 cpu [4,2] [1,4] mat1\n"
        "w f32 cpu [4,8] - out\n";
    struct tb_store_access a[] = {access_of(1, "bias"), access_of(2, "input"),
                                  access_of(3, content)};

    a[0].fp_kind = a[1].fp_kind = TB_FP_NONE;
    memset(a[0].fp, 0, 16);
    memset(a[1].fp, 0, 16);
    event(m, m->main_thread, TB_EV_OP, step, site, "forward\tmodel.fc\t", a, 3);
}

static void step(struct maker *m, uint64_t step)
{
    static const char gelu[] = "torch\naten::gelu\nr f32 cpu [4,8] - self\nw f32 cpu [4,8] - out\n";
    static const char item[] =
        "torch\naten::_local_scalar_dense\nr f32 cpu [] - self\nh f32 cpu [] - out\n";
    static const char mm[] = "torch\naten::mm\nr f32 cpu [8,4] - self\nw f32 cpu [8,8] - out\n";
    static const char state[] = "torch\nparameters\ns f32 cpu [8,4] - fc.weight\n";
    static const char end[] = "torch\nstep\n";
    struct tb_store_access a[2] = {access_of(3, "x"), access_of(4, "y")};
    struct tb_store_access loss[2] = {access_of(4, "y"), {.fp_kind = TB_FP_SCALAR}};
    double value = 2.5 + (double)step;

    memcpy(loss[1].fp, &value, sizeof(value));
    addmm(m, step, "first");
    addmm(m, step, m->differs && step == 1 ? "other" : "second");
    event(m, m->main_thread, TB_EV_OP, step, gelu, "forward\tmodel.act\t", a, 2);
    event(m, m->backward_thread, TB_EV_OP, step, mm, "backward\tmodel.fc\t", a, 2);
    event(m, m->main_thread, TB_EV_OP, step, item, "forward\t\t", loss, 2);
    event(m, m->main_thread, TB_EV_STATE, step, state, "", a, 1);
    event(m, m->main_thread, TB_EV_STEP, step, end, "", NULL, 0);
}

static void device(struct maker *m)
{
    static const char copy[] = "cuda\ncuMemcpyHtoDAsync\tkind=htod\nq ? cuda [] - stream\n"
                               "w u8 cuda:0 [64] - dst\n";
    static const char scale[] = "cuda\nscale\tgrid=2,1,1\tblock=64,1,1\tshared=0\t"
                                "symbol=_Z5scalePfi\timage=0123abcd\nq ? cuda [] - stream\n"
                                "r f32 cuda:0 [16] - 0\nw f32 cuda:0 [16] - 0\n";
    static const char wait[] = "cuda\ncuStreamWaitEvent\nq ? cuda [] - stream\n"
                               "q ? cuda [] - event\n";
    struct tb_store_access a[3] = {
        {.alloc = TB_ALLOC_STREAM + 2}, access_of(7, "batch"), {.alloc = 7}};
    struct tb_store_access order[2] = {a[0], {.alloc = TB_ALLOC_EVENT + 3}};
    struct tb_store_access big[3] = {a[0], {.alloc = 7}, access_of(7, "part")};

    big[2].fp_kind = TB_FP_SAMPLED;
    event(m, m->main_thread, TB_EV_COPY, 0, copy, "", a, 2);
    event(m, m->main_thread, TB_EV_SYNC, 0, wait, "", order, 2);
    event(m, m->main_thread, TB_EV_LAUNCH, 0, scale, "", big, 3);
    a[1] = a[2];
    event(m, m->main_thread, TB_EV_LAUNCH, 0, scale, "", a, 3);
    must(m, tb_store_coverage(m->store, m->process, m->main_thread, 0, 1, "fingerprint", "scale",
                              "never arrived: the process ended before its device wrote it", 1,
                              &m->err));
}

int main(int argc, char **argv)
{
    struct maker m = {.store = NULL};
    struct tb_store_options options = {.force = false};
    struct tb_store_process process = {.rank = -1,
                                       .worker = -1,
                                       .pid = 4242,
                                       .argv = "python train.py --lr 0.1",
                                       .identity = "python train.py --lr 0.1"};
    const char *what = argc > 2 ? argv[2] : "same";

    if (argc < 2) {
        fprintf(stderr, "usage: make_trace OUT [same|differs|lost|cut|device]\n");
        return 2;
    }
    m.differs = strcmp(what, "differs") == 0;
    must(&m, tb_store_create(&m.store, argv[1], &options, &m.err));
    must(&m, tb_store_meta(m.store, "host", "testhost", &m.err));
    must(&m, tb_store_meta(m.store, "torch", "2.15.0 \"quoted\"", &m.err));
    must(&m, tb_store_add_process(m.store, &process, &m.process, &m.err));
    must(&m, tb_store_add_thread(m.store, m.process, 0, "main", &m.main_thread, &m.err));
    must(&m, tb_store_add_thread(m.store, m.process, 1, "autograd#0", &m.backward_thread, &m.err));
    if (strcmp(what, "device") == 0)
        device(&m);
    step(&m, 0);
    step(&m, 1);
    must(&m, tb_store_coverage(m.store, m.process, 0, 0, 1, "opaque tensor", "aten::foo", "sparse",
                               7, &m.err));
    if (strcmp(what, "lost") == 0)
        must(&m, tb_store_lost(m.store, m.process, 0, 3, "ring full", &m.err));
    if (strcmp(what, "cut") == 0) {
        must(&m, tb_store_flush(m.store, &m.err));
        return raise(SIGKILL);
    }
    must(&m, tb_store_close(m.store, &m.err));
    return 0;
}
