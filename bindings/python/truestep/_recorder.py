"""A recorder of traces, for any optimizer of a problem."""

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _library, _values
from ._errors import Error
from ._problem import Problem


Sample = float | str | Sequence[str]


def _sample_text(sample: Sample) -> str:
    return ",".join(sample) if isinstance(sample, Sequence) and not isinstance(sample, str) else str(sample)


class Recorder:
    """Keeps steps in memory and writes them as a trace that `truestep verify` takes: a few steps of a small model.

        recorder = truestep.Recorder(problem, parameters, source="my optimizer")
        recorder.step(0.01, gradients, parameters=w, first_moment=m, residual=[e0, e1], mask=S, next_mask=S_next)
        recorder.write("run.safetensors")

    ``rank``: what this one rank has, alone; each rank writes its own file, run.rank0.safetensors and so on, which `truestep verify` takes
    together. ``spool``: a file that the steps are kept in until they are written, in place of memory; its name is gone as soon as it is
    open, so that nothing is left of it.

    A part of a run: ``sample`` keeps some segments of the model in full, a share of the coordinates (0.001, or "0.001:7" drawn by another
    seed) or tensors (["wq", "norm"], or "wq@5000" for the segment of its index 5000); vectors are given whole, or what is ``held`` of them,
    and of a run that is clipped ``norm``, of one whose payload is e5m2 ``exponent``. ``begin``: so many steps had been taken, and ``state`` is what was there beside the parameters:
    {"first_moment": m, "residual": [e0, e1], "mask": S}, of AdamS the first moment alone.
    """

    def __init__(self, problem: Problem, parameters: Any, source: str = "truestep.Recorder", *, rank: int | None = None,
                 spool: str | os.PathLike[str] | None = None, sample: Sample | None = None, begin: int = 0,
                 state: Mapping[str, Any] | None = None) -> None:
        if not isinstance(problem, Problem):
            raise Error(f"Recorder: it was given {type(problem).__name__}, and takes a truestep.Problem; of GASLoC there is "
                        "truestep.gasloc.Recorder")
        self.problem = problem
        given, count = _values.pieces(parameters, "parameters")
        self._handle = _library.Handle("recorder", problem._handle.pointer, _library.text(source, "source"), given, count)
        if rank is not None:
            _library.call("recorder_of_rank", self._handle.pointer, _library.whole(rank, "rank"))
        if spool is not None:
            _library.call("recorder_keep_in", self._handle.pointer, _library.text(spool, "spool"))
        self._first, self._ranks = (0, problem.workers) if rank is None else (rank, 1)
        if sample is not None:
            _library.call("recorder_sample", self._handle.pointer, _library.text(_sample_text(sample), "sample"))
        if begin != 0:
            _library.call("recorder_begin_at", self._handle.pointer, _library.whole(begin, "begin", 64))
        if not isinstance(state or {}, Mapping):
            raise Error(f"Recorder: state is {state!r}; give {{'first_moment': m, ...}}, a result and its vector each")
        self._stretches = self.held
        self._add_all(state or {})

    @property
    def held(self) -> list[tuple[int, int]]:
        """The recorded stretches of the model's vectors, as begin and end."""
        count = ctypes.c_size_t()
        _library.call("recorder_held", self._handle.pointer, None, 0, ctypes.byref(count))
        ends = (ctypes.c_int64 * (2 * count.value))()
        _library.call("recorder_held", self._handle.pointer, ends, count.value, ctypes.byref(count))
        return list(zip(ends[::2], ends[1::2]))

    def step(self, learning_rate: float | Sequence[float], gradients: Sequence[Any], *, norm: float | None = None, exponent: int | None = None,
             **results: Any) -> None:
        """One gradient a rank, as it entered the step, and what the step left: any of parameters, first_moment, residual, mask,
        next_mask, local, exchanged, reconstructed. A list holds each rank's own (of one rank's recorder: one); an array is the same on
        all. Masks are bool. ``norm`` and ``exponent``: as begin() has them. ``learning_rate``: of a problem of several parameter groups a
        list, with one for each.
        """
        _values.check_given(gradients, self._ranks, "gradients")
        self.begin(learning_rate, norm, exponent)
        self._add_all({"gradient": list(gradients)} | results)

    def _add_all(self, vectors: Mapping[str, Any]) -> None:
        for name, values in vectors.items():
            for rank, array in enumerate(values if isinstance(values, (list, tuple)) else [values], self._first):
                self.add(name, rank, array)

    def begin(self, learning_rate: float | Sequence[float], norm: float | None = None, exponent: int | None = None) -> None:
        """Begins a step; add() gives its vectors. ``norm``: of the whole mean gradient before clipping,
        for a sample of a clipped run. ``exponent``: E of a payload of e5m2, the scale of the step (section
        21), for a part of a run; in a whole run it is verified, too."""
        several = isinstance(learning_rate, Sequence) and not isinstance(learning_rate, str)
        rates = [_values.rate(rate) for rate in (learning_rate if several else [learning_rate])]  # type: ignore[union-attr]
        groups = 1 + max(tensor.param_group for tensor in self.problem.tensors)
        if len(rates) != groups:
            raise Error(f"Recorder: {len(rates)} learning rates are given, and the problem has {groups} parameter groups; give one for each")
        _library.call("recorder_begin_step", self._handle.pointer, rates[0])
        for group, rate in enumerate(rates[1:], 1):
            _library.call("recorder_learning_rate", self._handle.pointer, group, rate)
        if norm is not None:
            _library.call("recorder_norm", self._handle.pointer, norm)
        if exponent is not None:
            _library.call("recorder_exponent", self._handle.pointer, _library.whole(exponent, "exponent"))

    def add(self, name: str, rank: int, array: Any) -> None:
        """Adds one rank's vector of this step, in one array or in pieces."""
        if "mask" in name:
            entry, kept = _values.bits(array, f"{name} of rank {rank}", self.problem.size, self._stretches)
            given, count = _values.pieces([entry], name)
        else:
            given, count = _values.pieces(array, f"{name} of rank {rank}")
        _library.call("recorder_add", self._handle.pointer, _library.text(name, "name"), _library.whole(rank, "rank"), given, count)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace. Raises Error that names what is missing."""
        _library.call("recorder_write", self._handle.pointer, _library.text(path, "path"))


def kind_of(problem: Any) -> Any:
    """The recorder of this kind of problem."""
    return getattr(problem, "recorder", Recorder)
