"""Tensors between the two sides of a boundary of MAPL, over torch.distributed."""

import io
from typing import Any

import torch
import torch.distributed as dist

from ._errors import Error

_REFUSED = -1  # no digest: they have 56 bits


def agree_among(replicas: Any, digest: int) -> None:
    """The ranks of a group of torch.distributed agree, like agree() between the two sides of a boundary."""
    digests = _everyones(digest, replicas)
    if _REFUSED in digests:
        rank = dist.get_global_rank(replicas, digests.index(_REFUSED))
        raise Error(f"another replica of the boundary, rank {rank}, refused this step, and its own error says why; nothing has changed here")
    if any(other != digest for other in digests):
        raise Error("step: the replicas of the boundary have other settings, rates or steps, or another A or P; start all with the "
                    "same, give them one rate, and restore all")


def refuse_among(replicas: Any) -> None:
    """Replaces agree_among() in a replica that cannot continue; None: there are no others."""
    try:
        if replicas is not None:
            _everyones(_REFUSED, replicas)
    except (RuntimeError, ValueError):  # what is wrong here is the error to report
        pass


def _everyones(number: int, group: Any) -> list[int]:
    mine = torch.tensor([number])
    everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyones, mine, group=group)
    return [int(one.item()) for one in everyones]


class Messages:
    """Messages between the two sides of one boundary."""

    def __init__(self, peer: Any, group: Any) -> None:
        self._peer, self._group = peer, group

    def send(self, tensor: torch.Tensor) -> None:
        dist.send(tensor.detach().contiguous(), self._peer, group=self._group)

    def receive(self, into: torch.Tensor) -> None:
        dist.recv(into, self._peer, group=self._group)

    def agree(self, digest: int, other: str, sends_first: bool) -> None:
        theirs = self._swapped(digest, sends_first)
        self.check(theirs, other)
        if theirs != digest:
            raise Error(f"the boundary's {other}, rank {self._peer}, has other settings, another subspace, another anchor or other "
                        "codewords than this side; start both with the same, and restore both")

    def refuse(self, sends_first: bool) -> None:
        """Replaces agree() on a side that cannot continue, so that the waiting other side raises at once."""
        try:
            self._swapped(_REFUSED, sends_first)
        except (RuntimeError, ValueError):  # there is no other side, or no process group, and what is wrong here is the error to report
            pass

    def check(self, first: float, other: str) -> None:
        """Checks the begin of the other side's message, which may be a refusal."""
        if first == _REFUSED:
            raise Error(f"the boundary's {other}, rank {self._peer}, refused this step, and its own error says why; nothing has changed here")

    def send_refusal(self, numbers: int) -> None:
        """Replaces a message of so many numbers, whose first is never below 0."""
        self.send(torch.full((numbers,), float(_REFUSED)))

    def _swapped(self, digest: int, sends_first: bool) -> int:
        mine, theirs = torch.tensor([digest]), torch.zeros(1, dtype=torch.int64)
        if sends_first:
            self.send(mine)
        self.receive(theirs)
        if not sends_first:
            self.send(mine)
        return int(theirs.item())

    def send_object(self, what: Any) -> None:
        """Sends an object of tensors, texts, numbers, and lists and dicts of them."""
        file = io.BytesIO()
        torch.save(what, file)
        data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
        self.send(torch.tensor([data.numel()]))
        self.send(data)

    def receive_object(self) -> Any:
        size = torch.zeros(1, dtype=torch.int64)
        self.receive(size)
        data = torch.empty(int(size.item()), dtype=torch.uint8)
        self.receive(data)
        return torch.load(io.BytesIO(data.numpy().tobytes()), weights_only=True)
