"""What is in the trace of real.py: real_check.py EVENTS.json (of twinbit show --json TRACE events)."""
import json
import sys

from compare import accesses, outermost, same_values

rows = json.load(open(sys.argv[1]))["rows"]


def written(range_, operator, device="cuda:0"):
    return [a["fp"] for r in outermost(rows, range_) if r["operator"] == operator for a in accesses(r, "w")
            if a["device"] == device]


same_values(rows)
print("values", "ok")

x = written("streams", "aten::full")[0]
twice = written("streams", "aten::mul.Tensor")
twice += [a["fp"] for r in rows if r["thread"].startswith("thread") for a in accesses(r, "w")]
assert len(twice) == 5 and len(set(twice)) == 1 and twice[0], twice
print("streams", "ok")

assert written("second", "aten::_to_copy", "cuda:1")[0] == x
assert written("second", "aten::mul.Tensor", "cuda:1") == twice[:2]
assert twice[0] in written("second", "aten::_to_copy")
print("second", "ok")

assert written("pinned", "aten::copy_", "cpu") == [x]
print("pinned", "ok")

graphs = [a["fp"] for r in rows if "graph=1" in (r["detail"] or "") for a in accesses(r, "w") if a["fp"]]
five = [r for r in rows if r["operator"] == "aten::fill_.Scalar" and "graph" in r["ranges"]][-1]
assert len(graphs) == 3 and set(graphs) == {accesses(five, "w")[0]["fp"]}, graphs
print("graph", "ok")
