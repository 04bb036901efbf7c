"""What is in the trace of asks.py: asks_check.py EVENTS.json (of twinbit show --json TRACE events)."""
import json
import sys

from compare import accesses, same_values

rows = json.load(open(sys.argv[1]))["rows"]


def of(operator, device="cuda:0"):
    return [r for r in rows if r["operator"] == operator and any(a["device"] == device for a in r["accesses"])]


same_values(rows)
print("values", "ok")

# whatever was written has a fingerprint, but for what was captured; whatever cannot be seen is one read
opaque = [(r["name"], a) for r in rows for a in accesses(r, "x")]
assert len(opaque) >= 1 and all(a["argument"] in ("self", "src") for _, a in opaque), opaque
bare = [(r["name"], a) for r in rows for a in accesses(r, "ws") if a["fp"] is None or a["fp_kind"] == "none"]
assert len(bare) == 1 and "copy_" in bare[0][0], bare
print("fingerprints", "ok")

# pinned memory has what the device sent
sent = [r for r in of("aten::full") if accesses(r, "w")[0]["shape"] == [1000]][-1]
copies = [r for r in of("aten::copy_") if accesses(r, "w") and accesses(r, "w")[0]["device"] == "cpu"
          and accesses(r, "w")[0]["shape"] == [1000]]
assert len(copies) >= 2, len(copies)
for r in copies:
    assert accesses(r, "w")[0]["fp"] == accesses(sent, "w")[0]["fp"], r["name"]
print("pinned", "ok")

# generators: the default one moves on, one with the same seed starts where it started
draws = [accesses(r, "g")[0] for r in of("aten::uniform_") if accesses(r, "g") and accesses(r, "g")[0]["device"] == "cuda:0"]
names = [g["argument"] for g in draws[-3:]]
assert names == ["rng:cuda:0:default", "rng:cuda:0:default", "rng:cuda:0:other"], names
assert draws[-3]["fp"] != draws[-2]["fp"] and draws[-3]["fp"] == draws[-1]["fp"]
print("generators", "ok")

states = {a["argument"]: a for r in rows if r["kind"] == "state" for a in accesses(r, "s")}
for name in ("param:weight", "grad:weight", "exp_avg:weight", "rng:cuda:0:default"):
    assert states[name]["fp"], name
assert states["param:weight"]["device"] == "cuda:0"
print("states", "ok")

assert any(accesses(r, "h") for r in of("aten::_local_scalar_dense"))
print("scalars", "ok")
