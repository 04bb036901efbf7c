#include "softgpu/driver/identity.h"

#include <stdio.h>

uint64_t sg_hash64(uint64_t seed, uint64_t a, uint64_t b)
{
    const uint64_t in[3] = {seed, a, b};
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);

    for (unsigned i = 0; i < 3; i++) { /* splitmix64's finaliser over each word */
        h += in[i] + UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
        h ^= h >> 31;
    }
    return h;
}

void sg_device_uuid(int physical, CUuuid *uuid)
{
    uint64_t hi = sg_hash64(UINT64_C(0x736f6674677075), (uint64_t)physical, 1);
    uint64_t lo = sg_hash64(UINT64_C(0x736f6674677075), (uint64_t)physical, 2);
    unsigned char *b = (unsigned char *)uuid->bytes;

    for (unsigned i = 0; i < 8; i++) {
        b[i] = (unsigned char)(hi >> (8 * i));
        b[8 + i] = (unsigned char)(lo >> (8 * i));
    }
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x80); /* RFC 9562, version 8: custom */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
}

void sg_device_name(const struct sg_options *opt, char name[SG_DEVICE_NAME])
{
    if (opt->name[0])
        snprintf(name, SG_DEVICE_NAME, "%s", opt->name);
    else
        snprintf(name, SG_DEVICE_NAME, "softgpu sm_%u", (unsigned)opt->arch);
}

int sg_pci_parse(const char *id)
{
    unsigned domain = 0, bus, slot, function = 0;

    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = 0;
        if (sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2)
            return -2;
    }
    if (domain != 0 || slot != 0 || function != 0 || bus == 0 || bus > SG_MAX_DEVICES)
        return -1;
    return (int)bus - 1;
}
