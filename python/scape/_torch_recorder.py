"""Records the steps of an optimizer of PyTorch."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from . import _recorder
from ._background import Background
from ._errors import Error
from ._optimizer import Optimizer
from ._problem import Problem
from ._torch_hooks import around_steps

CommHook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]  # type: ignore[name-defined]
_NATIVE = ("parameters", "first_moment", "residual", "mask", "next_mask")


def _flat(tensors: list[Any], parameters: list[torch.Tensor]) -> np.ndarray:
    """One fp32 vector of all; None is zeros."""
    parts = [torch.zeros(p.numel()) if t is None else t.detach().to("cpu", torch.float32).reshape(-1)
             for t, p in zip(tensors, parameters)]
    return torch.cat(parts).numpy().copy()


class _Gathered:
    """Rank 0 has all ranks' vectors, in memory, and writes them."""

    def __init__(self, problem: Problem, start: np.ndarray, source: str, group: Any, rank: int) -> None:
        self._group, self._rank = group, rank
        self._recorder = _recorder.Recorder(problem, start, source)

    def step(self, rate: float, mine: dict[str, np.ndarray]) -> None:
        everyone = [mine]
        if self._group is not None:
            everyone = [None] * dist.get_world_size(self._group)  # type: ignore[list-item]
            dist.all_gather_object(everyone, mine, group=self._group)
        if self._rank != 0:
            return
        self._recorder.begin(rate)
        for rank, vectors in enumerate(everyone):
            for name, vector in vectors.items():
                self._recorder.add(name, rank, vector)

    def write(self, path: str | os.PathLike[str]) -> None:
        if self._rank == 0:
            self._recorder.write(path)
        if self._group is not None:
            dist.barrier(self._group)


class _OwnFile:
    """Each rank writes what it has by itself, while it trains."""

    def __init__(self, problem: Problem, start: np.ndarray, source: str, rank: int, path: str | os.PathLike[str], budget: int) -> None:
        if "rank{rank}" not in os.path.basename(os.fspath(path)):
            raise Error(f"Recorder: path is {os.fspath(path)!r}, and each rank writes a file of its own; give one with the rank in its "
                        "name, such as 'run.rank{rank}.safetensors'")
        self._rank, self.path = rank, os.fspath(path).replace("{rank}", str(rank))
        self._recorder = _recorder.Recorder(problem, start, source, rank=rank, spool=self.path + ".spool")
        self._background = Background(budget)

    def step(self, rate: float, mine: dict[str, np.ndarray]) -> None:
        self._background.put(sum(vector.nbytes for vector in mine.values()), lambda: self._keep(rate, mine))

    def _keep(self, rate: float, mine: dict[str, np.ndarray]) -> None:
        self._recorder.begin(rate)
        for name, vector in mine.items():
            self._recorder.add(name, self._rank, vector)

    def close(self) -> None:
        try:
            self._background.close()
            self._recorder.write(self.path)
        finally:
            del self._recorder  # and with it the spool


class Recorder:
    """Records every step of an optimizer from here on, through its step hooks. Each rank writes a file of its own, in the background:

        with scape.torch.Recorder(optimizer, path="run.rank{rank}.safetensors"):   # a scape.torch.Scape; {rank} as it stands
            ...                                          # train: optimizer.step(), without a closure
        # then: scape verify run.rank*.safetensors, or scape.verify("run.rank*.safetensors")

    Steps wait for the disk beside it (``....spool``); the trace appears when the recorder is closed, and a process that is killed leaves
    none. ``budget``: the bytes that may be on their way there; where there are more, the step waits. Without ``path``, rank 0 gathers all
    ranks' vectors in memory, and ``recorder.write("run.safetensors")``, on all ranks, writes one file.

    Of another optimizer that claims to be SCAPE or AdamS say what it trains and where its state holds a result:
    ``Recorder(mine, problem, state={"exp_avg": "first_moment"})``. Every rank's copy is recorded, so a rank that drifts is found.
    Behind DistributedDataParallel gradients are averaged before the step: comm_hook() sees each rank's own.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, problem: Problem | None = None, *,
                 path: str | os.PathLike[str] | None = None, budget: int = 256 << 20, state: Mapping[str, str] | None = None,
                 process_group: Any = None) -> None:
        self._optimizer, self._state = optimizer, dict(state or {})
        self._native: Optimizer | None = getattr(optimizer, "native", None)
        problem = problem if problem is not None else getattr(optimizer, "problem", None)
        if problem is None:
            raise Error("Recorder: what a foreign optimizer trains is not known; give a scape.Problem of its parameters")
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        distributed = dist.is_available() and dist.is_initialized()
        group = (process_group or dist.group.WORLD) if distributed and problem.workers > 1 else None
        ranks = 1 if group is None else dist.get_world_size(group)
        if ranks != problem.workers:
            raise Error(f"Recorder: the problem has {problem.workers} workers and the process group {ranks} ranks; "
                        "give the group of its ranks")
        rank = 0 if group is None else dist.get_rank(group)
        start, source = _flat(self._parameters, self._parameters), type(optimizer).__name__
        self._to: _Gathered | _OwnFile = (_Gathered(problem, start, source, group, rank) if path is None
                                          else _OwnFile(problem, start, source, rank, path, budget))
        self._gradient: np.ndarray | None = None
        self._own: dict[torch.Tensor, torch.Tensor | None] | None = None  # by the comm hook; None: seen twice
        self._parts: np.ndarray | None = None  # micro-batches of the coming step, added
        self._part_hooks: list[Callable[[bool], None]] = getattr(optimizer, "_part_hooks", [])
        self._part_hooks.append(self._part)
        self._unhook: Callable[[], None] | None = around_steps(optimizer, self._before, self._after)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes what was gathered, on rank 0, and records no more. To be called on all ranks."""
        if isinstance(self._to, _OwnFile):
            raise Error(f"Recorder: this rank's file is {self._to.path}; close() finishes it")
        self._stop()
        self._to.write(path)

    def close(self) -> None:
        """Finishes this rank's file, and records no more."""
        if self._unhook is None:
            return
        self._stop()
        if isinstance(self._to, _OwnFile):
            self._to.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        try:
            self.close()
        except Error:
            if error is None:  # else that is what is to be told
                raise

    def comm_hook(self, hook: CommHook = allreduce_hook) -> CommHook:
        """For ``ddp.register_comm_hook(None, recorder.comm_hook())``: keeps each rank's own gradients before ``hook`` reduces them."""
        self._own = {}

        def keep(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
            assert self._own is not None
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
                self._own[parameter] = None if parameter in self._own else gradient.detach().to("cpu", torch.float32, copy=True)
            return hook(state, bucket)

        return keep

    def _stop(self) -> None:
        if self._unhook is not None:
            self._unhook()
        self._unhook = None
        if self._part in self._part_hooks:
            self._part_hooks.remove(self._part)

    def _part(self, taken: bool) -> None:
        """Of scape.torch.Scape.accumulate: section 20's sum, in the order of the parts."""
        part = _flat([p.grad for p in self._parameters], self._parameters) if taken else None
        self._parts = part if part is None or self._parts is None else self._parts + part

    def _before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if any(argument is not None for argument in (*arguments[1:], *options.values())):
            raise Error("Recorder: step(closure) makes the gradients inside, where nobody sees them; call backward() before step()")
        if self._own is None:
            last = _flat([p.grad for p in self._parameters], self._parameters)
            parts, self._parts = self._parts, None
            self._gradient = last if parts is None else parts + last
            return
        own, self._own = self._own, {}
        if any(p not in own for p in self._parameters) or any(gradient is None for gradient in own.values()):
            raise Error("Recorder: the comm hook has not seen every gradient once since the last step; let ddp reduce once a step "
                        "(micro-batches under ddp.no_sync()), of all parameters that the optimizer has")
        self._gradient = _flat([own[p] for p in self._parameters], self._parameters)

    def _after(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        assert self._gradient is not None
        self._to.step(float(self._optimizer.param_groups[0]["lr"]), {"gradient": self._gradient} | self._results())

    def _results(self) -> dict[str, Any]:
        if self._native is not None:
            return {name: getattr(self._native, name).copy() for name in _NATIVE}
        results = {"parameters": _flat(self._parameters, self._parameters)}
        for key, name in self._state.items():
            held = [self._optimizer.state[p].get(key) for p in self._parameters]
            flat = _flat(held, self._parameters)
            results[name] = flat != 0 if "mask" in name else flat
        return results
