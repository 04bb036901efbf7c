"""peers.py - runs examples/gpt_char/train.py under another tool: peers.py debugmode|msprobe FOLDER ARGS...

The job's code is not touched: the step boundary is where it asks for the next batch, inside the time that
it measures.
"""

import json
import os
import sys

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/gpt_char")
sys.path.insert(0, EXAMPLE)

import train
from baton import Clock


def at_steps(begin, end):
    """at_steps - begin() before each step's batch is taken, end() once the step before it is over"""
    original = train.batches

    def batches(*args):
        first = True
        for batch in original(*args):
            if not first:
                end()
            first = False
            begin()
            yield batch

    train.batches = batches


def debugmode(folder):
    from torch.utils._debug_mode import DebugMode

    with DebugMode(), DebugMode.log_tensor_hashes():  # its default: the L1 norm in float64
        train.main()


def msprobe(folder):
    from msprobe.pytorch import PrecisionDebugger

    config = os.path.join(folder, "msprobe.json")
    with open(config, "w", encoding="utf-8") as f:
        json.dump({"task": "statistics", "dump_path": os.path.join(folder, "dump"), "rank": [], "step": [],
                   "level": "L1", "async_dump": False,
                   "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "md5"}}, f)
    debugger = PrecisionDebugger(config_path=config)
    models = []
    original = train.Gpt

    def gpt(*args):
        models.append(original(*args))
        return models[0]

    def end():
        debugger.stop()
        debugger.step()

    train.Gpt = gpt
    at_steps(lambda: debugger.start(model=models[0]), end)
    train.main()
    debugger.stop()


if __name__ == "__main__":
    peer = {"debugmode": debugmode, "msprobe": msprobe}[sys.argv[1]]
    where = sys.argv[2]
    sys.argv[1:3] = []
    train.time = Clock()
    peer(where)
    train.time.over()
