"""A plain data-parallel run over gloo, whose fingerprints are written, of torch.optim.AdamW that a line makes AdamS of, so that the verifier knows
it. Started by test_fingerprints.py, a process a rank:

    prints_training.py RANK SIZE FOLDER NAME [MISTAKE [START STEPS]]

START, STEPS: so many steps from that one on are recorded, too, FOLDER/NAME.rank<r>.safetensors.

MISTAKE: "drift" (from step 4 on one rank forgets its weight decay), "data" (from step 3 on one rank sees other data), "order" (gradients are
added in the other order of ranks), "dies" (the process ends in step 5).
"""

import contextlib
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import truestep.torch

STEPS = 6


def average(model: torch.nn.Module, size: int, mistake: str) -> None:
    """As DistributedDataParallel does, in one order for all, so that a run repeats itself."""
    for parameter in model.parameters():
        everyone = [torch.empty_like(parameter.grad) for _ in range(size)]
        dist.all_gather(everyone, parameter.grad)
        total = torch.zeros_like(parameter.grad)
        for gradient in reversed(everyone) if mistake == "order" else everyone:
            total += gradient
        parameter.grad = total / size


def main() -> None:
    rank, size, folder, name = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    mistake = sys.argv[5] if len(sys.argv) > 5 else ""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/{name}.store", rank=rank, world_size=size)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2))
    # As named_parameters() makes it, from PyTorch 2.6 on.
    groups = [{"params": list(model.parameters()), "param_names": [name for name, _ in model.named_parameters()]}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1)
    recorder: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if len(sys.argv) > 6:
        claim = truestep.Problem(model.named_parameters(), size, algorithm="adams", beta2=0.999, weight_decay=0.1)
        recorder = truestep.torch.Recorder(optimizer, claim, path=folder / (name + ".rank{rank}.safetensors"), state={"exp_avg": "first_moment"},
                                        start=int(sys.argv[6]), steps=int(sys.argv[7]))
    with recorder, truestep.torch.Fingerprints(optimizer, folder / (name + ".rank{rank}.prints"), state=["exp_avg", "exp_avg_sq"],
                                            replicated=["gradient", "parameters", "exp_avg", "exp_avg_sq"]):
        for step in range(1, STEPS + 1):
            torch.manual_seed(10 * step + rank + (1000 if mistake == "data" and step >= 3 and rank == 1 else 0))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(torch.randn(8, 6)), torch.randn(8, 2)).backward()
            average(model, size, mistake)
            if mistake == "drift" and step >= 4 and rank == 1:
                optimizer.param_groups[0]["weight_decay"] = 0.0
            if mistake == "dies" and step == 5:
                os._exit(7)
            for state in optimizer.state.values():
                state["exp_avg_sq"] = state["exp_avg"].square()
            optimizer.step()
    dist.destroy_process_group()


main()
