"""A recorder of traces of dense training: SGD, Adam, AdamW and Muon (docs/specification/dense.md, section 42)."""

import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _safetensors
from ._errors import Error


class Recorder:
    """Takes what truestep.Recorder takes, of a problem with `config`. Vectors wait in memory or, with ``spool``, in a nameless file of its folder."""

    def __init__(self, problem: Any, parameters: Any, source: str = "truestep.Recorder", *, rank: int | None = None, spool: str | None = None,
                 sample: Any = None, begin: int = 0, state: Mapping[str, Any] | None = None) -> None:
        if sample is not None:
            raise Error("Recorder: sample is given, and a run of dense training is recorded whole; leave it out")
        self._problem, self._source, self._rank, self._begin = problem, source, rank, begin
        self.held = [(0, problem.size)]
        self._rates: list[float] = []
        self._steps = 0
        self._places: dict[str, tuple[int, int]] = {}
        self._parts: dict[tuple[int, int], int] = {}  # micro-batches, by step and rank
        try:
            self._kept: Any = io.BytesIO() if spool is None else tempfile.TemporaryFile(dir=os.path.dirname(spool) or ".", buffering=0)
        except OSError as error:
            raise Error(f"{spool}: it cannot be made: {error.strerror}") from None
        for name, of_ranks in {"parameters": [parameters], **(state or {})}.items():
            if of_ranks[0] is not None:
                self._keep(f"initial/{name}", of_ranks[0])

    def begin(self, learning_rates: Sequence[float], norm: float | None = None, exponent: int | None = None) -> None:
        """Begins a step, with the rate of each group; add() gives its vectors."""
        self._rates += learning_rates
        self._steps += 1

    def add(self, name: str, rank: int, vector: Any) -> None:
        """Adds one rank's vector of this step: gradient.1, gradient.2 and so on, and results. The mean, before or after clipping, is one of
        all ranks."""
        if name.startswith("gradient."):
            self._parts[self._steps, rank] = self._parts.get((self._steps, rank), 0) + 1
        self._keep(f"step/{self._steps:04}/{name}" + ("" if name in ("mean", "clipped") else f"/rank{rank}"), vector)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace."""
        if not self._steps:
            raise Error("Recorder: no step has been recorded; a trace has at least one")
        most = [max((parts for (_, rank), parts in self._parts.items() if rank == one), default=None) for one in range(self._problem.workers)]
        self._keep("zeros", np.zeros(self._problem.size))
        nothing = self._places.pop("zeros")  # of a step with fewer micro-batches than another
        padding = {f"step/{step:04}/gradient.{part}/rank{rank}": nothing for (step, rank), parts in self._parts.items()
                   for part in range(parts + 1, (most[rank] or 0) + 1)}
        config = self._problem.config | {"micro_batches": most} | {"steps": self._steps} | ({"begin": self._begin} if self._begin else {}) | (
            {} if self._rank is None else {"rank": self._rank})
        whole = np.frombuffer(self._kept.getbuffer(), np.float32) if isinstance(self._kept, io.BytesIO) else np.memmap(self._kept, np.float32, "r")
        _safetensors.write(path, {"format": "scape-trace", "version": "1", "source": self._source, "config": json.dumps(config)},
                           {"learning_rate": np.array(self._rates)} | {name: whole[begin:end] for name, (begin, end) in (self._places | padding).items()})

    def _keep(self, name: str, vector: Any) -> None:
        values = np.ascontiguousarray(vector, np.float32).reshape(-1)
        begin = self._kept.tell() // 4
        left = values.data.cast("B")
        try:
            while left:  # the system takes at most 2 GiB at a time
                left = left[self._kept.write(left):]
        except OSError as error:
            raise Error(f"Recorder: {name} cannot be kept: {error.strerror}") from None
        self._places[name] = (begin, begin + values.size)
