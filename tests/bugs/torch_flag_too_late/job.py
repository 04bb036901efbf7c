"""A module that sums its parts as threads end, unless deterministic algorithms were asked for when it was built."""
import concurrent.futures

import torch


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ordered = torch.are_deterministic_algorithms_enabled()

    def forward(self, parts):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(torch.sum, part) for part in parts]
            done = waiting if self.ordered else concurrent.futures.as_completed(waiting)
            total = torch.zeros(())
            for part in done:
                total = total / 3 + part.result()
        return total


model = Sum()
torch.use_deterministic_algorithms(True)
x = torch.arange(60000.0).remainder(37).sub(18).div(7).reshape(60, 1000)
x = x * torch.logspace(-3, 3, 60).unsqueeze(1)
print(sum(model(x.roll(i, 0)).item() for i in range(20)).hex())
