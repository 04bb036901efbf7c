/*
 * preload/isolated - which option keeps twinbit's part out of a Python: it is found by PYTHONPATH,
 * as sitecustomize.
 */
#ifndef TB_DETERMINISTIC_PRELOAD_ISOLATED_H
#define TB_DETERMINISTIC_PRELOAD_ISOLATED_H

/**
 * tb_preload_isolated - 'I', 'E' or 'S' if one of them is among Python's own options, else 0
 * @options: the words behind "python", up to a NULL
 *
 * Threads: any. Allocates: no.
 */
char tb_preload_isolated(char *const *options);

#endif
