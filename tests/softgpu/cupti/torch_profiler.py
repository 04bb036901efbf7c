"""torch.profiler on the software device's CUPTI; run by torch_profiler.sh.

Copies, sets and streams, then a training step of Triton kernels, profiled in two sessions and with a
schedule of several cycles. What is checked is what a user sees: device times in the table, each piece
of device work under the operator that asked for it, and a trace whose flows have both ends.
"""
import json
import sys
from collections import Counter, defaultdict

import torch
import triton
import triton.language as tl
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function, schedule

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
N = 4096


@triton.jit
def scale_kernel(x, w, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * tl.load(w + i, mask=i < n), mask=i < n)


@triton.jit
def gradient_kernel(x, y, target, g, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    error = tl.load(y + i, mask=i < n) - tl.load(target + i, mask=i < n)
    tl.store(g + i, 2 * error * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def step_kernel(w, g, rate, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(w + i, tl.load(w + i, mask=i < n) - rate * tl.load(g + i, mask=i < n), mask=i < n)


class Model:
    """w with x * w = target, by gradient descent."""

    def __init__(self):
        torch.manual_seed(1)
        self.x = torch.rand(N).add(0.5).to("cuda")
        self.target = torch.rand(N).to("cuda")
        self.w = torch.zeros(N, device="cuda")
        self.y, self.g = torch.empty_like(self.x), torch.empty_like(self.x)

    def train(self):
        grid = (triton.cdiv(N, 1024),)
        with record_function("forward"):
            scale_kernel[grid](self.x, self.w, self.y, N, BLOCK=1024)
        with record_function("backward"):
            gradient_kernel[grid](self.x, self.y, self.target, self.g, N, BLOCK=1024)
        with record_function("optimizer"):
            step_kernel[grid](self.w, self.g, 0.2, N, BLOCK=1024)

    def loss(self):
        return (self.y.cpu() - self.target.cpu()).square().mean().item()


def copies():
    """One of each: to the device, on it, set, on a stream of its own, back."""
    with record_function("copies"):
        x = torch.arange(1000, dtype=torch.float32).to("cuda")
        y = torch.empty_like(x)
        y.copy_(x)
        x.zero_()
        with torch.cuda.stream(torch.cuda.Stream()):
            y.record_stream(torch.cuda.current_stream())
            torch.zeros(256, device="cuda")
            torch.cuda.current_stream().synchronize()
        return y.cpu()


def trace_of(p):
    p.export_chrome_trace("trace.json")
    with open("trace.json", encoding="utf-8") as f:
        return json.load(f)["traceEvents"]


def check_flows(events):
    """Every kernel, copy and set has the flow that begins at its call, and a host range around that."""
    ends = defaultdict(set)
    for e in events:
        if e.get("cat") == "ac2g":
            ends[e["id"]].add(e["ph"])
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert work
    for e in work:
        call = calls[e["args"]["correlation"]]
        assert ends[e["args"]["correlation"]] == {"s", "f"}, (e, ends[e["args"]["correlation"]])
        assert e["ts"] >= call["ts"] and e["dur"] >= 0, (e, call)
    return Counter(e["cat"] for e in work)


def check_streams(events):
    """Work of a stream follows one another."""
    until = defaultdict(float)
    for e in sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")),
                    key=lambda e: e["ts"]):
        assert e["ts"] >= until[e["tid"]] - 0.002, e  # times are printed to the nanosecond
        until[e["tid"]] = e["ts"] + e["dur"]
    return len(until)


def check_copies():
    with profile(activities=BOTH) as p:
        copies()
    events = trace_of(p)
    assert check_flows(events) == {"gpu_memcpy": 3, "gpu_memset": 2}, check_flows(events)
    assert check_streams(events) == 2
    table = {e.key: e for e in p.key_averages()}
    for name in ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD (Device -> Device)",
                 "Memcpy DtoH (Device -> Pageable)", "Memset (Device)"):
        assert table[name].device_time_total > 0, name
    for op in ("aten::copy_", "aten::zero_"):
        assert table[op].device_time_total > 0, op
    categories = Counter(e.get("cat") for e in events)
    assert categories["user_annotation"] >= 1 and categories["gpu_user_annotation"] >= 1, categories
    assert categories["cuda_runtime"] >= 6, categories
    print("copies ok")


def check_sync():
    """Who waits for an event is told which record of it that was, and in which stream."""
    x, event, side = torch.rand(1000).to("cuda"), torch.cuda.Event(), torch.cuda.Stream()
    with profile(activities=BOTH, experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)) as p:
        y = x.clone()
        event.record()
        with torch.cuda.stream(side):
            side.wait_event(event)
            y.clone()
        side.synchronize()
        event.synchronize()
    events = trace_of(p)
    recorded, = (e for e in events if e.get("cat") == "cuda_event")
    for kind in ("Stream Wait Event", "Event Sync"):
        e, = (e["args"] for e in events if e.get("cat") == "cuda_sync" and e["name"] == kind)
        assert e["wait_on_cuda_event_record_corr_id"] == recorded["args"]["correlation"], (kind, e, recorded)
        assert e["wait_on_stream"] == recorded["args"]["stream"], (kind, e, recorded)
    print("sync ok")


def check_step(model):
    with profile(activities=BOTH) as p:
        model.train()
        torch.cuda.synchronize()
    events = trace_of(p)
    assert check_flows(events) == {"kernel": 3}
    kernels = {e["name"]: e for e in events if e.get("cat") == "kernel"}
    assert set(kernels) == {"scale_kernel", "gradient_kernel", "step_kernel"}, kernels
    for e in kernels.values():
        assert e["args"]["grid"] == [4, 1, 1] and e["args"]["block"] == [128, 1, 1], e
        assert e["dur"] > 0 and e["args"]["registers per thread"] >= 16, e
    averages = p.key_averages()
    table = {}
    for e in averages:
        table.setdefault(e.key, e)
    for name in ("forward", "backward", "optimizer", *kernels):
        assert max(e.device_time_total for e in averages if e.key == name) > 0, name
    print(averages.table(sort_by="cuda_time_total", row_limit=12, max_name_column_width=24))
    print("step ok")


def check_schedule(model):
    traces = []

    def ready(p):
        traces.append(trace_of(p))

    with profile(activities=BOTH, schedule=schedule(wait=1, warmup=1, active=2, repeat=3),
                 on_trace_ready=ready, acc_events=True) as p:
        for _ in range(12):
            model.train()
            torch.cuda.synchronize()  # else work of the step before is executed, and told, in this one
            p.step()
    assert len(traces) == 3
    for events in traces:
        assert check_flows(events) == {"kernel": 6}, check_flows(events)
    print("schedule ok")


def main():
    torch.cuda.init()
    model = Model()
    model.train()  # compiles
    copies()
    check_copies()
    check_copies()
    check_sync()
    check_step(model)
    before = model.loss()
    check_schedule(model)
    check_step(model)
    assert model.loss() < before / 10, (before, model.loss())
    print("loss", "ok")


if __name__ == "__main__":
    sys.exit(main())
