"""What a Recorder holds of each step, in memory or in a file of each rank, until its trace is written."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from . import _recorder, _torch_sharded, _values
from ._background import Background
from ._errors import Error

Scalars = tuple[list[float], float | None, int | None]  # the learning rates, the norm and E of a step


class Held:
    """The recorded stretches of a model's vectors, by parameter."""

    def __init__(self, parameters: list[torch.Tensor], ranges: list[tuple[int, int]]) -> None:
        self.parameters, self.ranges, begin = parameters, ranges, 0
        self._cuts: dict[torch.Tensor, list[tuple[int, int]]] = {}
        for parameter in parameters:
            end = begin + parameter.numel()
            self._cuts[parameter] = [(max(first, begin) - begin, min(last, end) - begin)
                                     for first, last in ranges if first < end and last > begin]
            begin = end

    def of(self, parameter: torch.Tensor, tensor: torch.Tensor | None) -> list[torch.Tensor]:
        """The stretches of a parameter's values; None is zeros."""
        cuts = self._cuts[parameter]
        if tensor is None:
            return [torch.zeros(end - begin, device="cpu") for begin, end in cuts]
        if not cuts:
            return []
        _values.check_memory(_torch_sharded.of_this_rank(tensor), "Recorder")
        found = tensor.numel() if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        if found != parameter.numel():
            raise Error(f"Recorder: of a parameter of {parameter.numel()} values there is {found}; give results that have its values")
        flat = _torch_sharded.whole(tensor, "Recorder").detach().reshape(-1)
        return [_values.as_fp32(flat[begin:end], "Recorder").cpu() for begin, end in cuts]

    def flat(self, tensors: Iterable[Any]) -> np.ndarray:
        """One fp32 vector of all."""
        return torch.cat([piece for p, t in zip(self.parameters, tensors) for piece in self.of(p, t)]).numpy()

    def cut(self, vector: np.ndarray) -> np.ndarray:
        return np.concatenate([vector[begin:end] for begin, end in self.ranges])


class Gathered:
    """Gathers all ranks' vectors in rank 0's memory, which writes them."""

    def __init__(self, problem: Any, start: np.ndarray, source: str, group: Any, rank: int, sample: _recorder.Sample | None,
                 begin: int, mine: dict[str, np.ndarray]) -> None:
        self._group, self._rank = group, rank
        everyone = self._everyones(mine)
        state = {name: [vectors[name] for vectors in everyone] for name in mine}
        self.recorder = _recorder.kind_of(problem)(problem, start, source, sample=sample, begin=begin, state=state)

    def _everyones(self, mine: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        everyone = [mine]
        if self._group is not None:
            everyone = [None] * dist.get_world_size(self._group)  # type: ignore[list-item]
            dist.all_gather_object(everyone, mine, group=self._group)
        return everyone

    def step(self, scalars: Scalars, mine: dict[str, np.ndarray]) -> None:
        everyone = self._everyones(mine)
        if self._rank != 0:
            return
        self.recorder.begin(*scalars)
        for rank, vectors in enumerate(everyone):
            for name, vector in vectors.items():
                self.recorder.add(name, rank, vector)

    def write(self, path: str | os.PathLike[str]) -> None:
        if self._rank == 0:
            self.recorder.write(path)
        if self._group is not None:
            dist.barrier(self._group)


class OwnFile:
    """Writes each rank's vectors to its own file during training."""

    def __init__(self, problem: Any, start: np.ndarray, source: str, rank: int, path: str, budget: int,
                 sample: _recorder.Sample | None, begin: int, mine: dict[str, np.ndarray]) -> None:
        self._rank, self.path = rank, path
        self.recorder = _recorder.kind_of(problem)(problem, start, source, rank=rank, spool=self.path + ".spool", sample=sample, begin=begin,
                                       state={name: [vector] for name, vector in mine.items()})
        self._background = Background(budget)

    def step(self, scalars: Scalars, mine: dict[str, np.ndarray]) -> None:
        self._background.put(sum(vector.nbytes for vector in mine.values()), lambda: self._keep(scalars, mine))

    def _keep(self, scalars: Scalars, mine: dict[str, np.ndarray]) -> None:
        self.recorder.begin(*scalars)
        for name, vector in mine.items():
            self.recorder.add(name, self._rank, vector)

    def close(self, write: bool) -> None:
        try:
            self._background.close()
            if write:
                self.recorder.write(self.path)
        finally:
            del self.recorder  # and with it the spool
