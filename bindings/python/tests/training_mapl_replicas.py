"""A pipeline of two stages that stands twice beside itself: 4 processes over gloo, replica after replica, or 2, each with both stages. Started by
test_ranks_mapl.py:

    training_mapl_replicas.py RANK SIZE FOLDER [MISTAKE]

Only A is trained. What it comes to is saved as FOLDER/SIZE-<replica>.pt. SIZE 1: all in one process, the mean made by hand. MISTAKE: "alone" (no
replica asks the others), "start" (replica 1 begins with another A), "sides" (its receiver alone does). "rate" is none: each step is first tried with
a rate that is NaN, and then another, on replica 1, which ends it on all, and then taken.
"""

import gc
import math
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import truestep
import truestep.torch.mapl

STEPS, TOKENS, WIDTH, RANK, RATE, REPLICAS = 4, 12, 8, 3, 0.05, 2
# Of a rate that is NaN on replica 1, what replicas of one process and senders raise.
EXPECTED = [[f"another replica of the boundary, rank {rank}, refused this step" for rank in (1, 2)], ["the rate of the subspace is nan"] * 2]


def make(replica: int, mistake: str, stage: int = 0) -> truestep.torch.mapl.Boundary:
    other = mistake == "start" or (mistake == "sides" and stage == 1)
    return truestep.torch.mapl.Boundary(WIDTH, RANK, 1, anchors="none", seed=2 if other and replica == 1 else 1)


def step_of(boundary: truestep.torch.mapl.Boundary, mistake: str, expected: str, rate: float | None = None, **peers: Any) -> None:
    told = expected if rate is None else "the replicas of the boundary have other settings, rates or steps"
    for line, other in ((expected, float("nan")), (told, math.nextafter(RATE, 1.0))) if mistake == "rate" else ():
        try:
            boundary.step(other if "nan" in expected else rate, **peers)
            raise AssertionError("the step was taken")
        except truestep.Error as error:
            assert line in str(error), error
    assert boundary.step(rate, **peers), "the step"


def data(replica: int, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(100 * replica + step)
    return torch.randn(TOKENS, WIDTH, requires_grad=True), torch.randn(TOKENS, WIDTH), torch.zeros(TOKENS, dtype=torch.int64)


def in_one(folder: Path) -> None:
    boundaries = [make(replica, "") for replica in range(REPLICAS)]
    for step in range(STEPS):
        for replica, boundary in enumerate(boundaries):
            x, g, ids = data(replica, step)
            boundary.receive(boundary.send(x, ids), ids).backward(g)
        gradients = [torch.from_numpy(b.native.part("sender")) + torch.from_numpy(b.native.part("receiver")) for b in boundaries]
        for boundary in boundaries:
            assert boundary.native.step(RATE, gradient=(gradients[0] + gradients[1]) / 2), "the step"
    for replica, boundary in enumerate(boundaries):
        torch.save(boundary.subspace, folder / f"1-{replica}.pt")


def main() -> None:
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    mistake = sys.argv[4] if len(sys.argv) > 4 else ""
    torch.set_num_threads(1)
    if size == 1:
        in_one(folder)
        return
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    if size == REPLICAS:
        boundary = make(rank, mistake)
        for step in range(STEPS):
            x, g, ids = data(rank, step)
            boundary.receive(boundary.send(x, ids), ids).backward(g)
            step_of(boundary, mistake, EXPECTED[rank][0], RATE, replicas=dist.group.WORLD)
        torch.save(boundary.subspace, folder / f"{size}-{rank}.pt")
        dist.destroy_process_group()
        return
    senders = dist.new_group([2 * replica for replica in range(REPLICAS)])
    replica, stage = divmod(rank, 2)
    boundary = make(replica, mistake, stage)
    for step in range(STEPS):
        x, g, ids = data(replica, step)
        if stage == 0:
            z = boundary.send(x, ids)
            dist.send(z.detach(), rank + 1)
            dz = torch.empty_like(z)
            dist.recv(dz, rank + 1)
            z.backward(dz)
            step_of(boundary, mistake, EXPECTED[replica][1], RATE, receiver=rank + 1, replicas=None if mistake == "alone" else senders)
        else:
            z = torch.empty(TOKENS, RANK)
            dist.recv(z, rank - 1)
            z.requires_grad_()
            boundary.receive(z, ids).backward(g)
            dist.send(z.grad, rank - 1)
            step_of(boundary, mistake, f"the boundary's sender, rank {rank - 1}, refused this step", sender=rank - 1)
    if stage == 1:
        torch.save(boundary.subspace, folder / f"{size}-{replica}.pt")


status = 0
try:
    main()
except Exception:
    traceback.print_exc()
    status = 1
# Also of one that was refused: gloo's threads, ended by the interpreter, may end the process with "terminate called".
gc.collect()
if dist.is_initialized():
    dist.destroy_process_group()
sys.exit(status)
