"""Every collective that PyTorch issues in this process, seen before it begins, when its work is done, and when somebody has waited for it."""

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ._errors import Error

Operand = tuple[torch.Tensor, int, int]  # a tensor, and which of its values: first, and how many, -1 all

_OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
# The methods of a ProcessGroup, what PyTorch's hooks call them, and where their outputs and inputs stand among the arguments; "both": one list
# that is given and written.
_METHODS: dict[str, tuple[str, str, str]] = {
    "allreduce": ("ALLREDUCE", "both", ""), "allreduce_coalesced": ("ALLREDUCE_COALESCED", "both", ""), "reduce": ("REDUCE", "both", ""),
    "broadcast": ("BROADCAST", "both", ""), "allgather": ("ALLGATHER", "out", "in"), "_allgather_base": ("ALLGATHER_BASE", "out", "in"),
    "allgather_coalesced": ("ALLGATHER_COALESCED", "out", "in"),
    "allgather_into_tensor_coalesced": ("ALLGATHER_INTO_TENSOR_COALESCED", "out", "in"),
    "reduce_scatter": ("REDUCE_SCATTER", "out", "in"), "_reduce_scatter_base": ("REDUCE_SCATTER_BASE", "out", "in"),
    "reduce_scatter_tensor_coalesced": ("REDUCE_SCATTER_TENSOR_COALESCED", "out", "in"), "gather": ("GATHER", "out", "in"),
    "scatter": ("SCATTER", "out", "in"), "alltoall": ("ALLTOALL", "out", "in"), "alltoall_base": ("ALLTOALL_BASE", "out", "in"),
    "all_gather_single": ("ALLGATHER_BASE", "out", "in"), "all_gather_single_coalesced": ("ALLGATHER_INTO_TENSOR_COALESCED", "out", "in"),
    "reduce_scatter_single": ("REDUCE_SCATTER_BASE", "out", "in"),
    "reduce_scatter_single_coalesced": ("REDUCE_SCATTER_TENSOR_COALESCED", "out", "in"), "gather_single": ("GATHER", "out", "in"),
    "all_to_all_single": ("ALLTOALL_BASE", "out", "in"),
    "send": ("SEND", "in", ""), "recv": ("RECV", "out", ""), "recv_anysource": ("RECV", "out", ""), "barrier": ("BARRIER", "", ""),
}
_IN_PLACE = ("ALLREDUCE", "ALLREDUCE_COALESCED", "REDUCE", "BROADCAST", "RECV")
_HOOK = 0x7472_7565  # our number among a group's hooks


class Call:
    """One collective on this rank."""

    def __init__(self, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor], root: int, asynchronous: bool, declared: "_Declared | None") -> None:
        self.name, self.inputs, self.outputs, self.asynchronous = name, inputs, outputs, asynchronous
        self.root = root
        self.op = declared.op if declared else None
        self.tag = declared.tag if declared else None
        self.splits = declared.splits if declared else None
        self.number = self.place = self.size = self.me = 0
        self.looks = False
        self.prints: list[int] = []
        self.given: list[Operand] = []
        self.versions: list[int] = []
        self.online: Any = None

    @property
    def is_message(self) -> bool:
        return self.name in ("SEND", "RECV")

    @property
    def separate(self) -> bool:
        """What was given is not what is written."""
        return self.name not in _IN_PLACE and not _overlap(self.inputs, self.outputs)

    def operands_in(self, size: int, me: int) -> list[Operand]:
        """What this rank gives, in the parts that the definition speaks of."""
        if self.name == "BROADCAST" and me != self.root:
            return []
        if self.name in ("REDUCE_SCATTER_BASE", "REDUCE_SCATTER_TENSOR_COALESCED"):
            return [part for tensor in self.inputs for part in _equal(tensor, size)]
        if self.name == "ALLTOALL_BASE":
            return [] if self.splits is None else _cut(self.inputs[0], self.splits[1], size)
        return [(tensor, 0, -1) for tensor in self.inputs]

    def operands_out(self, size: int, me: int) -> list[Operand]:
        if self.name in ("REDUCE", "GATHER") and me != self.root:
            return []
        if self.name == "GATHER" and len(self.outputs) == 1:
            return _equal(self.outputs[0], size)
        if self.name in ("ALLREDUCE", "ALLREDUCE_COALESCED", "REDUCE", "BROADCAST"):
            return [(tensor, 0, -1) for tensor in self.inputs]
        if self.name in ("ALLGATHER_BASE", "ALLGATHER_INTO_TENSOR_COALESCED"):
            return [part for tensor in self.outputs for part in _equal(tensor, size)]
        if self.name == "ALLTOALL_BASE":
            return [] if self.splits is None else _cut(self.outputs[0], self.splits[0], size)
        return [(tensor, 0, -1) for tensor in self.outputs]


def versions(call: Call) -> list[int]:
    """PyTorch counts what writes to a tensor, or to another view of its memory."""
    return [0 if tensor.is_inference() else tensor._version for tensor in (*call.inputs, *call.outputs)] if call.looks else []


def _overlap(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    held = {tensor.untyped_storage().data_ptr() for tensor in a if tensor.numel()}
    return any(tensor.untyped_storage().data_ptr() in held for tensor in b if tensor.numel())


def _equal(tensor: torch.Tensor, size: int) -> list[Operand]:
    count = tensor.numel() // size
    return [(tensor, part * count, count) for part in range(size)]


def _cut(tensor: torch.Tensor, splits: list[int], size: int) -> list[Operand]:
    if not splits:
        return _equal(tensor, size)
    row = tensor[0].numel() if tensor.dim() and tensor.shape[0] else 0
    ends = [sum(splits[:i]) * row for i in range(size + 1)]
    return [(tensor, begin, end - begin) for begin, end in zip(ends, ends[1:])]


class _Declared:
    """What only the method of the group is told, and no hook."""

    def __init__(self, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.op = next((op for value in (*arguments, *options.values()) if (op := _op(value))), None)
        self.tag = int(arguments[-1]) if method in ("send", "recv", "recv_anysource") and isinstance(arguments[-1], int) else None
        self.call: Call | None = None
        self.splits = None
        if method in ("alltoall_base", "all_to_all_single") and len(arguments) >= 4:
            self.splits = (list(arguments[2]), list(arguments[3]))


def _op(value: Any) -> str | None:
    op = getattr(value, "reduceOp", value)
    if not isinstance(op, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
        return None
    return next((name for name in _OPS if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name)), "other")


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for entry in value for tensor in _flat(entry)] if isinstance(value, (list, tuple)) else []


class Interception:
    """Puts itself into the process: hooks on every group where PyTorch has them, the methods of groups, and waiting."""

    _running: "Interception | None" = None

    def __init__(self, watcher: Any, hooks: bool | None) -> None:
        if Interception._running is not None:
            raise Error("watch: this process is being watched already; stop() the other one first")
        of = dist.distributed_c10d
        if not hasattr(of, "_register_process_group"):
            raise Error(f"watch: PyTorch {torch.__version__} does not say which process groups it makes; take PyTorch 2.1 or newer")
        there = hasattr(dist.ProcessGroup, "register_pre_hook")
        if hooks and not there:
            raise Error(f"watch: PyTorch {torch.__version__} has no hooks of process groups; leave hooks out, and the calls from Python are watched")
        self.hooks = there if hooks is None else hooks
        self._watcher, self._local = watcher, threading.local()
        self._works: dict[int, Call] = {}  # those that Python has in its hands
        self._calls: dict[tuple[int, int], Call] = {}
        self._groups: list[Any] = []
        self._restore: list[Callable[[], None]] = []
        Interception._running = self
        self._wrap(dist.ProcessGroup, self.hooks)
        self._plain_wait = dist.Work.wait
        self._replace(dist.Work, "wait", self._wait)
        self._replace(dist.Work, "get_future", self._future)
        self._wrapped: set[type] = {dist.ProcessGroup}
        self._replace(of, "_register_process_group", self._registering)
        for group in list(of._world.pg_map):
            self._attach(group)

    def remove(self) -> None:
        """Everything is as it was."""
        for restore in reversed(self._restore):
            restore()
        self._restore.clear()
        for reference in self._groups:
            group = reference()
            if group is not None:
                group.unregister_pre_hook(_HOOK)
                group.unregister_post_hook(_HOOK)
        self._groups.clear()
        self._works.clear()
        Interception._running = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What is called inside is not watched, nor are the groups that are made there."""
        self._local.paused = True
        try:
            yield
        finally:
            self._local.paused = False

    def _is_paused(self) -> bool:
        return bool(getattr(self._local, "paused", False))

    def _wrap(self, owner: Any, hooks: bool) -> None:
        for method in _METHODS:
            if method in vars(owner):
                self._replace(owner, method, functools.partial(self._method, method, hooks))

    def _replace(self, owner: Any, name: str, made: Callable[[Any], Any]) -> None:
        kept = vars(owner)[name]  # getattr would unwrap what binds a method of C++ to its object
        setattr(owner, name, made(getattr(owner, name)))
        self._restore.append(lambda: setattr(owner, name, kept))

    def _registering(self, inside: Any) -> Any:
        def register(name: Any, group: Any) -> Any:
            result = inside(name, group)
            if not self._is_paused():
                self._attach(group)
            return result
        return register

    def _attach(self, group: Any) -> None:
        for kind in type(group).__mro__[:-1]:  # groups that are written in Python, such as torchft's, call no hooks
            if issubclass(kind, dist.ProcessGroup) and kind not in self._wrapped:
                self._wrapped.add(kind)
                self._wrap(kind, False)
        if not self.hooks:
            return
        reference = weakref.ref(group)

        def before(told: Any) -> None:
            owner = reference()
            if owner is not None and not self._is_paused() and not getattr(self._local, "watched", False):
                call = Call(told.name.name, list(told.input_tensors), list(told.output_tensors), told.root, told.async_op,
                            getattr(self._local, "declared", None))
                self._watcher.launched(call, owner)
                self._calls[id(owner), told.op_id] = call

        def after(told: Any) -> None:
            call = self._calls.pop((id(reference()), told.op_id), None)
            if call is not None:
                self._issued(call, told.work, getattr(self._local, "declared", None))
        group.register_pre_hook(_HOOK, before)
        group.register_post_hook(_HOOK, after)
        self._groups.append(reference)

    def _method(self, method: str, hooks: bool, inside: Any) -> Any:
        name, first, second = _METHODS[method]

        def called(group: Any, *arguments: Any, **options: Any) -> Any:
            if self._is_paused() or getattr(self._local, "declared", None) is not None:  # one method of PyTorch's calls another
                return inside(group, *arguments, **options)
            declared = _Declared(method, arguments, options)
            self._local.declared = declared
            try:
                if hooks:
                    work = inside(group, *arguments, **options)
                    if declared.call is not None:
                        self._hold(work, declared.call)
                    return work
                tensors = {first: _flat(arguments[0]) if first and arguments else [], second: _flat(arguments[1]) if second else []}
                root = next((int(value.rootRank) for value in arguments if hasattr(value, "rootRank")), -1)
                if method in ("send", "recv"):
                    root = int(arguments[1])
                asynchronous = any(getattr(value, "asyncOp", True) for value in arguments[-1:])
                call = Call(name, tensors.get("both", tensors.get("in", [])), tensors.get("out", []), root, asynchronous, declared)
                self._watcher.launched(call, group)
                self._local.watched = True
                work = inside(group, *arguments, **options)
                self._issued(call, work, declared)
                self._hold(work, call)
                return work
            finally:
                self._local.declared, self._local.watched = None, False
        return functools.wraps(inside)(called)

    def _issued(self, call: Call, work: Any, declared: _Declared | None) -> None:
        call.versions = versions(call)
        if declared is not None:
            declared.call = call
        elif work is not None and call.looks and not call.is_message:
            # C++ waits for it where nobody sees it, and may write to the memory right after. A future's callbacks come after its waiters.
            self._plain_wait(work)
            self._watcher.completed(call)
        else:
            self._watcher.let_go(call)

    def _hold(self, work: Any, call: Call) -> None:
        """Until it is waited for, or Python lets go of it."""
        if work is None:
            self._watcher.let_go(call)
        else:
            key = id(work)
            self._works[key] = call
            weakref.finalize(work, self._forget, key).atexit = False

    def _forget(self, key: int) -> None:
        call = self._works.pop(key, None)
        if call is not None:
            self._watcher.let_go(call)

    def _wait(self, inside: Any) -> Any:
        def wait(work: Any, *arguments: Any, **options: Any) -> Any:
            known = self._works.pop(id(work), None)
            try:
                result = inside(work, *arguments, **options)
            except BaseException as error:
                if known is not None:
                    self._watcher.failed(known, str(error).splitlines()[0][:200])
                raise
            if known is not None:
                if known.name == "RECV" and known.root < 0:
                    known.root = work._source_rank()
                self._watcher.completed(known)
            return result
        return wait

    def _future(self, inside: Any) -> Any:
        def get_future(work: Any) -> Any:
            known = self._works.get(id(work))
            if known is not None and known.looks and not known.is_message:
                work.wait()  # whoever waits for the future is not seen
            return inside(work)
        return get_future
