#!/bin/bash
# A Triton kernel between operators: what it reads and writes lies in the same allocations, by number, and
# each reads what the other has written. The kernel belongs to the module that launches it.
set -eu
TB_TEST=softgpu.torch_tap_mixed
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch_tap/lib.sh"
need_softgpu
need_module triton
need_program gcc # Triton compiles its launchers
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

record mixed.twinbit --inputs -- "$TESTS/mixed.py"
contains out ok
expect 0 tb show --json mixed.twinbit events
mv out events.json
cat >check.py <<'END'
import json

rows = json.load(open("events.json"))["rows"]
kernels = [r for r in rows if r["operator"] == "double_kernel"]
assert len(kernels) == 3 and all(r["module"] == "0" and r["phase"] == "forward" for r in kernels), kernels
written = {}  # (allocation, offset) -> fingerprint
reads = 0
for r in rows:
    for a in r["accesses"]:
        where = a["alloc"], a["offset"], a["device"], tuple(a["shape"])
        if a["mode"] == "r" and where in written:
            assert a["fp"] == written[where], (r["name"], a)
            reads += r in kernels or r["operator"] == "aten::relu"
    for a in r["accesses"]:
        if a["mode"] == "w":
            written[a["alloc"], a["offset"], a["device"], tuple(a["shape"])] = a["fp"]
assert reads == 6, reads
devices = {}
for r in rows:
    for a in r["accesses"]:
        if a["alloc"] and a["alloc"] < 1 << 40:
            assert devices.setdefault(a["alloc"], a["device"]) == a["device"], (r["name"], a)
print("reads", "ok")
END
expect 0 "$PYTHON" check.py
cat out
expect 0 tb show mixed.twinbit coverage
lacks out unseen

# work inside an operator says which; at level op it is the operator's
for level in kernel op; do
    record $level.twinbit --level $level -- "$TESTS/inside.py"
    expect 0 tb show --json $level.twinbit events
    mv out events.json
    expect 0 "$PYTHON" "$TESTS/inside.py" events.json $level
done
