/* broken - how the driver breaks its devices (SOFTGPU_FAULT); softgpu/broken does the work. */
#ifndef SG_DRIVER_BROKEN_H
#define SG_DRIVER_BROKEN_H

#include "softgpu/broken/broken.h"
#include "softgpu/driver/driver.h"

/** sg_broken_finish - at the end of the process */
void sg_broken_finish(void);
/** sg_broken_start - at cuInit: sg_driver.broken, if the environment asks for it */
CUresult sg_broken_start(void);
/** sg_broken_copy - a copy was made: damage it */
void sg_broken_copy(const struct sg_copy_work *c, const struct CUctx_st *ctx);

#endif
