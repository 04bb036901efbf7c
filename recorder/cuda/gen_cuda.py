#!/usr/bin/env python3
"""Generates what the CUDA recorder knows of the driver API from the installed public headers.

usage: gen_cuda.py --cc CC --include FOLDER[;FOLDER...] --hooked FILE --out FOLDER

Reads cuda.h and cudaTypedefs.h as softgpu/driver/gen_driver.py does, CUPTI's cupti_driver_cbid.h and
generated_cuda_meta.h if they are there, and @hooked (hooked.txt), and writes
  cuda_calls.h    TB_CUDA_<name>: CUPTI's callback id, struct tb_<name>_params
  cuda_names.c    callback id -> name; which ids are hooked
  cuda_layout.c   compiles if the structs are laid out as CUPTI's
  shim_exports.c  the functions of libcuda.so.1 that are hooked
  shim_stubs.S    the others: jumps through a table
  shim_table.c    name -> place in that table; for cuGetProcAddress name x version -> function
A function is exported if cuda.h or a graphics header declares it.
"""
import argparse
import fnmatch
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "softgpu", "driver"))
from gen_driver import (PROFILER, assign_ids, declared_functions, graphics_names, pfn_versions,  # noqa: E402
                        preprocess, proc_rows, read)

NOTICE = "/* Written by gen_cuda.py from the installed CUDA headers; do not edit. */\n"
ID = r"CUPTI_DRIVER_TRACE_CBID_(cu\w+)\s*=\s*(\d+)"
# Written by hand in shim/: what they hand out must be ours.
BY_HAND = ("cuGetProcAddress", "cuGetProcAddress_v2")


def hooked_names(path, functions):
    """Names of @functions that the list at @path lets in; a line that says nothing is an error."""
    names = set()
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            pattern = line.split("#")[0].strip()
            out = pattern.startswith("!")
            found = {n for n, f in functions.items() if fnmatch.fnmatchcase(f.plain, pattern.lstrip("!"))}
            if pattern and "*" not in pattern and not found:
                print(f"gen_cuda.py: note: {path}:{number}: no '{pattern}' in these headers", file=sys.stderr)
            names = names - found if out else names | found
    return names - set(BY_HAND)


def write_calls(out, functions, ids, headers):
    out.write(NOTICE + "#ifndef TB_RECORDER_CUDA_CALLS_H\n#define TB_RECORDER_CUDA_CALLS_H\n\n"
              "/* Every version of every function under the name that is exported. */\n"
              "#ifndef __CUDA_API_VERSION_INTERNAL\n"
              "#ifdef CUDA_VERSION\n#error \"include gen/recorder/cuda_calls.h before cuda.h\"\n#endif\n"
              "#define __CUDA_API_VERSION_INTERNAL 1\n#endif\n" + "".join(f"#include <{h}>\n" for h in headers) +
              "\nenum tb_cuda_id {\n")
    out.write("".join(f"    TB_CUDA_{name} = {value},\n" for name, value in sorted(ids.items(), key=lambda i: i[1])))
    known = [v for v in ids.values() if v < 0x10000]
    out.write(f"}};\n#define TB_CUDA_ID_END {max(known, default=0) + 1} /* of CUPTI's ids that were known */\n\n")
    for f in functions.values():
        out.write(f"struct tb_{f.name}_params {{{f.fields()} }};\n")
    out.write("\n#endif\n")


def write_names(out, ids, hooked):
    out.write(NOTICE + '#include "recorder/cuda/names.h"\n\n#include <stddef.h>\n\n'
              "const struct tb_cuda_name tb_cuda_names[] = {\n")
    rows = sorted((v, n) for n, v in ids.items())
    for value, name in rows:
        out.write(f'    {{{value}, {str(name in hooked).lower()}, "{name}"}},\n')
    out.write(f"}};\nconst size_t tb_cuda_names_count = {len(rows)};\n")


def meta_fields(text):
    """name -> fields of CUPTI's <name>_params"""
    found = {}
    for body, name in re.findall(r"typedef\s+struct\s+\w+_params_st\s*\{([^}]*)\}\s*(cu\w+)_params;", text):
        found[name] = re.findall(r"(\w+)\s*(?:\[\s*\w*\s*\])*\s*;", body)
    return found


def write_layout(out, functions, meta):
    out.write(NOTICE + '#include "cuda_calls.h"\n\n#include <assert.h>\n#include <stddef.h>\n')
    if not meta:
        out.write("/* no generated_cuda_meta.h in these headers */\n")
        return
    out.write("#include <generated_cuda_meta.h>\n\n")
    for name, fields in meta.items():
        f = functions.get(name)
        if not f or len(fields) != len(f.params):
            continue
        ours = f"struct tb_{name}_params"
        out.write(f'static_assert(sizeof({ours}) == sizeof({name}_params), "{name}");\n')
        for theirs, (_, field) in zip(fields, f.params):
            out.write(f'static_assert(offsetof({ours}, {field}) == offsetof({name}_params, {theirs}), '
                      f'"{name}.{theirs}");\n')


def write_exports(out, functions, order, hooked):
    out.write(NOTICE + '#include "cuda_calls.h"\n#include "recorder/cuda/shim/shim_internal.h"\n\n')
    for name in hooked:
        f = functions[name]
        args = ", ".join(n for _, n in f.params)
        fields = ", ".join(f"p_.{n}" for _, n in f.params)  # the engine may have changed them
        index = order[name]
        cast = f"__typeof__(&{name})"
        out.write(f"\n#undef {name}\n{f.declaration()};\nTB_SHIM_EXPORT {f.declaration()}\n{{\n"
                  f"    if (tb_shim_is_off())\n        return (({cast})tb_shim_function({index}))({args});\n"
                  f"    struct tb_{name}_params p_ = {{{args or '0'}}};\n"
                  f"    uint64_t user_ = 0;\n"
                  f"    struct tb_cuda_call call_ = {{.id = {f.id}, .legal = true, .params = &p_, .change = &p_, .user = &user_}};\n"
                  f"    bool told_ = tb_shim_enter(&call_);\n\n"
                  f"    call_.result = (int)(({cast})tb_shim_function({index}))({fields});\n"
                  f"    tb_shim_exit(&call_, told_);\n    return (CUresult)call_.result;\n}}\n")


def write_stubs(out, order, plain):
    out.write(NOTICE + '#include "recorder/cuda/shim/stub.inc"\n\n')
    for name in plain:
        out.write(f"TB_SHIM_STUB {name}, {order[name]}\n")
    out.write('\n.section .note.GNU-stack,"",%progbits\n')


def write_table(out, order, hooked, rows):
    out.write(NOTICE + '#include "recorder/cuda/shim/shim_internal.h"\n\n')
    ours = sorted({*hooked, *(n for n in BY_HAND if n in order)})
    for name in ours:
        out.write(f'extern char own_{name}[] __asm__("{name}") __attribute__((visibility("hidden")));\n')
    out.write("\n/* by name */\nconst struct tb_shim_name tb_shim_names[] = {\n")
    for name in order:
        out.write(f'    {{"{name}", {"own_" + name if name in ours else "0"}}},\n')
    out.write(f"}};\nconst unsigned tb_shim_count = {len(order)};\nvoid *tb_shim_real[{len(order)}];\n\n"
              "/* by base, then version */\nconst struct tb_shim_proc tb_shim_procs[] = {\n")
    rows = [r for r in rows if r[2] in order]
    for base, version, name, per_thread in rows:
        out.write(f'    {{"{base}", {version}, {order[name]}, {str(per_thread).lower()}}},\n')
    out.write(f"}};\nconst unsigned tb_shim_procs_count = {len(rows)};\n")


def read_headers(args):
    headers = [h for h in ("cuda.h", "cudaProfiler.h") if read(args.include, h)]
    if "cuda.h" not in headers:
        sys.exit(f"gen_cuda.py: no cuda.h in {args.include}")
    text = preprocess(args.cc, args.include, [f"#include <{h}>" for h in headers])
    functions = dict(sorted(declared_functions(text + PROFILER).items()))
    if len(functions) < 300:
        sys.exit(f"gen_cuda.py: only {len(functions)} functions found in cuda.h of {args.include}")
    typedefs = [h for h in ("cudaTypedefs.h", "cudaProfilerTypedefs.h") if read(args.include, h)]
    versions = pfn_versions(preprocess(args.cc, args.include, [f"#include <{h}>" for h in typedefs]) + PROFILER)
    return headers, functions, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cc", required=True)
    parser.add_argument("--include", required=True, type=lambda text: text.split(";"),
                        help="folders of the headers, separated by ';'")
    parser.add_argument("--hooked", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    headers, functions, versions = read_headers(args)
    cbids = {n: int(v) for n, v in re.findall(ID, read(args.include, "cupti_driver_cbid.h"))}
    assign_ids(functions, read(args.include, "cupti_driver_cbid.h"))
    hooked = sorted(hooked_names(args.hooked, functions))
    graphics, graphics_versions = graphics_names(args.include)
    names = sorted({*functions, *graphics})
    order = {name: i for i, name in enumerate(names)}
    plain = [n for n in names if n not in hooked and n not in BY_HAND]
    ids = {**{f.name: f.id for f in functions.values()}, **cbids}
    rows = sorted(proc_rows(functions, versions) + proc_rows(graphics, graphics_versions))
    os.makedirs(args.out, exist_ok=True)
    for name, writer, what in (
            ("cuda_calls.h", write_calls, (functions, ids, headers)),
            ("cuda_names.c", write_names, (ids, set(hooked))),
            ("cuda_layout.c", write_layout, (functions, meta_fields(read(args.include, "generated_cuda_meta.h")))),
            ("shim_exports.c", write_exports, (functions, order, hooked)),
            ("shim_stubs.S", write_stubs, (order, plain)),
            ("shim_table.c", write_table, (order, hooked, rows))):
        path = os.path.join(args.out, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            writer(f, *what)
        os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
