"""torchft's DiLoCo on gloo ranks, recorded as rounds. Its Manager, which keeps replicas together when some die, is replaced by one that averages."""

from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torchft.local_sgd
import torchft.manager
import truestep.integrations


def manager() -> Any:
    made = mock.create_autospec(torchft.manager.Manager)

    def allreduce(tensor: torch.Tensor, *_: object, **__: object) -> Any:
        return dist.all_reduce(tensor, op=dist.ReduceOp.AVG, async_op=True)
    made.allreduce.side_effect = allreduce
    made._use_async_quorum, made.errored.return_value, made.should_commit.return_value = False, None, True
    made.current_step.return_value = 0
    made.num_participants.return_value = dist.get_world_size()
    return made


def train(rank: int, world: int, folder: str = "", inner: str = "AdamW", momentum: float = 0.9) -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(10, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5))
    optimizer = getattr(torch.optim, inner)(model.parameters(), lr=0.01)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=momentum, nesterov=momentum > 0)
    torch.manual_seed(rank)
    with torchft.local_sgd.DiLoCo(manager(), [model], optimizer, outer, sync_every=3):
        record = truestep.integrations.DiLoCo(model, optimizer, outer, sync_every=3)
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.randn(6, 10)).square().sum().backward()
            optimizer.step()
        record.write(f"{folder}/run.safetensors")
