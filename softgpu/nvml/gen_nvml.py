#!/usr/bin/env python3
"""Generates the exports of libnvidia-ml.so.1 from the public nvml.h of CUDA 12 or 13.

usage: gen_nvml.py --cc CC --include FOLDER --out FOLDER

Writes
  api_gen.h  a prototype of sg_<name>() for every function, old forms included
  exports.c  one exported function a name: initialized? are the devices there? then sg_<name>()
"""
import argparse
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver"))
import gen_driver  # noqa: E402

NOTICE = "/* Written by gen_nvml.py from the installed nvml.h; do not edit. */\n"
# What counts references itself; whose comment in the header names no NVML_ERROR_UNINITIALIZED.
ALWAYS = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString",
          "nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"}


class Function:
    def __init__(self, result, name, params):
        self.result = result
        self.name = name
        self.params = params  # (declaration, name)

    def declaration(self, prefix=""):
        args = ", ".join(d for d, _ in self.params) or "void"
        return f"{self.result} {prefix}{self.name}({args})"

    def devices(self):
        return [n for d, n in self.params if re.fullmatch(r"nvmlDevice_t\s+\w+", d)]


def declared_functions(text):
    found = {}
    pattern = r"\b(nvmlReturn_t|const\s+char\s*\*)\s*(nvml[A-Z]\w*)\s*\(([^;{]*?)\)\s*;"
    for result, name, params in re.findall(pattern, text):
        found.setdefault(name, Function(" ".join(result.split()), name,
                                        gen_driver.parse_params(params)))
    return found


def header_functions(cc, include):
    """All functions of nvml.h, those included that macros hide behind newer forms."""
    lines = ["#define NVML_NO_UNVERSIONED_FUNC_DEFS", "#include <nvml.h>"]
    functions = declared_functions(gen_driver.preprocess(cc, [include], lines))
    if len(functions) < 250:
        sys.exit(f"gen_nvml.py: only {len(functions)} functions found in nvml.h of {include}")
    return functions


def body(f):
    args = ", ".join(n for _, n in f.params)
    if f.name in ALWAYS:
        return f"    return sg_{f.name}({args});\n"
    text = "    nvmlReturn_t r_ = sg_nvml_ready();\n\n"
    for name in f.devices():
        text += f"    if (r_ == NVML_SUCCESS)\n        r_ = sg_nvml_device_check({name});\n"
    return text + ("    if (r_ != NVML_SUCCESS)\n        return r_;\n"
                   f"    return sg_{f.name} ? sg_{f.name}({args}) : sg_nvml_unsupported(\"{f.name}\");\n")


def write_api(out, functions):
    out.write(NOTICE + "#ifndef SG_NVML_API_GEN_H\n#define SG_NVML_API_GEN_H\n"
              "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>\n\n"
              "#ifndef SG_API\n#define SG_API\n#endif\n#pragma GCC visibility push(hidden)\n")
    for f in functions.values():
        out.write(f"SG_API {f.declaration('sg_')};\n")
    out.write("#pragma GCC visibility pop\n#endif\n")


def write_exports(out, functions):
    out.write(NOTICE + "#define SG_API __attribute__((weak))\n"
              '#include "softgpu/nvml/api_gen.h"\n#include "softgpu/nvml/library.h"\n')
    for f in functions.values():
        out.write(f"\n__attribute__((visibility(\"default\"))) {f.declaration()};\n"
                  f"{f.declaration()}\n{{\n{body(f)}}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--include", required=True, help="folder of nvml.h")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    functions = header_functions(args.cc, args.include)
    os.makedirs(args.out, exist_ok=True)
    for name, writer in (("api_gen.h", write_api), ("exports.c", write_exports)):
        path = os.path.join(args.out, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            writer(f, functions)
        os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
