"""Trains the tests' small GPT with tinygrad on CUDA; prints the seconds of each step after the JIT has captured it.

usage: tinygrad_gpt.py STEPS    one JSON object: wall and CPU seconds a step, and tinygrad's version
"""
import importlib.metadata
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.environ["TB_SOURCE_DIR"], "tests", "softgpu", "clients"))
import tinygrad_models as models  # noqa: E402
from tinygrad import Tensor, nn  # noqa: E402

CAPTURED = 2  # steps after which the JIT only launches


def main(steps):
    model = models.fill(models.GPT(), 1, "CUDA")
    step = models.trainer(model, nn.optim.AdamW(nn.state.get_parameters(model), lr=3e-3))
    places = [list(range(32))] * 4
    wall, cpu, losses = [], [], []
    for i in range(CAPTURED + steps):
        batch = [Tensor(x, device="CUDA").realize() for x in models.text(i, 4, 32, 32)]
        batch.insert(1, Tensor(places, device="CUDA").realize())
        start, used = time.perf_counter(), time.process_time()
        losses.append(step(*batch).item())
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    if not losses[-1] < losses[0]:
        sys.exit(f"the loss does not fall: {losses}")
    print(json.dumps({"wall": wall[CAPTURED:], "cpu": cpu[CAPTURED:],
                      "tinygrad": importlib.metadata.version("tinygrad")}))


main(int(sys.argv[1]))
