"""Triton's profiler, Proton, on the software device's CUPTI; run by torch_profiler.sh.

It subscribes to callbacks, reads kernel records, and finds the scope in which a node of a graph was
captured by the ids of nodes that both halves of CUPTI tell.
"""
import json

import torch
import triton
import triton.language as tl
import triton.profiler as proton

N = 4096


@triton.jit
def add_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def launch(x, y):
    add_kernel[(4,)](x, y, N, BLOCK=1024)


def kernels(name):
    """(scopes from the outside in, metrics) of every kernel in a profile."""
    with open(name + ".hatchet", encoding="utf-8") as f:
        root = json.load(f)[0]
    found, todo = [], [((), root)]
    while todo:
        path, node = todo.pop()
        path += (node["frame"]["name"],)
        if path[-1] == "add_kernel" and node["metrics"]:
            found.append((path[1:-1], node["metrics"]))
        todo += [(path, child) for child in node["children"]]
    return found


def check_scopes(x, y):
    proton.start("scopes", context="shadow")
    with proton.scope("outer"):
        launch(x, y)
        with proton.scope("inner"):
            launch(x, y)
            launch(x, y)
    torch.cuda.synchronize()
    proton.finalize()
    counts = {path: m["count"] for path, m in kernels("scopes")}
    assert counts == {("outer",): 1, ("outer", "inner"): 2}, counts
    assert all(m["time (ns)"] > 0 and m["device_type"] == "CUDA" for _, m in kernels("scopes"))
    print("scopes ok")


def check_graph(x, y):
    proton.start("graph", context="shadow")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with proton.scope("captured"):
            for _ in range(3):
                launch(x, y)
    with proton.scope("replay"):
        graph.replay()
        graph.replay()
    torch.cuda.synchronize()
    proton.finalize()
    (path, metrics), = kernels("graph")
    assert path[0] == "replay" and path[-1] == "captured", path
    assert metrics["count"] == 6 and metrics["time (ns)"] > 0, metrics
    print("graph ok")


def main():
    x = torch.rand(N).to("cuda")
    y = torch.empty_like(x)
    launch(x, y)  # compiles
    torch.cuda.synchronize()
    check_scopes(x, y)
    check_graph(x, y)


if __name__ == "__main__":
    main()
