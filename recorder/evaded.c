/*
 * A process that has CUDA's driver without the library that stands before it: it was started with
 * another LD_LIBRARY_PATH, or opened the driver by its path. The parent finds those that live long
 * enough; the others say so themselves when they end.
 */
#include "recorder/recorder_internal.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

struct found {
    bool driver, shim;
};

static int each_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    struct found *f = arg;
    const char *name = o->dlpi_name ? strrchr(o->dlpi_name, '/') : NULL;

    (void)size;
    if (!name || strncmp(name, "/libcuda.so", 11) != 0)
        return 0;
    if (name - o->dlpi_name >= 5 && strncmp(name - 5, "/shim", 5) == 0)
        f->shim = true;
    else
        f->driver = true;
    return 0;
}

__attribute__((destructor)) static void at_end(void)
{
    struct found f = {false, false};
    struct tb_rec_thread *t;
    int saved = errno;

    if (!getenv(TB_WIRE_ENV) || !getenv("TWINBIT_CUDA_REAL") || tb_rt.cuda)
        return;
    (void)dl_iterate_phdr(each_object, &f);
    if (f.driver && !f.shim && tb_rt_open() && (t = tb_rt_self()) != NULL)
        tb_rt.api.cover(
            t, 1, TB_REC_NO_SEQ, "process", "libcuda",
            "used the driver without the library before it (LD_LIBRARY_PATH was changed?)", 1);
    errno = saved;
}
