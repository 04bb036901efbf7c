"""check.py - compares what twinbit named with what the example says it planted.

    check.py event REPORT                   print the name of the first event, as --snapshot takes it
    check.py CAUSE FOLDER_A FOLDER_B REPORT print both, and OK or WRONG (exit status 1)

REPORT is the output of `twinbit diff --json`; the folders hold truth.json (and .npz) of the two runs.
"""

import json
import os
import sys

import numpy


def read(folder):
    with open(os.path.join(folder, "truth.json"), encoding="utf-8") as f:
        truth = json.load(f)
    path = os.path.join(folder, "truth.npz")
    truth["words"] = dict(numpy.load(path)) if os.path.exists(path) else {}
    return truth


def planted(cause, a, b):
    """planted - what the two truths say: step, module, operator, index, words of A and B, reader"""
    if cause.startswith("flip"):
        return {"step": b["step"], "module": b["module"], "operator": b["operator"], "index": b["index"],
                "a": b["before"], "b": b["after"], "reader": b.get("reader")}
    if cause == "order":
        first = next(i for i, (x, y) in enumerate(zip(a["order"], b["order"])) if x != y)
        return {"step": 0, "module": "", "operator": a["operator"], "place": first,
                "a": a["order"][first], "b": b["order"][first]}
    for key in sorted(a["words"], key=lambda k: int(k[4:])):
        differ = (a["words"][key] != b["words"][key]).nonzero()[0]
        if len(differ):
            i = int(differ[0])
            return {"step": int(key[4:]), "module": a["module"], "operator": a["operator"], "index": i,
                    "a": f"{a['words'][key][i]:08x}", "b": f"{b['words'][key][i]:08x}"}
    sys.exit(f"{cause}: nothing differs between the two runs: draw another seed")


def base(operator):
    """base - without the overload: aten::sum of aten::sum.dim_IntList"""
    return operator.split(".")[0]


def found(root):
    """found - the same fields from the first root of the report"""
    place = root["a"] or root["b"]
    got = {"cause": root["cause"], "step": place["step"], "module": place["module"],
           "operator": base(place["operator"]), "phase": place["phase"]}
    elements = root["elements"]
    if elements and elements["differ"]:
        got.update(index=elements["first"], a=elements["a"]["hex"][2:], b=elements["b"]["hex"][2:],
                   differ=elements["differ"], xor=elements["xor"], ulp=elements.get("ulp"))
    if root["tensor"] and root["tensor"]["mode"] == "g":
        got["drawn_from"] = root["tensor"]["argument"]
    return got


# What the report may call each cause.
CALLED = {
    "threads": {"accumulation_order", "environment"},
    "dropout": {"rng"},
    "order": {"order", "control_flow"},
    "flip-inside": {"unexplained", "hardware_suspect"},
    "flip-after": {"unseen_writer"},
}


def problems(cause, want, got, root):
    keys = ["step"]
    if cause == "order":
        if got["operator"] not in ("aten::linalg_vector_norm", "aten::_foreach_norm"):
            yield "operator"
    elif cause == "flip-after":
        writer = root["writer_a"] or root["writer_b"] or {}
        if (base(writer.get("operator", "")), writer.get("module")) != (want["operator"], want["module"]):
            yield "writer"
        if (got["operator"], got["module"]) != (want["reader"]["operator"], want["reader"]["module"]):
            yield "reader"
        keys += ["index", "a", "b"]
    elif cause == "dropout":
        # What differs first is not the mask but the state that it was drawn from.
        if (root["tensor"] or {}).get("mode") != "g":
            yield "generator"
        keys += ["operator", "module"] + [k for k in ("index", "a", "b") if k in got]
    else:
        keys += ["operator", "module", "index", "a", "b"]
    for key in keys:
        if want[key] != got.get(key):
            yield key
    if got["cause"] not in CALLED[cause]:
        yield "cause"


def line(p):
    text = f"step {p['step']}  {p['module'] or '-':10} {p['operator']}"
    if "index" in p:
        text += f"  [{p['index']}]"
    if "place" in p:
        text += f"  parameter {p['place']} of the list"
    if p.get("drawn_from"):
        text += f"  drew from {p['drawn_from']}"
    elif "a" in p:
        text += f"  {p['a']} | {p['b']}"
    return text


def main():
    if sys.argv[1] == "event":
        with open(sys.argv[2], encoding="utf-8") as f:
            roots = json.load(f)["roots"]
        if not roots:
            return 1
        print("/".join((roots[0]["a"] or roots[0]["b"])["name"].split("/")[3:]))
        return 0
    cause, folder_a, folder_b, path = sys.argv[1:5]
    want = planted(cause, read(folder_a), read(folder_b))
    with open(path, encoding="utf-8") as f:
        roots = json.load(f)["roots"]
    print(f"{cause:12} planted  {line(want)}")
    if want.get("reader"):
        print(f"{'':12}          first read by {want['reader']['module']} {want['reader']['operator']}")
    if not roots:
        print(f"{'':12} found    nothing: WRONG")
        return 1
    got = found(roots[0])
    writer = roots[0]["writer_a"] or roots[0]["writer_b"]
    shown = got
    if writer:
        shown = dict(got, module=writer["module"], operator=base(writer["operator"]))
    print(f"{'':12} found    {line(shown)}")
    if writer:
        print(f"{'':12}          first read by {got['module']} {got['operator']}")
    wrong = list(problems(cause, want, got, roots[0]))
    verdict = "OK" if not wrong else "WRONG: " + ", ".join(wrong)
    print(f"{'':12} cause    {roots[0]['cause_text']}  -> {verdict}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
