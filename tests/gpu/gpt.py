#!/usr/bin/env python3
"""cuda_gpt under each tap, twice each, and its step as a CUDA graph.

usage: gpt.py BUILD FOLDER [--device softgpu] [OPTIONS of cuda_gpt]

Same output and status as without twinbit; launches were seen; two recordings are identical, and so are those of two
taps. With --graph, under the shim: each replay has the kernels of the step that is no graph, with the same
fingerprints; a tap that cannot look into a graph says so. Rows of coverage are printed. Skipped where there is no GPU, or no cuda_gpt.
"""
import argparse
import os

import gpu
from recording import TAPS, Recordings


def plain(r, job):
    want = r.alone(job)
    for tap, options in TAPS.items():
        names = [f"{tap}-{n}" for n in (1, 2)]
        if all([r.record(name, options, job, want) for name in names]):
            if not r.count(names[0]):
                r.wrong(f"{tap}: no launch was seen")
            r.identical(*names)
        if tap != "shim" and os.path.exists(r.trace(names[0])) and os.path.exists(r.trace("shim-1")):
            r.identical("shim-1", names[0])
    return want


def graph(r, job, steps):
    want = r.alone(job)
    for tap, options in TAPS.items():
        names = [f"{tap}-graph-{n}" for n in (1, 2)]
        if all([r.record(name, options, job, want) for name in names]):
            if not r.count(names[0]) and not r.not_covered(names[0], "graph"):
                r.wrong(f"{tap}: no launch in a graph was seen, and none is said to be missing")
            r.identical(*names)
    if not os.path.exists(r.trace("shim-1")) or not os.path.exists(r.trace("shim-graph-1")):
        return want
    streamed, replayed = r.kernels_by_step("shim-1"), r.kernels_by_step("shim-graph-1")
    for step in range(steps):
        one, other = streamed.get(step, []), replayed.get(step, [])
        if not one or sum(1 for _, written in one for _, fp in written if fp) < len(one):
            r.wrong(f"step {step}: not every kernel has a fingerprint: {one[:3]}")
        if one != other:
            at = next((n for n, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), min(len(one), len(other)))
            r.wrong(f"step {step}: {len(one)} kernels, {len(other)} in the graph; the {at}th is "
                    f"{one[at:at + 1]}, in the graph {other[at:at + 1]}")
        print(f"step {step}: {len(one)} kernels, as in the graph", flush=True)
    return want


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--device", choices=["softgpu", "host"], default="host")
    parser.add_argument("--steps", type=int, default=3)
    args, options = parser.parse_known_args()
    reason = gpu.why_no_gpu() if args.device == "host" else None
    if reason:
        gpu.skip(reason)
    program = os.path.join(args.build, "bin", "cuda_gpt")
    if not os.path.exists(program):
        gpu.skip("no cuda_gpt: it needs nvcc, and the target cuda_gpt")
    job = [program, "--steps", str(args.steps), *options]
    r = Recordings(args.build, args.folder, args.device)
    if plain(r, job).out != graph(r, [*job, "--graph"], args.steps).out:
        r.wrong("without twinbit, --graph has another output")
    r.end(f"{len(TAPS)} taps, {args.steps} steps")


if __name__ == "__main__":
    main()
