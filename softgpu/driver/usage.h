/*
 * usage - what a process does with its devices, for NVML in any process of the same user.
 *
 * The driver keeps one page in a memory file called "softgpu-usage" (memfd_create, never written to
 * a disk): others find it among /proc/PID/fd, and it is gone with the process. Counters are single
 * words in the machine's byte order, written without locks: a reader may see one update without the
 * next.
 *
 *   0   8 magic "SGUSAGE1"   8   4 version: 1   12   4 pid of the writer; another: a forked child's
 * copy 16  8 zero               24  8 rows of SG_MAX_DEVICES devices, by physical index
 *
 * Valid: whole (a shorter file is none yet), magic and version as said, pid that of /proc/PID.
 */
#ifndef SG_DRIVER_USAGE_H
#define SG_DRIVER_USAGE_H

#include "softgpu/driver/options.h"

#include <stdatomic.h>

#define SG_USAGE_MAGIC UINT64_C(0x3145474153554753)
#define SG_USAGE_FILE "softgpu-usage"
#define SG_USAGE_WINDOW UINT64_C(250000000) /* ns in which utilization is counted */

struct sg_usage_device {
    _Atomic uint64_t contexts;      /* active ones: the device is in use while there is one */
    _Atomic uint64_t used;          /* bytes allocated */
    _Atomic uint64_t running;       /* kernels that execute just now */
    _Atomic uint64_t since;         /* CLOCK_MONOTONIC, ns: when the first of them began */
    _Atomic uint64_t window;        /* index of the window that @current counts in */
    _Atomic uint64_t current, last; /* busy ns in that window and in the one before */
};

struct sg_usage {
    uint64_t magic;
    uint32_t version, pid;
    uint64_t zero;
    struct sg_usage_device devices[SG_MAX_DEVICES];
};

/** sg_usage_init - make the page; without one nothing is counted, and nothing else changes */
void sg_usage_init(void);
void sg_usage_context(int physical, int change);
void sg_usage_memory(int physical, uint64_t used);
/** sg_usage_begin / sg_usage_end - around the execution of a kernel */
void sg_usage_begin(int physical);
void sg_usage_end(int physical);

/** sg_usage_busy - busy ns of the last whole window before @now; any process */
uint64_t sg_usage_busy(const struct sg_usage_device *d, uint64_t now);

#endif
