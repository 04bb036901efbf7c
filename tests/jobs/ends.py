"""A job that ends in an unusual way: ends.py OUT raise|exit|_exit|sigint|sigterm|abort|kill|atexit.

For sigint and sigterm it prints `ready` and waits to be hit.
"""

import atexit
import os
import signal
import sys
import time

import torch
from common import out_folder, save, toy_model, toy_steps


def last_words():
    with open(os.path.join(out_folder(), "last_words"), "a", encoding="utf-8") as f:
        f.write("at exit\n")


def on_term(number, frame):
    with open(os.path.join(out_folder(), "term"), "a", encoding="utf-8") as f:
        f.write("SIGTERM\n")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    way = sys.argv[2]
    atexit.register(last_words)
    torch.manual_seed(11)
    model = toy_model()
    print(toy_steps(model, torch.optim.SGD(model.parameters(), lr=0.1)))
    save("weights.bin", model.parameters())
    if way == "raise":
        raise RuntimeError("the job's own mistake")
    if way == "exit":
        sys.exit(3)
    if way == "_exit":
        os._exit(4)
    if way == "abort":
        os.abort()
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "sigterm":
        signal.signal(signal.SIGTERM, on_term)
    print("ready", flush=True)
    while way in ("sigint", "sigterm"):
        time.sleep(0.05)
