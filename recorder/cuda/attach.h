/*
 * attach.h - how a front end in another library (shim/) gets at the engine in libtwinbit_cuda.so.
 *
 * The front end opens libtwinbit_cuda.so and calls twinbit_cuda_attach(), which attaches to the
 * collector and says what `twinbit run` was told.
 */
#ifndef TB_RECORDER_CUDA_ATTACH_H
#define TB_RECORDER_CUDA_ATTACH_H

#include "recorder/cuda/front.h"

enum tb_cuda_mode {
    TB_CUDA_OFF = 0,   /* hand nothing over */
    TB_CUDA_SEE = 1,   /* hand over each call */
    TB_CUDA_LEGAL = 2, /* CUPTI sees the calls: say only where CUDA may be called */
};

/** struct tb_cuda_engine - the functions of front.h */
struct tb_cuda_engine {
    uint32_t size; /* filled in by who asks */
    void (*enter)(struct tb_cuda_call *call);
    void (*exit)(struct tb_cuda_call *call);
    void (*legal)(void);
    void (*unknown)(uint32_t id, const char *name);
};

/**
 * twinbit_cuda_attach - what the front end @front is to do; the first call starts the engine
 * @out: filled in unless OFF is returned
 * Threads: one. Calls no CUDA. errno is kept.
 */
enum tb_cuda_mode twinbit_cuda_attach(const struct tb_cuda_front *front,
                                      struct tb_cuda_engine *out);
typedef enum tb_cuda_mode (*twinbit_cuda_attach_fn)(const struct tb_cuda_front *front,
                                                    struct tb_cuda_engine *out);

/** tb_cuda_runtime - the recorder of this process, NULL: off; inside libtwinbit_cuda.so */
const struct tb_rec_api *tb_cuda_runtime(void);

/** twinbit_shim_symbol - exported by the shim: the real driver's function of that name, or NULL */
typedef void *(*twinbit_shim_symbol_fn)(const char *name);

#endif
