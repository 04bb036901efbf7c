"""multiprocessing with the spawn method: two workers get a shared tensor and send tensors back."""

import sys

import torch
import torch.multiprocessing as mp
from common import save, toy_model, toy_steps


def work(number, queue, done):
    torch.set_num_threads(1)
    torch.manual_seed(20 + number)
    model = toy_model()
    toy_steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
    queue.put((number, [p.detach().numpy().copy() for p in model.parameters()]))
    done.wait()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    workers = [context.Process(target=work, args=(n, queue, done)) for n in range(2)]
    for w in workers:
        w.start()
    got = dict(queue.get() for _ in workers)
    done.set()
    for w in workers:
        w.join()
        if w.exitcode != 0:
            sys.exit(1)
    for n in range(2):
        save(f"worker.{n}.bin", [torch.from_numpy(a) for a in got[n]])
