"""A recorder of traces, for any optimizer of a problem."""

import os
from collections.abc import Sequence
from typing import Any

from . import _library, _values
from ._errors import Error
from ._problem import Problem


class Recorder:
    """Keeps steps in memory and writes them as a trace that `scape verify` takes: a few steps of a small model.

        recorder = scape.Recorder(problem, parameters, source="my optimizer")
        recorder.step(0.01, gradients, parameters=w, first_moment=m, residual=[e0, e1], mask=S, next_mask=S_next)
        recorder.write("run.safetensors")

    ``rank``: what this one rank has, alone; each rank writes its own file, run.rank0.safetensors and so on, which `scape verify` takes
    together. ``spool``: a file that the steps are kept in until they are written, in place of memory.
    """

    def __init__(self, problem: Problem, parameters: Any, source: str = "scape.Recorder", *, rank: int | None = None,
                 spool: str | os.PathLike[str] | None = None) -> None:
        if not isinstance(problem, Problem):
            raise Error(f"Recorder: it was given {type(problem).__name__}, and takes a scape.Problem; of GASLoC there is "
                        "scape.gasloc.Recorder")
        self.problem = problem
        given, count = _values.pieces(parameters, "parameters")
        self._handle = _library.Handle("recorder", problem._handle.pointer, _library.text(source, "source"), given, count)
        if rank is not None:
            _library.call("recorder_of_rank", self._handle.pointer, _library.whole(rank, "rank"))
        if spool is not None:
            _library.call("recorder_keep_in", self._handle.pointer, _library.text(spool, "spool"))
        self._first = 0 if rank is None else rank

    def step(self, learning_rate: float, gradients: Sequence[Any], **results: Any) -> None:
        """One gradient a rank, as it entered the step, and what the step left: any of parameters, first_moment, residual, mask,
        next_mask, local, exchanged, reconstructed. A list holds each rank's own (of one rank's recorder: one); an array is the same on
        all. Masks are bool.
        """
        self.begin(learning_rate)
        for name, values in ({"gradient": list(gradients)} | results).items():
            for rank, array in enumerate(values if isinstance(values, (list, tuple)) else [values], self._first):
                self.add(name, rank, array)

    def begin(self, learning_rate: float) -> None:
        """A step begins; add() gives what is in it."""
        _library.call("recorder_begin_step", self._handle.pointer, learning_rate)

    def add(self, name: str, rank: int, array: Any) -> None:
        """One rank's vector of this step, in one array or in pieces."""
        if "mask" in name:
            entry, kept = _values.bits(array, f"{name} of rank {rank}")
            given, count = _values.pieces([entry], name)
        else:
            given, count = _values.pieces(array, f"{name} of rank {rank}")
        _library.call("recorder_add", self._handle.pointer, _library.text(name, "name"), _library.whole(rank, "rank"), given, count)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace. Raises Error that names what is missing."""
        _library.call("recorder_write", self._handle.pointer, _library.text(path, "path"))
