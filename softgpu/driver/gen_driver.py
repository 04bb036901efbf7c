#!/usr/bin/env python3
"""Generates the exports of libcuda.so.1 from the installed public headers of CUDA 12 or 13.

usage: gen_driver.py --cc CC --include FOLDER[;FOLDER...] --out FOLDER

Reads cuda.h (and cudaProfiler.h, cudaTypedefs.h, cupti_driver_cbid.h; cudaGL.h, cudaEGL.h and
cudaVDPAU.h for names only) and writes
  api_gen.h    a prototype of sg_<name>() for every function, struct sg_<name>_params
  exports.c    one exported function a name, every ABI version and _ptsz/_ptds form
  proc_gen.c   name x version -> function, for cuGetProcAddress
  errors_gen.c value -> name of CUresult
The preprocessor does the work that depends on the header: with __CUDA_API_VERSION_INTERNAL it
declares every version of every function under the name that is exported.
"""
import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict

NOTICE = "/* Written by gen_driver.py from the installed CUDA headers; do not edit. */\n"
GRAPHICS = ("GL", "EGL", "VDPAU")
# of cudaProfiler.h, which the wheel of cuda.h does not have
PROFILER = ("CUresult cuProfilerStart(void); CUresult cuProfilerStop(void);"
            " PFN_cuProfilerStart_v4000 PFN_cuProfilerStop_v4000")


def preprocess(cc, include, lines):
    """The text of headers with all versions declared; @lines is C source."""
    cmd = [cc, "-E", "-P", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL=1"]
    cmd += [arg for folder in include for arg in ("-isystem", folder)] + ["-"]
    run = subprocess.run(cmd, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"gen_driver.py: cannot preprocess the headers in {include}:\n{run.stderr}")
    return run.stdout


def read(include, name):
    for folder in include:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                return f.read()
    return ""


def split_version(name):
    """cuMemcpyHtoD_v2_ptds -> (cuMemcpyHtoD, 2, _ptds); a plain name is version 1."""
    m = re.fullmatch(r"(\w+?)(?:_v(\d+))?(_ptds|_ptsz)?", name)
    return m[1], int(m[2] or 1), m[3] or ""


class Function:
    def __init__(self, name, params):
        self.name = name
        self.params = params  # (declaration, name)
        self.base, self.version, self.per_thread = split_version(name)
        self.plain = name[: -len(self.per_thread)] if self.per_thread else name
        self.id = 0

    def declaration(self, prefix=""):
        args = ", ".join(d for d, _ in self.params) or "void"
        return f"CUresult CUDAAPI {prefix}{self.name}({args})"

    def fields(self):
        return "".join(f" {pointer_for_array(d)};" for d, _ in self.params) or " int unused;"


def pointer_for_array(declaration):
    """A parameter `T x[]` is a pointer in the structure that holds it."""
    return re.sub(r"(\w+)\s*\[\s*\d*\s*\]$", r"*\1", declaration)


def parse_params(text):
    text = " ".join(text.split())
    if text in ("", "void"):
        return []
    params, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            params.append(text[start:i].strip())
            start = i + 1
    return [(p, re.search(r"(\w+)\s*(\[\s*\d*\s*\])?$", p)[1]) for p in params]


def declared_functions(text):
    found = {}
    for name, params in re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{]*?)\)\s*;", text):
        found.setdefault(name, Function(name, parse_params(params)))
    return found


def pfn_versions(text):
    """(base, suffix) -> sorted versions in which it got a new form."""
    found = defaultdict(set)
    for base, version, suffix in re.findall(r"\bPFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\b", text):
        found[base, suffix].add(int(version))
    return {k: sorted(v) for k, v in found.items()}


def graphics_names(include):
    """Exported names of the graphics headers, which need foreign headers to be read properly."""
    names, versions = {}, defaultdict(set)
    for api in GRAPHICS:
        text = read(include, f"cuda{api}.h")
        for name in re.findall(r"\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\(", text):
            names[name] = Function(name, [])
        for macro, suffix, name in re.findall(
                r"#\s*define\s+cu\w+\s+(?:(__CUDA_API_PT(DS|SZ))\()?(cu\w+)\)?", text):
            names[name] = Function(name, [])
            if macro:
                name += "_pt" + suffix.lower()
                names[name] = Function(name, [])
        for key, v in pfn_versions(read(include, f"cuda{api}Typedefs.h")).items():
            versions[key] |= set(v)
    names.pop("cuWGLGetDevice", None)  # Windows
    return names, {k: sorted(v) for k, v in versions.items()}


def assign_ids(functions, text):
    """Callback ids of CUPTI where its header is there, numbers of our own elsewhere."""
    ids = {n: int(v) for n, v in re.findall(r"CUPTI_DRIVER_TRACE_CBID_(cu\w+)\s*=\s*(\d+)", text)}
    for i, name in enumerate(sorted(functions)):
        functions[name].id = ids.get(name, 0x10000 + i)


def write_api(out, functions, headers):
    out.write(NOTICE + "#ifndef SG_DRIVER_API_GEN_H\n#define SG_DRIVER_API_GEN_H\n")
    out.write("".join(f"#include <{h}>\n" for h in headers) + "\n#ifndef SG_API\n#define SG_API\n#endif\n")
    out.write("#pragma GCC visibility push(hidden)\n")
    for f in functions.values():
        out.write(f"struct sg_{f.name}_params {{{f.fields()} }};\n")
        if not f.per_thread:
            out.write(f"SG_API {f.declaration('sg_')};\n")
    out.write("#pragma GCC visibility pop\n#endif\n")


def write_exports(out, functions, graphics):
    out.write(NOTICE)
    out.write("#define SG_API __attribute__((weak))\n#define __CUDA_API_VERSION_INTERNAL 1\n"
              '#include "softgpu/driver/api_gen.h"\n#include "softgpu/driver/hooks.h"\n\n')
    for name in functions:
        out.write(f"#undef {name}\n")
    for f in functions.values():
        names = ", ".join(n for _, n in f.params)
        body = (f'SG_PTDS({f.plain}, ({names}))' if f.per_thread else
                f'SG_CALL({f.plain}, ({names}))')
        out.write(f"\nSG_EXPORT {f.declaration()};\n{f.declaration()}\n{{\n"
                  f"    if (SG_HOOKED) {{\n"
                  f"        struct sg_{f.name}_params p_ = {{{names or '0'}}};\n"
                  f'        struct sg_call call_ = {{.id = {f.id}, .name = "{f.name}", .params = &p_, .params_size = sizeof(p_)}};\n'
                  f"        sg_hook_enter(&call_);\n        call_.result = (int){body};\n"
                  f"        return sg_hook_exit(&call_);\n    }}\n    return {body};\n}}\n")
    out.write("\n/* graphics interop: names only, never implemented */\n")
    for name in graphics:
        out.write(f"SG_EXPORT CUresult {name}(void);\n"
                  f'CUresult {name}(void)\n{{\n    return sg_unsupported("{name}");\n}}\n')


def proc_rows(functions, versions):
    """(base, version, function, per-thread function or None), sorted."""
    by_base = defaultdict(list)
    for f in functions.values():
        by_base[f.base, f.per_thread].append(f)
    rows = []
    for (base, suffix), versions_of in versions.items():
        forms = sorted(by_base.get((base, suffix), []), key=lambda f: f.version)
        if suffix == "" and not forms:
            continue
        if len(forms) != len(versions_of):
            # the headers leave out an old form or two: the newest ones are known
            print(f"gen_driver.py: note: {base}{suffix}: {len(forms)} functions, "
                  f"{len(versions_of)} versions", file=sys.stderr)
            n = min(len(forms), len(versions_of))
            forms, versions_of = forms[-n:], versions_of[-n:]
        rows += [(base, v, f.name, bool(suffix)) for f, v in zip(forms, versions_of)]
    known = {r[0] for r in rows}
    for (base, suffix), forms in by_base.items():  # declared, but not in cudaTypedefs.h
        if base not in known:
            rows += [(base, 2000 + f.version, f.name, bool(suffix)) for f in forms]
    return sorted(rows)


def write_proc(out, rows):
    out.write(NOTICE + '#include "softgpu/driver/proc.h"\n\n')
    for name in sorted({r[2] for r in rows}):
        out.write(f"extern char {name}[] __asm__(\"{name}\");\n")
    out.write("\nconst struct sg_proc sg_procs[] = {\n")
    for base, version, name, per_thread in rows:
        out.write(f'    {{"{base}", {version}, {str(per_thread).lower()}, {name}}},\n')
    out.write("};\nconst unsigned sg_procs_count = sizeof(sg_procs) / sizeof(sg_procs[0]);\n")


def write_errors(out, text):
    body = re.search(r"typedef\s+enum\s+cudaError_enum\s*\{(.*?)\}", text, re.S)[1]
    out.write(NOTICE + '#include "softgpu/driver/errors.h"\n\nconst struct sg_error_name '
              "sg_error_names[] = {\n")
    for name, value in re.findall(r"\b(CUDA_\w+)\s*=\s*(\d+)", body):
        out.write(f'    {{{value}, "{name}"}},\n')
    out.write("};\nconst unsigned sg_error_names_count =\n"
              "    sizeof(sg_error_names) / sizeof(sg_error_names[0]);\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--include", required=True, type=lambda text: text.split(";"),
                        help="folders of the headers, separated by ';'")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    headers = [h for h in ("cuda.h", "cudaProfiler.h") if read(args.include, h)]
    if "cuda.h" not in headers:
        sys.exit(f"gen_driver.py: no cuda.h in {args.include}")
    text = preprocess(args.cc, args.include, [f"#include <{h}>" for h in headers])
    functions = declared_functions(text + PROFILER)
    if len(functions) < 300:
        sys.exit(f"gen_driver.py: only {len(functions)} functions found in cuda.h of {args.include}")
    typedefs = [h for h in ("cudaTypedefs.h", "cudaProfilerTypedefs.h") if read(args.include, h)]
    versions = pfn_versions(
        preprocess(args.cc, args.include, [f"#include <{h}>" for h in typedefs]) + PROFILER)
    graphics, graphics_versions = graphics_names(args.include)
    graphics = {n: f for n, f in graphics.items() if n not in functions}
    assign_ids(functions, read(args.include, "cupti_driver_cbid.h"))
    rows = proc_rows(functions, versions) + proc_rows(graphics, graphics_versions)
    os.makedirs(args.out, exist_ok=True)
    for name, writer, what in (("api_gen.h", write_api, (functions, headers)),
                               ("exports.c", write_exports, (functions, graphics)),
                               ("proc_gen.c", write_proc, (sorted(rows),)),
                               ("errors_gen.c", write_errors, (text,))):
        path = os.path.join(args.out, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            writer(f, *what)
        os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
