#!/usr/bin/env python3
"""Generates the exports of libcupti.so.12/.13 from the installed public headers of CUPTI.

usage: gen_cupti.py --cc CC --include FOLDER[;FOLDER...] --out FOLDER

Reads the cupti_*.h that are there and writes
  api_gen.h    a prototype of sg_<name>() for every function
  exports.c    one exported function a name
  names_gen.c  callback id -> name of the driver, runtime and NVTX domains; texts of CUptiResult
  cupti.map    the version node, with every name
"""
import argparse
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
from gen_driver import parse_params, preprocess, read  # noqa: E402  the same headers, read the same way

NOTICE = "/* Written by gen_cupti.py from the installed CUPTI headers; do not edit. */\n"
HEADERS = ("cupti.h", "cupti_events.h", "cupti_metrics.h", "cupti_pcsampling.h", "cupti_pmsampling.h",
           "cupti_profiler_target.h", "cupti_range_profiler.h", "cupti_sass_metrics.h", "cupti_target.h")
NAMES_ONLY = ("cupti_checkpoint.h", "cupti_profiler_host.h")  # are C++
NOT_RECORDED = {"cuptiGetLastError"}  # its result is no new error
# What tools look for beside CUPTI's functions: NVTX loads an injection by these.
ALSO = ("InitializeInjectionNvtx", "InitializeInjectionNvtx2")


def declared_functions(text):
    """name -> list of (declaration, name) of its parameters"""
    found = {}
    for name, params in re.findall(r"\bCUptiResult\s+(cupti[A-Z]\w*)\s*\(([^;{]*?)\)\s*;", text):
        found.setdefault(name, parse_params(params))
    return dict(sorted(found.items()))


def names_only(text):
    return sorted(set(re.findall(r"^CUptiResult\s+(?:CUPTIAPI\s+)?(cupti[A-Z]\w*)\s*\(", text, re.M)))


def declaration(name, params):
    return f"CUptiResult {name}({', '.join(d for d, _ in params) or 'void'})"


def write_api(out, functions, headers):
    out.write(NOTICE + "#ifndef SG_CUPTI_API_GEN_H\n#define SG_CUPTI_API_GEN_H\n")
    out.write("#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n")
    out.write("".join(f"#include <{h}>\n" for h in headers))
    out.write("\n#ifndef SG_CUPTI_API\n#define SG_CUPTI_API\n#endif\n#pragma GCC visibility push(hidden)\n")
    for name, params in functions.items():
        out.write(f"SG_CUPTI_API {declaration('sg_' + name, params)};\n")
    out.write("#pragma GCC visibility pop\n#endif\n")


def write_exports(out, functions, plain):
    out.write(NOTICE + "#define SG_CUPTI_API __attribute__((weak))\n"
              '#include "softgpu/cupti/api_gen.h"\n#include "softgpu/cupti/cupti_internal.h"\n')
    for name, params in functions.items():
        head = declaration(name, params)
        done = "" if name in NOT_RECORDED else "sg_cupti_done"
        args = ", ".join(n for _, n in params)
        out.write(f"\n#undef {name}\nSG_CUPTI_EXPORT {head};\n{head}\n{{\n"
                  f'    return {done}(sg_{name} ? sg_{name}({args}) : sg_cupti_unsupported("{name}"));\n}}\n')
    for name in plain:
        out.write(f"\nSG_CUPTI_EXPORT CUptiResult {name}(void);\nCUptiResult {name}(void)\n{{\n"
                  f'    return sg_cupti_done(sg_cupti_unsupported("{name}"));\n}}\n')


def cbids(text, prefix):
    ids = [(int(v), n) for n, v in re.findall(rf"\b{prefix}(\w+)\s*=\s*(\d+)", text)]
    return sorted((v, n) for v, n in ids if n not in ("INVALID", "SIZE", "FORCE_INT"))


def results(text):
    """(value, name, comment) of CUptiResult"""
    found = []
    for comment, name, value in re.findall(r"/\*\*(.*?)\*/\s*(CUPTI_(?:SUCCESS|ERROR\w*))\s*=\s*(\d+)",
                                           text, re.S):
        comment = " ".join(re.sub(r"^\s*\*\s?", "", line).strip() for line in comment.splitlines()).strip()
        found.append((int(value), name, comment.replace("\\", "").replace('"', "'")))
    return found


def write_table(out, name, rows):
    size = max((v for v, _ in rows), default=-1) + 1
    out.write(f"\nconst char *const {name}[] = {{\n")
    out.write("".join(f'    [{v}] = "{n}",\n' for v, n in rows) or "    NULL,\n")
    out.write(f"}};\nconst uint32_t {name}_count = {size};\n")


def write_names(out, include):
    out.write(NOTICE + '#include "softgpu/cupti/names.h"\n\n#include <stddef.h>\n')
    for domain in ("driver", "runtime", "nvtx"):
        prefix = f"CUPTI_{domain.upper()}_TRACE_CBID_" if domain != "nvtx" else "CUPTI_CBID_NVTX_"
        write_table(out, f"sg_cupti_{domain}_names", cbids(read(include, f"cupti_{domain}_cbid.h"), prefix))
    out.write("\nconst struct sg_cupti_result_name sg_cupti_results[] = {\n")
    rows = results(read(include, "cupti_result.h"))
    for value, name, comment in rows:
        out.write(f'    {{{value}, "{name}",\n     "{comment}"}},\n')
    out.write(f"}};\nconst uint32_t sg_cupti_results_count = {len(rows)};\n")


def write_map(out, names, major):
    out.write(f"libcupti.so.{major} {{\nglobal:\n")
    out.write("".join(f"    {name};\n" for name in names) + "local:\n    *;\n};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cc", required=True)
    parser.add_argument("--include", required=True, type=lambda text: text.split(";"),
                        help="folders of the headers, separated by ';'")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    headers = [h for h in HEADERS if read(args.include, h)]
    if "cupti.h" not in headers:
        sys.exit(f"gen_cupti.py: no cupti.h in {args.include}")
    lines = ["#include <stdbool.h>", "#include <stddef.h>"] + [f"#include <{h}>" for h in headers]
    text = preprocess(args.cc, args.include, lines + ["softgpu_version CUDA_VERSION"])
    functions = declared_functions(text)
    if len(functions) < 100:
        sys.exit(f"gen_cupti.py: only {len(functions)} functions found in cupti.h of {args.include}")
    plain = [n for h in NAMES_ONLY for n in names_only(read(args.include, h)) if n not in functions]
    major = int(re.search(r"softgpu_version\s+(\d+)", text)[1]) // 1000
    os.makedirs(args.out, exist_ok=True)
    for name, writer, what in (("api_gen.h", write_api, (functions, headers)),
                               ("exports.c", write_exports, (functions, plain)),
                               ("names_gen.c", write_names, (args.include,)),
                               ("cupti.map", write_map, (sorted([*functions, *plain, *ALSO]), major))):
        path = os.path.join(args.out, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            writer(f, *what)
        os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
