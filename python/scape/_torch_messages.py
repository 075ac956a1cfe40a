"""Tensors between the two sides of a boundary of MAPL, over torch.distributed."""

import io
from typing import Any

import torch
import torch.distributed as dist

from ._errors import Error


class Messages:
    """Between the two sides of one boundary."""

    def __init__(self, peer: Any, group: Any) -> None:
        self._peer, self._group = peer, group

    def send(self, tensor: torch.Tensor) -> None:
        dist.send(tensor.detach().contiguous(), self._peer, group=self._group)

    def receive(self, into: torch.Tensor) -> None:
        dist.recv(into, self._peer, group=self._group)

    def agree(self, digest: int, other: str, sends_first: bool) -> None:
        mine, theirs = torch.tensor([digest]), torch.zeros(1, dtype=torch.int64)
        if sends_first:
            self.send(mine)
        self.receive(theirs)
        if not sends_first:
            self.send(mine)
        if not torch.equal(mine, theirs):
            raise Error(f"the boundary's {other}, rank {self._peer}, has other settings, another subspace, another anchor or other "
                        "codewords than this side; start both with the same, and restore both")

    def send_object(self, what: Any) -> None:
        """Of tensors, texts, numbers, and lists and dicts of them."""
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
