"""Fingerprints of a PyTorch optimizer's results, written while it trains."""

import contextlib
import ctypes
import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import torch
import torch.distributed as dist

from . import _library, _torch_sharded, _values
from ._errors import Error
from ._optimizer import Optimizer
from .gasloc import Worker
from ._torch_hooks import around_steps, checked_on_error, state_of, until_failure

_WORD = (1 << 64) - 1
_PIECE = 1 << 22  # values of a device's tensor at a time: the words of more would take eight times their memory
_NATIVE = ("parameters", "first_moment", "residual", "mask")


def _shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    """Shifts to the right and fills with zeros, since PyTorch's integers are signed."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix64(x: torch.Tensor) -> torch.Tensor:
    for by, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ _shifted(x, by)) * (factor - (1 << 64))
    return x ^ _shifted(x, 31)


def _on_its_device(values: torch.Tensor, begin: int, places: torch.Tensor | None = None) -> int:
    """H in PyTorch's own operations. Only eight bytes come back from a device; nothing else is copied. ``places``: the index of each value
    from ``begin`` on, where they do not follow one another."""
    total = 0
    for first in range(0, values.numel(), _PIECE):
        piece = values[first:first + _PIECE].to(torch.float32).view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        index = (torch.arange(first, first + piece.numel(), dtype=torch.int64, device=piece.device) if places is None
                 else places[first:first + _PIECE]) + begin
        total += int(_mix64(piece ^ _mix64(index)).sum())
    return total & _WORD


def _of_part(tensor: Any, begin: int) -> int:
    """What this rank's shard of a DTensor adds to the fingerprint of the whole."""
    part = _torch_sharded.part_of(tensor)
    if part is None:
        return fingerprint(_torch_sharded.whole(tensor, "fingerprint"), begin)
    local = tensor.to_local()
    _torch_sharded.check_exact(tensor, "fingerprint")
    if list(part[1][1:]) == list(tensor.shape[1:]):  # whole rows, one after the other
        return fingerprint(local, begin + (part[0][0] * math.prod(tensor.shape[1:]) if part[0] else 0)) if local.numel() else 0
    return _on_its_device(local.detach().reshape(-1), begin, _torch_sharded.indices(tensor.shape, part, local.device))


def fingerprint(tensor: torch.Tensor, begin: int = 0) -> int:
    """H of docs/specification/traces.md: 64 bits that every bit of every value, and its place, goes into.

    ``begin`` is the index of the first value in a vector of which this is a part: the parts' add up to its own, modulo 2^64.
    bf16 and fp16 count as the fp32 they stand for; the values of a mask as 0.0 and 1.0. What fp32 would round is refused.
    """
    _values.check_memory(tensor, "fingerprint")
    flat = tensor.detach().reshape(-1)
    if flat.dtype != torch.bfloat16:  # which both below take as it is
        flat = _values.as_fp32(flat, "fingerprint")
    if flat.device.type != "cpu":
        return _on_its_device(flat, begin)
    flat = flat.contiguous()  # held here: what _values gives is an address
    result = ctypes.c_uint64()
    _library.call("fingerprint", ctypes.byref(_values.one(flat, "fingerprint")), begin, ctypes.byref(result))
    return result.value


class Fingerprints:
    """Writes one number per step, result and tensor of an optimizer from here on, through its step hooks: a file a rank, a line a step.

        prints = truestep.torch.Fingerprints(optimizer, "run.rank{rank}.prints", state=["exp_avg"])

    ``truestep fingerprints run.rank*.prints`` then says whether the ranks are alike, and with ``--with other.rank*.prints`` how far two runs
    go together. Nothing is sent, and of a run that dies all steps but the last are there. Gradients are those that ``step`` begins with,
    parameters and ``state`` (names of each parameter's state) what it leaves; ``replicated`` names what has to be the same on all ranks,
    of a ``truestep.torch.Scape`` by default all that is, of a ``GASLoC`` nothing, of others the parameters. Shards of FSDP2's DTensors are added up over their ranks, 8 bytes a tensor. ``every``: records only every so many steps.

    An error, such as a full disk, is raised in ``step()``, which ends the training. With ``on_error="warn"`` it is one warning: training
    goes on, and the file ends with the last step that was written.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, path: str | os.PathLike[str], *, state: Iterable[str] = (),
                 replicated: Sequence[str] | None = None, every: int = 1, process_group: Any = None, on_error: str = "raise") -> None:
        warns = checked_on_error(on_error, "Fingerprints") == "warn"
        if every < 1:
            raise Error(f"Fingerprints: every is {every}; it must be at least 1")
        native = getattr(optimizer, "native", None)
        self._optimizer, self._native, self._every, self._steps = optimizer, native if isinstance(native, Optimizer) else None, every, 0
        if self._native is not None and state:
            raise Error("Fingerprints: state is given, and a truestep.torch.Scape shows all of its own; leave it out")
        self._state = list(state)
        self._entries = [(name, p) for group in optimizer.param_groups
                         for name, p in zip(group.get("param_names", [""] * len(group["params"])), group["params"])]
        begins = [0]
        for _, parameter in self._entries:
            begins.append(begins[-1] + parameter.numel())
        self._begins = begins[:-1]
        for i, (name, parameter) in enumerate(self._entries):
            _torch_sharded.check_exact(parameter, f"Fingerprints: {name or f'parameter {i}'}")
        if warns and (_torch_sharded.spreads_state(optimizer) or any(_torch_sharded.is_sharded(p) for _, p in self._entries)):
            raise Error("Fingerprints: on_error is 'warn', and ranks add up the fingerprints of shards, which one alone cannot leave; leave it out")
        self._results = ["gradient", *(_NATIVE if self._native is not None else ["parameters", *self._state])]
        if replicated is None:
            replicated = [name for name in self._results if name in ("parameters", "first_moment", "mask")] if self._native is not None \
                else [] if isinstance(native, Worker) else ["parameters"]  # ranks of a GASLoC differ by design
        for name in replicated:
            if name not in self._results:
                raise Error(f"Fingerprints: replicated names {name!r}; there are {', '.join(self._results)}")
        distributed = dist.is_available() and dist.is_initialized()
        rank, workers = (dist.get_rank(process_group), dist.get_world_size(process_group)) if distributed else (0, 1)
        name = os.fspath(path)
        if workers > 1 and "{rank}" not in name:
            raise Error(f"Fingerprints: every rank would write {name}; put {{rank}} into the name")
        self._path = name.replace("{rank}", str(rank))
        try:
            self._file: TextIO | None = open(self._path, "w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise Error(f"{self._path}: cannot be written: {error.strerror}; give a file in an existing folder") from None
        self._write({"format": "scape-fingerprints", "version": "1", "source": type(optimizer).__name__, "workers": workers, "rank": rank,
                     "tensors": [{"name": name or f"parameter {i}", "size": p.numel()} for i, (name, p) in enumerate(self._entries)],
                     "results": self._results, "replicated": list(replicated)})
        self._gradient = ""
        hooks = until_failure(self._fail, self._before, self._after) if warns else [self._before, self._after]
        self._unhook = around_steps(optimizer, *hooks)

    def close(self) -> None:
        """Stops writing."""
        self._unhook()
        if self._file is not None:
            self._file.close()
        self._file = None

    def _fail(self, error: Exception) -> None:
        """Ends the recording with a warning (on_error="warn")."""
        if self._file is not None:
            self._file.close()
        self._file = None
        warnings.warn(f"Fingerprints: {self._path} ends before step {self._steps}, and nothing more is written to it: {error}", RuntimeWarning,
                      stacklevel=2)

    def __enter__(self) -> "Fingerprints":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: dict[str, Any]) -> None:
        """Writes a line at once, so that the file is complete except for the last."""
        file = self._file
        if file is None:
            return
        try:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
            file.flush()
        except OSError as error:
            self._file = None
            with contextlib.suppress(OSError):  # it tries once more to write what is left
                file.close()
            raise Error(f"{self._path}: cannot be written: {error.strerror}; what was written before is there, make room for the rest") from None

    def _before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if any(argument is not None for argument in (*arguments[1:], *options.values())):
            raise Error("Fingerprints: step(closure) makes the gradients inside, where the recorder cannot see them; call backward() before step()")
        for settings in optimizer.param_groups:
            _values.rate(settings["lr"])
        self._steps += 1
        if self._steps % self._every == 0:
            self._gradient = self._digits([p.grad for _, p in self._entries])

    def _after(self, _optimizer: Any, _arguments: tuple[Any, ...], _options: dict[str, Any]) -> None:
        if self._steps % self._every != 0:
            return
        line: dict[str, Any] = {"step": self._steps, "learning_rate": float(self._optimizer.param_groups[0]["lr"]),
                                "gradient": self._gradient}
        if self._native is not None:
            for name in _NATIVE:
                whole = torch.from_numpy(getattr(self._native, name))
                line[name] = self._digits([whole[begin:begin + p.numel()] for begin, (_, p) in zip(self._begins, self._entries)])
        else:
            line["parameters"] = self._digits([p for _, p in self._entries])
            for name in self._state:
                line[name] = self._digits(state_of(self._optimizer, [p for _, p in self._entries], name, "Fingerprints"))
        self._write(line)

    def _digits(self, tensors: Iterable[torch.Tensor | None]) -> str:
        """Digits of a fingerprint. None means zeros, whose fingerprint is not that of an empty vector. Of a DTensor the parts are added up
        over the ranks that have them, so all ranks have the fingerprint of the whole; copies are not compared here."""
        sums, sharded = [], []
        for tensor, begin, (_, p) in zip(tensors, self._begins, self._entries):
            values = (torch.zeros_like(p) if _torch_sharded.is_sharded(p) else torch.zeros(p.numel())) if tensor is None else tensor
            sums.append(_of_part(values, begin) if _torch_sharded.is_sharded(values) else fingerprint(values, begin))
            sharded.append(values if _torch_sharded.is_sharded(values) else None)
        return "".join(f"{number:016x}" for number in _torch_sharded.add_over_shards(sums, sharded))
