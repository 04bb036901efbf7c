"""Asynchronous collectives and point to point calls of two gloo ranks; started by torchrun."""

import torch
import torch.distributed as dist
from common import save

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(10 + rank)
    results = []

    a, b = torch.randn(100000), torch.randn(300)
    work = [dist.all_reduce(a, async_op=True), dist.all_reduce(b, dist.ReduceOp.MAX, async_op=True)]
    other = torch.randn(64, 64) @ torch.randn(64, 64)  # touches neither a nor b
    for w in work:
        w.wait()
    results += [a * 2, b + 1, other]

    parts = [torch.empty(50) for _ in range(size)]
    dist.all_gather(parts, torch.randn(50), async_op=True).wait()
    results += [p.clone() for p in parts]
    joined = torch.empty(size * 50)
    dist.all_gather_into_tensor(joined, torch.randn(50))
    results.append(joined + 0)

    c = torch.randn(77)
    dist.broadcast(c, src=1)
    results.append(c * 3)
    d = torch.randn(40)
    if rank == 0:
        dist.send(d, dst=1)
    else:
        dist.recv(d, src=0)
    results.append(d * 2)
    e = torch.empty(40)
    request = dist.irecv(e, src=1 - rank) if rank == 0 else dist.isend(torch.randn(40), dst=0)
    request.wait()
    results.append(e + 1 if rank == 0 else d)

    # Where a future's callback runs: rank 0 adds it before rank 1 takes part, so on a thread of gloo; rank 1 when
    # all is done, so here; the last one wherever chance has it.
    g = torch.full((30,), rank + 1.0)
    if rank == 1:
        dist.recv(d, src=0)
    future = dist.all_reduce(g, async_op=True).get_future()
    if rank == 0:
        changed = future.then(lambda f: f.value()[0].sinh_())
        dist.send(d, dst=1)
        changed.wait()
    else:
        future.wait()
        future.then(lambda f: f.value()[0].cosh_()).wait()
    results.append(g + 1)

    future = dist.all_reduce(torch.ones(8) * rank, async_op=True).get_future()
    results.append(future.then(lambda f: f.value()[0] * 5).wait())
    save(f"result.{rank}.bin", results) if rank == 0 else None
    dist.barrier()
    save(f"result.{rank}.bin", results) if rank == 1 else None
    dist.barrier()
    dist.destroy_process_group()
