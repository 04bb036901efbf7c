/* CUDA_VISIBLE_DEVICES: which devices, in which order. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/uuid.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The one device whose UUID begins with @text ("GPU-" included), or -1. */
static int by_uuid(const char *text, size_t len, int n)
{
    int found = -1;

    for (int i = 0; i < n; i++) {
        char name[SG_UUID_TEXT];
        CUuuid uuid;

        sg_device_uuid(i, &uuid);
        sg_uuid_text(&uuid, name);
        if (len < sizeof(name) && strncasecmp(name, text, len) == 0) {
            if (found >= 0)
                return -1;
            found = i;
        }
    }
    return found;
}

static int by_name(const char *text, size_t len, int n)
{
    char digits[12];
    int index;

    while (len && isspace((unsigned char)text[0])) {
        text++;
        len--;
    }
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    if (len > 4 && strncasecmp(text, "GPU-", 4) == 0)
        return by_uuid(text, len, n);
    if (len == 0 || len >= sizeof(digits) || strspn(text, "0123456789") < len)
        return -1;
    memcpy(digits, text, len);
    digits[len] = 0;
    index = atoi(digits);
    return index >= 0 && index < n ? index : -1;
}

int sg_visible_devices(int n, int physical[SG_MAX_DEVICES])
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;

    if (!text) {
        for (; count < n; count++)
            physical[count] = count;
        return n;
    }
    /* documented: from the first name that means no device on, none is visible */
    while (*text && count < SG_MAX_DEVICES) {
        size_t len = strcspn(text, ",");
        int index = by_name(text, len, n);

        for (int i = 0; i < count; i++)
            if (physical[i] == index)
                index = -1;
        if (index < 0)
            break;
        physical[count++] = index;
        text += len;
        text += *text == ',';
    }
    return count;
}
