/* A device's UUID as text, as CUDA_VISIBLE_DEVICES has it. */
#ifndef SG_DRIVER_UUID_H
#define SG_DRIVER_UUID_H

#include <cuda.h>
#include <stdio.h>

#define SG_UUID_TEXT 41 /* "GPU-", 32 digits, 4 dashes, NUL */

static inline void sg_uuid_text(const CUuuid *uuid, char text[SG_UUID_TEXT])
{
    char *p = text + sprintf(text, "GPU-");

    for (unsigned i = 0; i < 16; i++)
        p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                     (unsigned char)uuid->bytes[i]);
}

#endif
