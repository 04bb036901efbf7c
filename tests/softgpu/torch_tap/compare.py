"""Events of a trace (twinbit show --json TRACE events), compared."""


def accesses(row, modes):
    return [a for a in row["accesses"] if a["mode"] in modes]


def outermost(rows, name):
    """Operators in the range of that name which no other one has called."""
    those = [r for r in rows if name in r["ranges"] and r["kind"] == "op"]
    return [r for r in those if not any(e["open"] <= r["seq"] < e["seq"] and e["thread"] == r["thread"] for e in those)]


def same_values(rows):
    """The operators of values.py wrote the same bytes on the host and on the device, in every layout."""
    host, device = outermost(rows, "values on cpu"), outermost(rows, "values on cuda")
    assert [r["operator"] for r in host] == [r["operator"] for r in device]
    strided = 0
    for a, b in zip(host, device):
        for x, y in zip(accesses(a, "wh"), accesses(b, "wh"), strict=True):
            assert y["device"] == "cuda:0" or y["mode"] == "h", b
            for key in ("argument", "dtype", "shape", "strides", "fp_kind", "fp"):
                assert x[key] == y[key], (key, a["name"], x, y)
            strided += y["strides"] is not None
    assert len(device) >= 20 and strided >= 4, (len(device), strided)
