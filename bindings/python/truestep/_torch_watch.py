"""Writes down what the collectives of a run of PyTorch were given and gave, on each rank by itself, for ``truestep collectives``."""

import atexit
import ctypes
import functools
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from . import _library, _values
from ._errors import Error
from ._torch_calls import Call, Interception, Operand, versions
from ._torch_hang import Sentinel, caller, flight_recorder, last_of, main_thread
from ._torch_online import Online, packed

_FORMAT, _VERSION = "truestep-collectives", "1"
_LEAST = 64  # values of a tensor that a sample has, if it has as many
_U64 = np.uint64
_WORD = (1 << 64) - 1


def mix64(value: int) -> int:
    """SplitMix64's finalizer, as libtruestep's."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _WORD
    return value ^ (value >> 31)


@functools.lru_cache(16)
def sampled(count: int, block: int, number: int) -> Any:
    """The coordinates that a sample has of `count` values: of each `block` of them one, which the call's number draws, so that all ranks take
    the same. Of a small tensor at least some 64 are taken, or all."""
    block = max(1, min(block, count // _LEAST))
    blocks = np.arange((count + block - 1) // block, dtype=_U64)
    x = blocks ^ _U64(mix64(number + 1))
    for by, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> _U64(by))) * _U64(factor)
    x = x ^ (x >> _U64(31))
    index = blocks * _U64(block) + x % _U64(block)
    return index[index < count].astype(np.int64)


def _in_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The values where this process can read them: as they are, or a copy of a device's."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return (tensor if tensor.device.type == "cpu" else tensor.cpu()).contiguous()


def _print_of(address: int, size: int) -> int:
    """A fingerprint of bytes, as words of four, the last filled up with zeros."""
    if not size:
        return 0
    kept: Any = None
    if size % 4 or address % 4:
        kept = ctypes.create_string_buffer(ctypes.string_at(address, size), size + 4)
        address = ctypes.addressof(kept)
    result = ctypes.c_uint64()
    _library.call("fingerprint", ctypes.byref(_library.Values(address, (size + 3) // 4, _library.F32)), 0, ctypes.byref(result))
    return result.value


class _Group:
    """A process group as this rank knows it."""

    def __init__(self, group: Any) -> None:
        self.group, self.name, self.ranks, self.calls = weakref.ref(group), -1, list[int](), 0
        self.messages: dict[tuple[int, int, int | None], int] = {}
        self.online: Online | None = None


class watch:
    """Looks at every collective of this process and writes what it was given and gave to a file a rank, until ``stop()``.

        with truestep.torch.watch("run.rank{rank}.collectives"):
            train()

    ``truestep collectives run.rank*.collectives`` then holds each of them to its definition. Nothing is sent and nothing is changed. ``every=10``
    takes the values of one call in ten, the same on all ranks; order, shapes and callers are those of all. ``sample=0.001`` keeps one value of
    a thousand beside the fingerprint of all; 1 keeps all. ``model=`` (or parameters, or (name, parameter) pairs): what has to be reduced
    before an optimizer steps. Of tensors on a device a copy is taken to the host.

    ``online=100`` also checks in the run itself: before each hundredth collective of a group its ranks send what they wrote since to the first
    of them, over a second group, and what does not hold is raised on all. What that costs is printed at the end.

    Once ``hang=`` seconds pass in which no collective of this rank begins or ends, the file and standard error get what this rank waits for and
    where it is, and PyTorch's flight recorder is dumped if it is on (``TORCH_FR_BUFFER_SIZE``); 0: never.

    A call that C++ makes, as DistributedDataParallel's reducer does, is waited for at once where its values are taken.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int = 1, sample: float = 0.001, model: Any = None, online: int = 0,
                 hooks: bool | None = None, hang: float = 300.0) -> None:
        if every < 1:
            raise Error(f"watch: every is {every}; it is 1 or more")
        if not 0 < sample <= 1:
            raise Error(f"watch: sample is {sample}; it is a share above 0, up to 1, which keeps all values")
        if online < 0:
            raise Error(f"watch: online is {online}; give how many collectives are between two checks, or 0 for none")
        if not hang >= 0:
            raise Error(f"watch: hang is {hang}; give the seconds after which a rank in a collective is reported, or 0 for never")
        if not dist.is_available():
            raise Error("watch: this PyTorch has no torch.distributed; there are no collectives to watch")
        self._path, self._every, self._block, self._online = os.fspath(path), every, max(1, round(1 / sample)), online
        self._lock, self._file, self._descriptor = threading.Lock(), "", -1
        self._calls, self._steps, self._stopped = 0, 0, False
        self._groups: dict[int, _Group] = {}
        self._ordinals: dict[tuple[int, ...], int] = {}
        self._named = 0
        self._under_way: dict[int, tuple[Call, float]] = {}  # calls whose end has not been seen, and since when
        self._sentinel = Sentinel(hang, self._report_hang)
        self._parameters, self._begun = _named(model), frozenset[str]()
        self._interception = Interception(self, hooks)
        if dist.is_initialized():
            self._open()
        self._unhook = self._around_steps() if self._parameters else None
        atexit.register(self.stop)

    @property
    def path(self) -> str:
        """The file of this rank, "" as long as there is no process group."""
        return self._file

    def stop(self) -> None:
        """Watches no more; the file is whole."""
        if self._stopped:
            return
        self._stopped = True
        atexit.unregister(self.stop)
        self._interception.remove()
        if self._unhook is not None:
            self._unhook()
        self._sentinel.stop()
        for known in self._groups.values():
            if known.online is not None:
                known.online.say_cost()
        if self._descriptor >= 0:
            self._write({"end": self._calls})
            with self._lock:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> "watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _open(self) -> None:
        rank, world = dist.get_rank(), dist.get_world_size()
        if world > 1 and "{rank}" not in self._path:
            self._interception.remove()
            raise Error(f"watch: every rank would write {self._path}; put {{rank}} into the name")
        self._file = self._path.replace("{rank}", str(rank))
        try:
            self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        except OSError as error:
            self._interception.remove()
            raise Error(f"{self._file}: cannot be written: {error.strerror}; give a file in a folder that there is") from None
        run = "/".join(os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"))
        self._head: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "run": run, "started": int(time.time()), "rank": rank, "world": world,
                      "torch": str(torch.__version__), "hooks": self._interception.hooks, "every": self._every, "block": self._block}
        self._write(self._head)
        self._sentinel.start()

    def _write(self, record: dict[str, Any], payload: bytes = b"") -> None:
        """One write a record, so that of a process that is killed all whole ones are there."""
        data = packed(record, payload)
        with self._lock:
            if self._descriptor < 0:
                return
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view):]
            except OSError as error:
                os.close(self._descriptor)
                self._descriptor = -1
                sys.stderr.write(f"truestep: {self._file} ends here and nothing more is watched: {error.strerror}; make room for it\n")

    def _group_of(self, group: Any) -> _Group:
        known = self._groups.get(id(group))
        if known is not None and known.group() is group:
            return known
        found = _Group(group)
        if self._descriptor < 0 and not self._file:
            self._open()
        ranks = dist.get_process_group_ranks(group)
        found.ranks, found.name = list(ranks), self._named
        self._named += 1
        ordinal = self._ordinals.get(tuple(ranks), 0)
        self._ordinals[tuple(ranks)] = ordinal + 1
        self._groups[id(group)] = found
        if self._online and len(ranks) > 1:
            found.online = Online(found.ranks, found.ranks.index(dist.get_rank()))
        self._write({"group": found.name, "ranks": found.ranks, "ordinal": ordinal})
        return found

    # What the interception calls, in the thread that makes the call.

    def launched(self, call: Call, group: Any) -> None:
        known = self._group_of(group)
        if known.online is not None and not call.is_message and known.calls > 0 and known.calls % self._online == 0:
            with self._interception.paused():
                known.online.exchange(self._head | {"started": 0})
        with self._lock:
            call.number = self._calls
            self._calls += 1
        me = known.ranks.index(dist.get_rank())
        message = call.is_message
        if message:
            pair = (me, call.root, call.tag) if call.name == "SEND" else (call.root, me, call.tag)
            place = known.messages.get(pair, 0)
            known.messages[pair] = place + 1
        else:
            place = known.calls
            known.calls += 1
        call.place = place
        call.looks = mix64(place) % self._every == 0 if not message or call.root >= 0 else self._every == 1
        record: dict[str, Any] = {"call": call.number, "group": known.name, "number": place, "name": call.name}
        for key, value in (("root", call.root), ("op", call.op), ("tag", call.tag)):
            if value is not None and value != -1:
                record[key] = value
        if call.asynchronous:
            record["async"] = True
        record["shapes"] = [_shape(tensor) for tensor in call.inputs], [_shape(tensor) for tensor in call.outputs]
        payload: list[bytes] = []
        record["stack"] = caller()
        try:
            for tensor in (*call.inputs, *call.outputs) if call.looks else ():
                _values.check_memory(tensor, call.name)
        except Error as error:
            call.looks, record["unseen"] = False, str(error)
        if call.looks:
            call.given = call.operands_in(len(known.ranks), me)
            call.prints, record["in"] = self._looked_at(call.given, call, payload)
            call.size, call.me = len(known.ranks), me
        self._write(record, b"".join(payload))
        self._under_way[call.number] = call, time.monotonic()
        self._sentinel.touch()
        if known.online is not None and not message:
            call.online = known.online
            known.online.window[call.number] = [(record, b"".join(payload))]

    def completed(self, call: Call) -> None:
        """The work is done, and nobody who waits for it has gone on."""
        self.let_go(call)
        if not call.looks or self._stopped:
            return
        record: dict[str, Any] = {"done": call.number}
        payload: list[bytes] = []
        if call.name == "RECV":
            record["from"] = call.root
        _, record["out"] = self._looked_at(call.operands_out(call.size, call.me), call, payload)
        if call.asynchronous:
            record["overwritten"] = call.separate and call.prints != [self._print(operand) for operand in call.given]
            record["written"] = versions(call) != call.versions
        self._write(record, b"".join(payload))
        if call.online is not None and call.number in call.online.window:
            call.online.window[call.number].append((record, b"".join(payload)))

    def failed(self, call: Call, why: str) -> None:
        self.let_go(call)
        self._write({"failed": call.number, "why": why})

    def let_go(self, call: Call) -> None:
        """It has ended, or nobody will see its end."""
        if self._under_way.pop(call.number, None) is not None:
            self._sentinel.touch()

    def _report_hang(self, silent: float) -> None:
        """What this rank waits for and where it is, after so many seconds without a collective that began or ended."""
        now = time.monotonic()
        under_way = sorted(list(self._under_way.items()), key=lambda entry: entry[0])  # other threads change it
        waits = [[number, round(now - since, 1)] for number, (_, since) in under_way]
        stack = main_thread()
        record: dict[str, Any] = {"hang": self._calls, "silent": round(silent, 1), "waits": waits, "stack": stack}
        flight = flight_recorder()
        if flight is not None:
            file = f"{self._path.replace('{rank}', '')}.flight{self._head['rank']}"
            try:
                with open(file, "wb") as out:
                    out.write(flight)
                record["flight"] = [os.path.basename(file), last_of(flight)]
            except OSError as error:
                sys.stderr.write(f"truestep: {file}: cannot be written: {error.strerror}; PyTorch's flight recorder is not kept\n")
        self._write(record)
        if self._head["world"] > 1:
            what = f"has waited in {under_way[0][1][0].name} (call {under_way[0][0]})" if under_way else "has begun no collective"
            sys.stderr.write(f"truestep: rank {self._head['rank']} {what} for {silent:.3g} s, at {stack[0] if stack else 'an unknown place'}; "
                             "truestep collectives with the files of all ranks shows which one is missing\n")

    def _print(self, operand: Operand) -> int:
        tensor, begin, count = operand
        tensor = _in_memory(tensor)
        size = tensor.element_size()
        if count < 0:
            return _print_of(tensor.data_ptr(), tensor.numel() * size)
        return _print_of(tensor.data_ptr() + begin * size, count * size)

    def _looked_at(self, operands: list[Operand], call: Call, payload: list[bytes]) -> tuple[list[int], list[list[Any]]]:
        """Of each part its fingerprint, and in the payload its sample."""
        prints: list[int] = []
        parts: list[list[Any]] = []
        held: tuple[Any, torch.Tensor] | None = None
        for tensor, begin, count in operands:
            if held is None or held[0] is not tensor:
                held = (tensor, _in_memory(tensor))
            here = held[1]
            size, count = here.element_size(), here.numel() if count < 0 else count
            address = here.data_ptr() + begin * size
            prints.append(_print_of(address, count * size))
            if count:
                memory = (ctypes.c_char * (count * size)).from_address(address)
                array = np.frombuffer(memoryview(memory), dtype=f"u{size}")
                payload.append(array.tobytes() if self._block == 1 else array[sampled(count, self._block, call.place)].tobytes())
            parts.append([count, f"{prints[-1]:016x}"])
        return prints, parts

    # Gradients that an optimizer steps with.

    def _around_steps(self) -> Any:
        from torch.optim.optimizer import register_optimizer_step_pre_hook
        return register_optimizer_step_pre_hook(self._stepping).remove

    @torch.no_grad()
    def _stepping(self, optimizer: Any, *_: Any) -> None:
        owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
        mine = [(name, p) for name, p in self._parameters if id(p) in owned]
        if self._stopped or not mine or not dist.is_initialized():
            return
        if self._descriptor < 0 and not self._file:
            self._open()
        step = self._steps
        self._steps += 1
        if mix64(step) % self._every != 0:
            return
        entries = []
        for name, parameter in mine:
            key, values, gradient = _replica(parameter)
            if values is not None:
                known, self._begun = name in self._begun, self._begun | {name}
                entries.append([name, list(values.shape), key, "" if known else f"{self._print((values, 0, -1)):016x}",
                                "" if gradient is None else f"{self._print((gradient, 0, -1)):016x}"])
        self._write({"step": step, "after": self._calls, "parameters": entries, "stack": caller()})


def _shape(tensor: torch.Tensor) -> list[Any]:
    return [str(tensor.dtype).removeprefix("torch."), *tensor.shape]


def _named(model: Any) -> list[tuple[str, torch.Tensor]]:
    if model is None:
        return []
    given: Iterable[Any] = model.named_parameters() if hasattr(model, "named_parameters") else model
    named = [entry if isinstance(entry, tuple) else (f"parameter {i}", entry) for i, entry in enumerate(given)]
    for name, parameter in named:
        if not isinstance(parameter, torch.Tensor):
            raise Error(f"watch: model has {name}, which is {type(parameter).__name__}; give a module, parameters, or (name, parameter) pairs")
    return [(name, parameter) for name, parameter in named if parameter.requires_grad]


def _replica(parameter: Any) -> tuple[str, torch.Tensor | None, torch.Tensor | None]:
    """Which copies have to be the same ("" all, else the place in the mesh's sharded dimensions), this one's values, and its gradient. Where
    a gradient is partial or sparse nothing is told."""
    gradient = parameter.grad
    if not hasattr(parameter, "to_local"):
        return ("", None, None) if gradient is not None and gradient.layout != torch.strided else ("", parameter, gradient)
    of_gradient = parameter.placements if gradient is None or not hasattr(gradient, "placements") else gradient.placements
    if any(place.is_partial() for place in (*parameter.placements, *of_gradient)):
        return "", None, None
    coordinate = parameter.device_mesh.get_coordinate() or []
    key = ",".join(str(at) for at, place in zip(coordinate, parameter.placements) if place.is_shard())
    local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
    return key, parameter.to_local(), local
