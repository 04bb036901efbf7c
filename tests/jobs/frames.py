"""What torch.compile takes for a frame to compile, with a backend that compiles nothing: must be the same when recorded."""

import logging

import torch
from torch import nn

FRAMES = []


class Frames(logging.Handler):
    def emit(self, record):
        text = record.getMessage()
        if "start tracing" in text:
            FRAMES.append(text.split("start tracing ")[1].split()[0])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.relu = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x):
        return self.relu(self.linear(x)) + 1


def compiled(what):
    return torch.compile(what, backend=lambda graph, inputs: graph)


def train(model):
    forward = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    update = compiled(optimizer.step)
    for _ in range(3):
        loss = forward(torch.ones(2, 4)).square().sum()
        loss.backward()
        update()
        optimizer.zero_grad()
    print(loss.item())


def broken(block, model):
    @compiled
    def both(x):
        y = model(x)
        print("a break")
        return block(y)

    print(both(torch.ones(2, 4)).sum().item())


if __name__ == "__main__":
    torch.manual_seed(2)
    logger = logging.getLogger("torch._dynamo.symbolic_convert")
    logger.setLevel(logging.INFO)
    logger.addHandler(Frames())
    torch.compiler.reset()  # takes much away that was registered before
    block, model = Block(), nn.Sequential(Block(), nn.Linear(4, 4))
    train(block)
    train(model)
    broken(block, model)
    print("\n".join(FRAMES))
    assert "forward" in FRAMES
