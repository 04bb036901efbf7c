/* identity - what a device is called, from options alone: the driver's devices and NVML's are the
 * same. */
#ifndef SG_DRIVER_IDENTITY_H
#define SG_DRIVER_IDENTITY_H

#include "softgpu/driver/options.h"

#include <cuda.h>

#define SG_DEVICE_NAME 128   /* bytes, with NUL */
#define SG_CLOCK_KHZ 1410000 /* of SMs, and the rate that %clock is said to have */
#define SG_MEMORY_CLOCK_KHZ 1215000
#define SG_BUS_WIDTH 5120 /* bits */

/** sg_hash64 - a well mixed number of three: orders and identities are drawn from it */
uint64_t sg_hash64(uint64_t seed, uint64_t a, uint64_t b);

void sg_device_uuid(int physical, CUuuid *uuid);
void sg_device_name(const struct sg_options *opt, char name[SG_DEVICE_NAME]);

/** sg_pci_bus - where device @physical sits: domain 0, this bus, slot 0, function 0 */
static inline unsigned sg_pci_bus(int physical)
{
    return (unsigned)physical + 1;
}

/** sg_pci_parse - the physical index of "domain:bus:slot.function" or "bus:slot.function", -1 if
 * there cannot be a device; -2 if @id is none */
int sg_pci_parse(const char *id);

#endif
