"""An encoder that is used twice in a step, and a reduction that all ranks but one give only its first contribution."""

from typing import Any

import torch
import torch.distributed as dist
import truestep
import truestep.torch
from sharded_runs import adams, forget_second_moments
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel


class TwiceUsed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
        self.first: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.encoder.weight * 1.0  # whose gradient is that of the first use alone
        if weight.requires_grad:
            weight.register_hook(lambda gradient: self.first.append(gradient.clone()))
        once = torch.nn.functional.linear(x, weight, self.encoder.bias)
        return self.last(torch.tanh(self.encoder(torch.tanh(once))))


def train(rank: int, world: int, folder: str = "", loses: bool = False) -> None:
    torch.manual_seed(1)
    model = TwiceUsed()
    ddp = DistributedDataParallel(model)
    optimizer = adams(ddp.parameters())
    claim = truestep.Problem(ddp.named_parameters(), world, algorithm="adams")

    def reduce(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        if loses and rank != 0:
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
                if parameter is model.encoder.weight:
                    gradient.copy_(model.first[-1])
        return allreduce_hook(state, bucket)
    with truestep.torch.Recorder(optimizer, claim, state={"exp_avg": "first_moment"}, path=f"{folder}/run.rank{{rank}}.safetensors") as recorder:
        ddp.register_comm_hook(None, recorder.comm_hook(reduce))
        torch.manual_seed(10 + rank)
        for _ in range(3):
            optimizer.zero_grad()
            ddp(torch.randn(5, 6)).square().sum().backward()
            forget_second_moments(optimizer)
            optimizer.step()
