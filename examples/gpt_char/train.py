"""train.py - trains a small character GPT on text.txt; the job that `make demo` records.

    python train.py [--steps 6] [--width 128] [--plant CAUSE] ...

Prints the loss of each step and the SHA-256 of the final weights. It knows nothing of twinbit. Run twice
with the same arguments it gives the same bits, unless --plant says otherwise (see causes.py).
"""

import argparse
import hashlib
import json
import os
import random
import resource
import time

import torch
from torch.nn import functional as F

import causes
from model import Gpt

HERE = os.path.dirname(os.path.abspath(__file__))


def parse():
    p = argparse.ArgumentParser(description="trains a small character GPT")
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--context", type=int, default=128)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=1337)
    p.add_argument("--text", default=os.path.join(HERE, "text.txt"))
    p.add_argument("--save", metavar="FILE", help="write the final weights there")
    p.add_argument("--plant", choices=causes.CAUSES, default="none", help="make the runs differ")
    p.add_argument("--place", metavar="FILE", default="place.json",
                   help="JSON: where a planted flip strikes (default: place.json if there is one)")
    p.add_argument("--truth", metavar="FILE", help="write down what was planted")
    p.add_argument("--times", metavar="FILE", help="write what each step took and the peak of memory, JSON")
    return p.parse_args()


def batches(text, vocabulary, args):
    """batches - endless (inputs, targets), each (batch, context) of int64"""
    data = torch.tensor([vocabulary.index(c) for c in text])
    rng = random.Random(args.seed)
    while True:
        starts = [rng.randrange(len(data) - args.context - 1) for _ in range(args.batch)]
        yield (torch.stack([data[i : i + args.context] for i in starts]),
               torch.stack([data[i + 1 : i + 1 + args.context] for i in starts]))


def weights_hash(model):
    h = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        h.update(name.encode())
        h.update(tensor.numpy().tobytes())
    return h.hexdigest()


def train(model, parameters, args, text, vocabulary, cause):
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    times = []
    data = batches(text, vocabulary, args)
    for step in range(args.steps):
        begin = time.perf_counter()
        cause.step = step
        inputs, targets = next(data)
        logits = model(inputs)
        loss = F.cross_entropy(logits.view(-1, len(vocabulary)), targets.view(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        times.append(time.perf_counter() - begin)
        print(f"step {step} loss {loss.item():.9f}", flush=True)
    return times


def main():
    args = parse()
    torch.manual_seed(args.seed)
    with open(args.text, encoding="utf-8") as f:
        text = f.read()
    vocabulary = "".join(sorted(set(text)))
    model = Gpt(len(vocabulary), args.context, args.layers, args.width, args.heads, args.dropout)
    place = {}
    if os.path.exists(args.place):
        with open(args.place, encoding="utf-8") as f:
            place = json.load(f)
    cause = causes.make(args.plant, args.seed, place, args.steps)
    cause.plant(model)
    times = train(model, cause.parameters(model), args, text, vocabulary, cause)
    print("weights sha256", weights_hash(model))
    if args.save:
        torch.save(model.state_dict(), args.save)
    if args.truth:
        cause.write(args.truth, args.plant, args.seed)
    if args.times:
        with open(args.times, "w", encoding="utf-8") as f:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            json.dump({"steps": times, "peak_kib": peak}, f)


if __name__ == "__main__":
    main()
