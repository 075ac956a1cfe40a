"""Ranks over gloo, each of which records its own file. Started by test_recording.py, a process a rank:

    recording.py RANK SIZE FOLDER WHAT

Writes FOLDER/run.rank<r>.safetensors. WHAT: "scape" (truestep.torch.Scape), "drift" (of it, one rank's parameters drift), "leaves" (of it,
rank 1 ends in the third step), "part" (of it, with clipping, two tensors alone, steps 2 and 3), "part-e5m2" (of that, with a payload of e5m2),
"scale" (of that, the scale of the third step is far too small), "ddp" (AdamS behind DistributedDataParallel), "first" (of that, all ranks take
rank 0's gradient in place of the mean), "twice" (of that, two reductions before a step), "ddp-part" (of it, two tensors alone, from the
third step on), "ddp-late" (of that, all ranks take rank 0's gradient in the fourth step), "ddp-early" (in the second).
"""

import gc
import os
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from plain_adams import PlainAdamS
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

import truestep
import truestep.torch

STEPS = 4


def make_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(7, 19), torch.nn.ReLU(), torch.nn.Linear(19, 5))


def backward(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(6, 7)).square().mean().backward()


def path_in(folder: Path) -> Path:
    return folder / "run.rank{rank}.safetensors"


def train_scape(rank: int, folder: Path, what: str) -> None:
    model = make_model()
    part = {"sample": "0.weight,2.bias", "start": 2, "steps": 2} if what in ("part", "part-e5m2", "scale") else {}
    settings = {"clip_norm": 0.05, "payload": "fp32" if what == "part" else "e5m2"} if part else {}
    optimizer = truestep.torch.Scape(model.named_parameters(), lr=0.02, density=0.2, **settings)
    with truestep.torch.Recorder(optimizer, path=path_in(folder), budget=1, **part):  # each step waits for the one before
        torch.manual_seed(100 + rank)
        for step in range(1, STEPS + 1):
            backward(model, optimizer)
            if what == "leaves" and step == 3 and rank == 1:
                os._exit(7)
            if what == "drift" and step == 3 and rank == 1:
                optimizer.native.parameters[5] *= 1.5
            if what == "scale" and step == 3:
                scale_down(optimizer.native)
            optimizer.step()


def scale_down(native: truestep.Optimizer) -> None:
    """So that nearly all saturates."""
    native.restore(step=native.steps, parameters=native.parameters.copy(), first_moment=native.first_moment, residual=native.residual,
                   mask=native.mask, next_mask=native.next_mask, exponent=native.exponent - 20)


def first_for_all(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return dist.broadcast(bucket.buffer(), 0, async_op=True).get_future().then(lambda done: done.value()[0])


def train_ddp(rank: int, size: int, folder: Path, what: str) -> None:
    model = make_model()
    whole = torch.nn.Sequential(model, torch.nn.LayerNorm(5))  # whose end is another optimizer's
    ddp = DistributedDataParallel(whole, bucket_cap_mb=0.0005)  # several buckets, which are made anew after the first step
    optimizer = PlainAdamS(model.parameters(), False)
    problem = truestep.Problem([(name, p.numel()) for name, p in model.named_parameters()], size, algorithm="adams",
                            bias_correction="none", weight_decay=0.0)
    part = {"sample": "0.weight,2.bias", "start": 3} if what.startswith("ddp-") else {}
    recorder = truestep.torch.Recorder(optimizer, problem, path=path_in(folder), state={"exp_avg": "first_moment"}, **part)
    wrong = {"first": range(1, STEPS + 1), "ddp-late": [4], "ddp-early": [2]}.get(what, [])  # steps
    step = 0

    def reduced(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        return (first_for_all if step in wrong else allreduce_hook)(state, bucket)

    ddp.register_comm_hook(None, recorder.comm_hook(reduced))
    torch.manual_seed(100 + rank)
    for step in range(1, STEPS + 1):
        backward(ddp, optimizer)
        if what == "twice":
            ddp(torch.randn(6, 7)).square().mean().backward()
        optimizer.step()
    recorder.close()


def main() -> None:
    rank, size, folder, what = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    status = 0
    try:
        if what in ("ddp", "first", "twice") or what.startswith("ddp-"):
            train_ddp(rank, size, folder, what)
        else:
            train_scape(rank, folder, what)
    except Exception:
        traceback.print_exc()
        status = 1
    if what == "twice":  # all are refused: who left at once would take a connection away that another still reduces over
        dist.barrier()
    # DDP and its hooks refer to each other, so that gloo's threads outlive the group; one of them that lets go of a Python hook after the
    # interpreter has begun to end is unwound through C++, which ends the process: "terminate called without an active exception".
    gc.collect()
    dist.destroy_process_group()
    sys.exit(status)


main()
