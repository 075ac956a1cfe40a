"""The small transformer of training.py, trained by GASLoC's workers over gloo. Started by test_ranks_gasloc.py, a process a rank:

    training_gasloc.py RANK SIZE FOLDER [MISTAKE]

Records a run for each of CASES to FOLDER/run<number>.safetensors. MISTAKE, in the first case alone: "average" (gradients are averaged
over ranks before the step, and recorded as they were), "stale" (a message brings the y of the round before), "before" (a restart
forgets the last y), "leaves" (a rank ends after two rounds).
"""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

import truestep
import truestep.torch
from truestep._c10d import ProcessGroupPeers
from training import Model, average_inside

ROUNDS = 4
CASES: list[dict[str, Any]] = [
    {"inner_steps": 2},
    {"inner_steps": 1, "law": "ring", "inner": "adams", "momentum": "gossiped", "gamma": 0.25, "alpha": 0.5, "bias_correction": "momentum"},
    {"inner_steps": 3, "law": "complete", "inner": "sgd", "eta": 0.7},
    {"inner_steps": None, "law": "two_peers", "seed": 5, "alpha": 0.5},  # another number of steps on each rank, and none
    {"inner_steps": 2, "law": "explicit", "edges": [(1, 0, 1, 0.5), (3, 0, 1, 1.0)], "threads": 2},
    {"inner_steps": 1, "law": "none"},
]
COLLECTIVES = ("all_gather", "all_gather_object", "all_reduce", "barrier", "broadcast", "reduce", "all_to_all", "all_gather_into_tensor")


def backward(model: torch.nn.Module) -> None:
    tokens = torch.randint(0, 23, (4, 6))
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()


@contextlib.contextmanager
def messages_alone() -> Iterator[list[int]]:
    """Nothing concerns all ranks in here. Gives the sizes of what is sent, message after message."""
    sizes: list[int] = []
    send = dist.isend

    def counted(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        sizes.append(tensor.numel())
        return send(tensor, *arguments, **options)
    refused = {name: mock.Mock(side_effect=AssertionError(f"{name} was called")) for name in COLLECTIVES}
    with mock.patch.multiple(dist, isend=counted, **refused):
        yield sizes


def steps_of(case: dict[str, Any], rank: int, number: int) -> int:
    return case["inner_steps"] if case["inner_steps"] is not None else (rank + number) % 3


def train(case: dict[str, Any], rank: int, mistake: str, path: Path) -> None:
    torch.manual_seed(3)
    model = Model()
    optimizer = truestep.torch.GASLoC(model.named_parameters(), lr=0.02, **case)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, ROUNDS)
    recorder = truestep.torch.RoundRecorder(optimizer)
    make_mistake(mistake, optimizer)
    torch.manual_seed(100 + rank)  # each rank has its own data
    with contextlib.nullcontext([]) if mistake else messages_alone() as sent:
        for number in range(1, ROUNDS + 1):
            if mistake == "leaves" and rank == 1 and number == 3:
                os._exit(7)
            for _ in range(steps_of(case, rank, number)):
                backward(model)
                if case is CASES[0] and not mistake and rank == 1 and number == 2:
                    model.head.bias.grad[3] = float("nan")  # this rank's round is a skipped one
                optimizer.step()
            if case["inner_steps"] is None:
                went = optimizer.round()
                assert sent == [4 * optimizer.problem.size] * went.neighbours, (sent, went)
            sent.clear()
            assert optimizer.native.rounds == number, "rounds"
            if mistake == "before" and number == 2:
                state = optimizer.native.state
                optimizer.native.restore(dataclasses.replace(state, before=state.parameters))
            schedule.step()
    recorder.write(path)
    if not mistake:
        check_restart(case, model, optimizer, rank)


def make_mistake(mistake: str, optimizer: truestep.torch.GASLoC) -> None:
    if mistake == "average":
        average_inside(optimizer.native)
    if mistake == "stale":
        right, kept = ProcessGroupPeers.start_send, {}

        def stale(self: ProcessGroupPeers, traffic: int, peer: int, number: int, data: Any) -> Any:
            before, kept[peer] = kept.get(peer, data), data.copy()
            return right(self, traffic, peer, number, before if number > 1 else data)
        ProcessGroupPeers.start_send = stale  # type: ignore[method-assign]


def check_restart(case: dict[str, Any], model: Model, optimizer: truestep.torch.GASLoC, rank: int) -> None:
    """A state_dict in a new optimizer of a new model goes on with the same bits."""
    twin = Model()
    twin_start = {name: torch.zeros_like(value) for name, value in twin.state_dict().items()}
    twin.load_state_dict(twin_start)  # the same on all ranks; the state brings the right ones
    other = truestep.torch.GASLoC(twin.named_parameters(), lr=0.02, **case)
    other.load_state_dict(optimizer.state_dict())
    for number in range(ROUNDS + 1, ROUNDS + 3):
        for _ in range(steps_of(case, rank, number)):
            seed = int(torch.randint(0, 2**31, ()))
            for network, stepped in ((model, optimizer), (twin, other)):
                torch.manual_seed(seed)
                backward(network)
                stepped.step()
        for stepped in (optimizer, other):
            if case["inner_steps"] is None:
                stepped.round()
    for name, mine in model.state_dict().items():
        assert torch.equal(mine.view(torch.int32), twin.state_dict()[name].view(torch.int32)), f"{name} after a restart"


def main() -> None:
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    mistake = sys.argv[4] if len(sys.argv) > 4 else ""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    for number, case in enumerate(CASES[:1] if mistake else CASES):
        train(case, rank, mistake, folder / f"run{number}.safetensors")
    dist.destroy_process_group()


main()
