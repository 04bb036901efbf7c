/* The reader's side of usage.h. */
#include "softgpu/driver/usage.h"

uint64_t sg_usage_busy(const struct sg_usage_device *d, uint64_t now)
{
    uint64_t window = now / SG_USAGE_WINDOW, start = window * SG_USAGE_WINDOW;
    uint64_t counted = atomic_load(&d->window), since = atomic_load(&d->since), busy = 0;

    if (counted == window)
        busy = atomic_load(&d->last);
    else if (counted + 1 == window)
        busy = atomic_load(&d->current);
    if (atomic_load(&d->running) && since < start) {
        uint64_t before = start - SG_USAGE_WINDOW;

        busy += start - (since > before ? since : before);
    }
    return busy < SG_USAGE_WINDOW ? busy : SG_USAGE_WINDOW;
}
