/* Data of callbacks in strict mode: lent in pages that nobody can touch once they were taken back,
 * so that a tool that keeps a pointer is found (seam.h: lend, take_back). Any thread. */
#ifndef SG_DRIVER_LEND_H
#define SG_DRIVER_LEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *sg_lend(size_t size, const char *what);
void sg_take_back(void *lent);
/** sg_lent_touched - in the signal's handler: report a use of what was taken back, and let it be;
 * false: the address is nothing of it */
bool sg_lent_touched(uint64_t addr, bool write, uintptr_t site);

#endif
