"""Tensors between the two sides of a boundary of MAPL, over torch.distributed."""

import io
from typing import Any

import torch
import torch.distributed as dist

from ._errors import Error

_REFUSED = -1  # no digest: they have 56 bits

class Messages:
    """Between the two sides of one boundary."""

    def __init__(self, peer: Any, group: Any) -> None:
        self._peer, self._group = peer, group

    def send(self, tensor: torch.Tensor) -> None:
        dist.send(tensor.detach().contiguous(), self._peer, group=self._group)

    def receive(self, into: torch.Tensor) -> None:
        dist.recv(into, self._peer, group=self._group)

    def agree(self, digest: int, other: str, sends_first: bool) -> None:
        theirs = self._swapped(digest, sends_first)
        if theirs == _REFUSED:
            raise Error(f"the boundary's {other}, rank {self._peer}, cannot take this step, and its own error says why; nothing has changed here")
        if theirs != digest:
            raise Error(f"the boundary's {other}, rank {self._peer}, has other settings, another subspace, another anchor or other "
                        "codewords than this side; start both with the same, and restore both")

    def refuse(self, sends_first: bool) -> None:
        """In the place of agree(), by a side that cannot go on: the other, which waits, raises at once."""
        try:
            self._swapped(_REFUSED, sends_first)
        except (RuntimeError, ValueError):  # there is no other side, or no process group, and what is wrong here is the error to report
            pass

    def _swapped(self, digest: int, sends_first: bool) -> int:
        mine, theirs = torch.tensor([digest]), torch.zeros(1, dtype=torch.int64)
        if sends_first:
            self.send(mine)
        self.receive(theirs)
        if not sends_first:
            self.send(mine)
        return int(theirs.item())

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
