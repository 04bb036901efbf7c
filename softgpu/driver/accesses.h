/*
 * softgpu/driver/accesses.h - tells a tool what kernels read and write
 * (softgpu_tools.set_accesses).
 */
#ifndef SG_DRIVER_ACCESSES_H
#define SG_DRIVER_ACCESSES_H

struct sg_launch;
struct softgpu_access_hooks; /* seam.h */

void sg_accesses_set(const struct softgpu_access_hooks *hooks);
/** sg_accesses_watch - a launch is about to run: watched if somebody wants to know */
void sg_accesses_watch(struct sg_launch *l);

#endif
