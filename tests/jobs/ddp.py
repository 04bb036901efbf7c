"""Two gloo ranks of DistributedDataParallel; started by torchrun."""

import torch
import torch.distributed as dist
from common import save, toy_model
from torch import nn
from torch.nn.parallel import DistributedDataParallel

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    model = DistributedDataParallel(toy_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(100 + rank)
    for step in range(4):
        x, y = torch.randn(64, 16), torch.randint(4, (64,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {step} loss {total.item() / dist.get_world_size():.9f}", flush=True)
    dist.barrier()
    for turn in range(dist.get_world_size()):
        if turn == rank:
            save(f"weights.{rank}.bin", model.parameters())
        dist.barrier()
    dist.destroy_process_group()
