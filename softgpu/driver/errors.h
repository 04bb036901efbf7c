/* Names of CUresult, generated from the enumeration in cuda.h. */
#ifndef SG_DRIVER_ERRORS_H
#define SG_DRIVER_ERRORS_H

struct sg_error_name {
    int value;
    const char *name;
};
extern const struct sg_error_name sg_error_names[]; /* by value */
extern const unsigned sg_error_names_count;

#endif
