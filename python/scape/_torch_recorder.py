"""Records the steps of an optimizer of PyTorch."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from . import _recorder
from ._errors import Error
from ._optimizer import Optimizer
from ._problem import Problem

_NATIVE = ("parameters", "first_moment", "residual", "mask", "next_mask")


def _flat(tensors: list[Any], parameters: list[torch.Tensor]) -> np.ndarray:
    """One fp32 vector of all; None is zeros."""
    parts = [torch.zeros(p.numel()) if t is None else t.detach().to("cpu", torch.float32).reshape(-1)
             for t, p in zip(tensors, parameters)]
    return torch.cat(parts).numpy().copy()


class Recorder:
    """Records every step of an optimizer from here on, through its step hooks; rank 0 gathers all ranks' and writes them.

        recorder = scape.torch.Recorder(optimizer)       # a scape.torch.Scape
        ...                                              # a few steps: optimizer.step(), without a closure
        recorder.write("run.safetensors")                # on all ranks; then: scape verify run.safetensors

    Of another optimizer that claims to be SCAPE or AdamS say what it trains and where its state holds a result:
    ``Recorder(mine, problem, state={"exp_avg": "first_moment"})``. Every rank's copy is recorded, so a rank that drifts is found.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, problem: Problem | None = None, *, state: Mapping[str, str] | None = None,
                 process_group: Any = None) -> None:
        self._optimizer, self._state = optimizer, dict(state or {})
        self._native: Optimizer | None = getattr(optimizer, "native", None)
        problem = problem if problem is not None else getattr(optimizer, "problem", None)
        if problem is None:
            raise Error("Recorder: what a foreign optimizer trains is not known; give a scape.Problem of its parameters")
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        distributed = dist.is_available() and dist.is_initialized()
        self._group = (process_group or dist.group.WORLD) if distributed and problem.workers > 1 else None
        ranks = 1 if self._group is None else dist.get_world_size(self._group)
        if ranks != problem.workers:
            raise Error(f"Recorder: the problem has {problem.workers} workers and the process group {ranks} ranks; "
                        "give the group of its ranks")
        self._rank = 0 if self._group is None else dist.get_rank(self._group)
        self._recorder = _recorder.Recorder(problem, _flat(self._parameters, self._parameters), source=type(optimizer).__name__)
        self._gradient: np.ndarray | None = None
        self._hooks = [optimizer.register_step_pre_hook(self._before), optimizer.register_step_post_hook(self._after)]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes what was recorded, on rank 0, and records no more. To be called on all ranks."""
        for hook in self._hooks:
            hook.remove()
        if self._rank == 0:
            self._recorder.write(path)
        if self._group is not None:
            dist.barrier(self._group)

    def _before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if any(argument is not None for argument in (*arguments[1:], *options.values())):
            raise Error("Recorder: step(closure) makes the gradients inside, where nobody sees them; call backward() before step()")
        self._gradient = _flat([p.grad for p in self._parameters], self._parameters)

    def _after(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        mine = {"gradient": self._gradient} | self._results()
        everyone = [mine]
        if self._group is not None:
            everyone = [None] * dist.get_world_size(self._group)  # type: ignore[list-item]
            dist.all_gather_object(everyone, mine, group=self._group)
        if self._rank != 0:
            return
        self._recorder.begin(float(self._optimizer.param_groups[0]["lr"]))
        for rank, vectors in enumerate(everyone):
            for name, vector in vectors.items():
                self._recorder.add(name, rank, vector)

    def _results(self) -> dict[str, Any]:
        if self._native is not None:
            return {name: getattr(self._native, name).copy() for name in _NATIVE}
        results = {"parameters": _flat(self._parameters, self._parameters)}
        for key, name in self._state.items():
            held = [self._optimizer.state[p].get(key) for p in self._parameters]
            flat = _flat(held, self._parameters)
            results[name] = flat != 0 if "mask" in name else flat
        return results
