"""A Triton kernel inside an operator of the job's and one outside: inside.py, and inside.py EVENTS checks the rows."""
import json
import sys


def job():
    import torch
    from mixed import double_kernel

    def double(x):
        o = torch.empty_like(x)
        double_kernel[(4,)](x, o, x.numel(), BLOCK=256)
        return o

    torch.library.define("job::doubled", "(Tensor x) -> Tensor")
    torch.library.impl("job::doubled", "CUDA")(double)
    x = torch.arange(1000.0).to("cuda")
    with torch.profiler.record_function("outer"):
        y = torch.ops.job.doubled(x)
    assert double(y).cpu().sum().item() == 4 * 999 * 500


def check(path, level):
    with open(path, encoding="utf-8") as f:
        rows = [r for r in json.load(f)["rows"] if r["operator"] != "aten::sum"]
    launches = [r["ranges"] for r in rows if r["kind"] == "launch"][3:]  # after those of mixed.py, which it imports
    copies = [r["ranges"] for r in rows if r["operator"].startswith("cuMemcpy")][-1:]
    operators = [r["ranges"] for r in rows if r["operator"] in ("job::doubled", "aten::_to_copy")][-2:]
    assert operators == ["outer", ""], operators
    if level == "kernel":
        assert launches == ["outer>job::doubled", ""], launches
        assert copies == ["aten::_to_copy>aten::copy_"], copies
    else:
        assert launches == [""] and not copies, (launches, copies)


if len(sys.argv) == 1:
    job()
else:
    check(*sys.argv[1:])
print("ok")
