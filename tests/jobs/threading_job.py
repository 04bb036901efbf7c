"""Threads of the job's own, one after another and side by side, each with a model; backward in each."""

import threading

import torch
from common import save, toy_model
from torch import nn

results = {}


def work(number, data):
    model = data[0]
    for x, y in data[1:]:
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
    results[number] = list(model.parameters())


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(13)
    jobs = []
    for number in range(4):
        model = toy_model().eval()  # no dropout: the threads share one generator
        jobs.append([model] + [(torch.randn(64, 16), torch.randint(4, (64,))) for _ in range(3)])
    for number in (0, 1):
        t = threading.Thread(target=work, args=(number, jobs[number]), name=f"serial-{number}")
        t.start()
        t.join()
    pair = [threading.Thread(target=work, args=(n, jobs[n]), name=f"pair-{n}") for n in (2, 3)]
    for t in pair:
        t.start()
    for t in pair:
        t.join()
    for number in range(4):
        save(f"thread.{number}.bin", results[number])
