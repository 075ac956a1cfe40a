"""One rank of the sharded optimizer."""

import atexit
import ctypes
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from . import _library, _values
from ._communicator import Communicator, ThreadCommunicator, native_of
from ._errors import Error
from ._problem import Problem
from ._values import Floats, Mask

TRAFFIC = ("agreement", "payload", "moment", "mask", "gradient", "parameters")


@dataclass(frozen=True)
class Statistics:
    """What the last step did on this rank."""

    step: int
    selected: int  # coordinates of its mask
    kept: int  # of those, how many the mask before had too
    sent: dict[str, int]  # bytes to other ranks, by kind
    gradient_norm: float  # before clipping; 0 where clipping is off
    clip_factor: float
    exponent: int  # E of a payload of e5m2, which the step was scaled by (section 21); else 0


_open: "weakref.WeakSet[Stepper]" = weakref.WeakSet()
_S = TypeVar("_S", bound="Stepper")


def _leave_all() -> None:
    """Runs before the interpreter ends, and with it the transport of messages. A failure of one optimizer
    must not stop the others from leaving."""
    with ExitStack() as leaving:
        for stepper in list(_open):
            leaving.callback(stepper._leave)


atexit.register(_leave_all)


class Stepper:
    """An object that steps on this rank through a handle of libtruestep until it is closed; its place
    among ranks is None for a single rank."""

    _kind: str  # of the handle
    _called: str  # in messages

    def __init__(self, problem: Any, parameters: Any, place: Any, place_kind: str) -> None:
        self.problem = problem
        self.on_restored: Callable[[], None] = lambda: None  # another state is here, of restore() or load()
        self._handle: _library.Handle | None = None
        self._native = native_of(place, place_kind)
        given, count = _values.pieces(parameters, "parameters")
        pointer = None if self._native is None else self._native.handle.pointer
        with cause_of(self._native):
            handle = _library.Handle(self._kind, problem._handle.pointer, pointer, given, count)
        handle.calls = self._native  # callbacks live as long as what calls them
        self._handle = handle
        _open.add(self)

    def _leave(self) -> None:
        """Leaves when the process ends, so that no other rank waits for it. (Threads end together.)"""

    def close(self) -> None:
        """Takes no further part. A ThreadGroup's rank closes in its own thread."""
        _open.discard(self)
        self._handle = None

    def __enter__(self: _S) -> _S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _open_handle(self) -> _library.Handle:
        if self._handle is None:
            raise Error(f"this {self._called} has been closed; make a new one")
        return self._handle

    def _restore(self, state: Any) -> None:
        self._call("restore", ctypes.byref(state))
        self.on_restored()

    def load(self, checkpoint: str | os.PathLike[str]) -> None:
        """Restores a checkpoint, of any number of workers. On all ranks."""
        self._call("load", _library.text(checkpoint, "checkpoint"))
        self.on_restored()

    def _call(self, name: str, *arguments: object) -> None:
        with cause_of(self._native):
            _library.call(f"{self._kind}_{name}", self._open_handle.pointer, *arguments)


class Optimizer(Stepper):
    """SCAPE on this rank, over a communicator (None: one rank alone). All ranks call the same functions in the same order.

        with truestep.Optimizer(problem, parameters) as optimizer:
            optimizer.step(gradient, 0.01)
            optimizer.parameters
    """

    _kind = _called = "optimizer"

    def __init__(self, problem: Problem, parameters: Any, communicator: Communicator | ThreadCommunicator | None = None) -> None:
        super().__init__(problem, parameters, communicator, "communicator")
        self.on_refusal: Callable[[], None] = lambda: None  # of a step that could not be made ready here, whose parts are forgotten

    def step(self, gradient: Any, learning_rate: float) -> None:
        """This rank's gradient, in one array or in pieces (fp32 or bf16), which are read where they stand. Raises RefusedStep on all
        ranks with nothing changed, Halted or Aborted. What is wrong on one rank alone raises Error on all, with nothing changed."""
        with self.or_refuse():
            given, count = _values.pieces(gradient, "gradient")
            rate = _values.rate(learning_rate)
        self._call("step", given, count, rate)

    @contextmanager
    def or_refuse(self, bucket: bool = False) -> Iterator[None]:
        """Wraps the preparation of a step, or a bucket of it: if that fails here, the step ends on all
        ranks, which would otherwise wait for this one."""
        try:
            yield
        except Exception:
            try:
                if bucket:
                    self._call("bucket", None, 0, None, 0)  # a bucket without tensors, which libtruestep refuses on all ranks
                else:
                    self._call("step", None, 0, 0.0)  # and a step without a gradient
            except Error:
                pass  # what has failed here is the error to report
            self.on_refusal()
            raise

    @property
    def gradient(self) -> Floats:
        """Memory of the optimizer for a gradient that step_using_up() may write into, initially zeros.
        Write to it only until that step; then get it again, since it may have moved, and write all of it."""
        room = _library.Values()
        self._call("gradient", ctypes.byref(room))
        return _values.look(self._open_handle, room)

    def step_using_up(self, gradient: Any, learning_rate: float) -> None:
        """step() with a gradient that it may write into, and therefore need not read twice (section 20):
        the same bits. Values that are in place in the property `gradient` are not copied; other pieces
        are. All ranks step this way, or none."""
        with self.or_refuse():
            given, count = _values.pieces(gradient, "gradient")
            rate = _values.rate(learning_rate)
        self._call("step_using_up", given, count, rate)

    def accumulate(self, gradient: Any) -> None:
        """Adds a micro-batch (section 20): all accumulated gradients, in this order, and that of step()
        are added, in fp32. It does not talk to other ranks."""
        given, count = _values.pieces(gradient, "gradient")
        self._call("accumulate", given, count)

    def bucket(self, tensors: Sequence[int], values: Any) -> None:
        """Exchanges buckets of the last part: the values of these tensors of the problem, counted from 0,
        one after the other in this order. They are copied, and their exchange runs while the next
        gradients are made. All ranks give the same buckets in the same order, every tensor once, and then
        call step_of_parts()."""
        with self.or_refuse(bucket=True):
            numbers = [_library.whole(tensor, "tensor", 64) for tensor in tensors]
            if any(number < 0 for number in numbers):
                raise Error(f"bucket: its tensors are {numbers}; they are counted from 0")
            given, count = _values.pieces(values, "bucket")
        self._call("bucket", (ctypes.c_size_t * len(numbers))(*numbers), len(numbers), given, count)

    def step_of_parts(self, learning_rate: float) -> None:
        """A step with the accumulated gradient, and the buckets if there are any; otherwise like step(). A
        step that raises has forgotten its parts."""
        with self.or_refuse():
            rate = _values.rate(learning_rate)
        self._call("step_of_parts", rate)

    def forget_parts(self) -> None:
        """Drops the parts that were given since the last step. With buckets, on all ranks."""
        self._call("forget_parts")

    def progress(self) -> None:
        """Advances the exchange of the coming mask; call it during long computations between two steps."""
        self._call("progress")

    @property
    def steps(self) -> int:
        return _library.ask("optimizer_steps", self._open_handle.pointer)

    @property
    def parameters(self) -> Floats:
        """The parameters themselves, not a copy. A program that writes to them must do the same on all
        ranks, between two steps."""
        return _values.look(self._open_handle, self._view(_library.PARAMETERS))

    @property
    def first_moment(self) -> Floats:
        return _values.look(self._open_handle, self._view(_library.FIRST_MOMENT)).copy()

    @property
    def residual(self) -> Floats:
        """This rank's own residual."""
        return _values.look(self._open_handle, self._view(_library.RESIDUAL)).copy()

    @property
    def mask(self) -> Mask:
        """The mask of the last step, a bool a coordinate."""
        return _values.copy_mask(self._view(_library.MASK), self.problem.size)

    @property
    def next_mask(self) -> Mask:
        """The next mask; waits for it, so call it on all ranks."""
        return _values.copy_mask(self._view(_library.NEXT_MASK), self.problem.size)

    @property
    def statistics(self) -> Statistics:
        entry = _library.StatisticsEntry(struct_size=ctypes.sizeof(_library.StatisticsEntry))
        self._call("statistics", ctypes.byref(entry))
        return Statistics(entry.step, entry.selected, entry.kept, dict(zip(TRAFFIC, entry.sent)), entry.gradient_norm,
                          entry.clip_factor, entry.exponent)

    @property
    def exponent(self) -> int:
        """For a payload of e5m2 and restore(): the greatest exponent of what this rank sent in the last
        step, before it was rounded; if all of it was below 2^-126, the step's E less 256."""
        value = ctypes.c_int32()
        self._call("exponent", ctypes.byref(value))
        return value.value

    def restore(self, *, step: int, parameters: Any, first_moment: Any, residual: Any, mask: Any, next_mask: Any,
                exponent: int = -126) -> None:
        """Continues from a stored state. On all ranks, each with its own residual, and exponent if the
        payload is e5m2."""
        (mask_bits, kept), (next_bits, next_kept) = (
            _values.bits(values, name, self.problem.size) for name, values in (("mask", mask), ("next_mask", next_mask)))
        state = _library.State(ctypes.sizeof(_library.State), _library.whole(step, "step", 64), _values.one(parameters, "parameters"),
                               _values.one(first_moment, "first_moment"), _values.one(residual, "residual"), mask_bits, next_bits,
                               _library.whole(exponent, "exponent"))
        self._restore(state)
        del kept, next_kept

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves a checkpoint `folder`/step-..., which outlasts crashes, for any number of workers. On all
        ranks."""
        self._call("save", _library.text(folder, "folder"))

    def close(self) -> None:
        """Completes exchanges under way, and ends; arrays of `parameters` stay as they are. A
        ThreadGroup's rank closes in its own thread."""
        _open.discard(self)  # whatever follows, it takes part once
        if self._handle is not None:
            self._take_part()
        super().close()

    def _leave(self) -> None:
        """A process that ends takes its part in the last mask's exchange."""
        if self._native is not None and self._native.owner is not None:
            self._take_part()

    def _take_part(self) -> None:
        """Takes part in exchanges under way: buckets of an abandoned step, and the next mask."""
        try:
            self.forget_parts()
            self._view(_library.NEXT_MASK)
        except Error:
            pass  # it was told when the step failed

    def _view(self, what: int) -> _library.Values:
        view = _library.Values()
        self._call("view", what, ctypes.byref(view))
        return view


class cause_of:
    """Sets an exception of a Python communicator as the cause of the call's error; an interrupt stays an
    interrupt."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def __enter__(self) -> None:
        if self._native is not None:
            self._native.failure = None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        failure = None if self._native is None else self._native.failure
        if error is None or failure is None:
            return
        if not isinstance(failure, Exception):
            raise failure
        error.__cause__ = failure
