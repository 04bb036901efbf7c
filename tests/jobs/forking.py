"""os.fork: two children and a grandchild compute on; the parent goes on meanwhile."""

import os
import sys

import torch
from common import save, toy_model, toy_steps


def child(name, model, grandchild):
    pid = os.fork()
    if pid:
        return pid
    torch.manual_seed(len(name))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    toy_steps(model, optimizer, 2)
    if grandchild:
        os.waitpid(child(name + "x", model, False), 0)
    stdout = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the children's hashes would come in any order
    save(f"{name}.bin", model.parameters())
    os.dup2(stdout, 1)
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)  # libgomp's threads do not survive fork
    torch.manual_seed(12)
    model = toy_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        model(torch.randn(4, 16))
    sys.stdout.flush()
    pids = [child("first", model, True), child("second", model, False)]
    with torch.no_grad():
        save("parent.bin", [model(torch.randn(4, 16))])
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
