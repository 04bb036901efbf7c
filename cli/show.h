/*
 * show.h - views of a trace; private to cli/. cmd_show.c has the table of them.
 */
#ifndef TB_CLI_SHOW_H
#define TB_CLI_SHOW_H

#include "cli/cli.h"
#include "store/store.h"

/** struct tb_show - what is shown, and the state of the output */
struct tb_show {
    struct tb_trace *trace;
    struct tb_cli_steps step;
    const char *op, *module, *thread; /* NULL: any */
    uint64_t limit;                   /* rows, 0: all */
    bool json;
    uint64_t rows; /* printed so far */
};

enum tb_status tb_show_summary(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_env(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_processes(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_coverage(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_pins(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_sites(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_steps(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_events(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_show_tensors(struct tb_show *s, struct tb_error *err) TB_MUST_CHECK;

/**
 * tb_show_row - begin a row: in JSON the comma and newline that separate it from the one before
 * Returns: false if the limit is reached; nothing was printed then.
 */
bool tb_show_row(struct tb_show *s);

/** tb_show_field - ,"key":"text" (without the comma if @first); null if @text is NULL */
void tb_show_field(const char *key, const char *text, bool first);
/** tb_show_number - ,"key":n */
void tb_show_number(const char *key, int64_t n);

/** tb_show_hex - 16 bytes as 32 digits; returns @out */
const char *tb_show_hex(const uint8_t bytes[16], char out[33]);

/** tb_show_kind - "launch": kind of an event; static */
const char *tb_show_kind(unsigned kind);
/** tb_show_alloc - "12+256", "stream:2", "rng:0": what an access names; returns @out */
const char *tb_show_alloc(const struct tb_store_access *a, char *out, size_t size);
/** tb_show_kernel - name of a site's kernel as its source has it, NULL: it is none */
const char *tb_show_kernel(const struct tb_site *site, char *out, size_t size);
/** tb_show_launch - "  [launch grid 2,1,1 block 64,1,1 stream:2 cuda:0]" of work of a GPU */
void tb_show_launch(const struct tb_trace_event *e);
/** tb_show_launch_json - ,"detail":..., "kernel":..., "stream":... */
void tb_show_launch_json(const struct tb_trace_event *e);
/** tb_show_is_result - access @i of an event is what it wrote, or what it brought to the host */
bool tb_show_is_result(const struct tb_trace_event *e, uint32_t i);
/** tb_show_lacks_fingerprint - work of a GPU that wrote something that nobody hashed */
bool tb_show_lacks_fingerprint(const struct tb_trace_event *e);

/** tb_show_matches_op - "aten::add.Tensor" is named by itself, "aten::add", "add.Tensor" and "add"
 */
bool tb_show_matches_op(const char *name, const char *wanted);
/** tb_show_matches_module - @path is @wanted or lies in it */
bool tb_show_matches_module(const char *path, const char *wanted);

#endif
