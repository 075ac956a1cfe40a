"""MAPL: a boundary between two stages of a pipeline. ``truestep.torch.mapl.Boundary`` is the module for PyTorch."""

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _library, _values
from ._errors import Error
from ._mapl_recorder import Recorder
from ._problem import settings_text
from ._values import Floats

__all__ = ["Boundary", "Recorder", "State"]

_SIDES = {"sender": 0, "receiver": 1}
_MATRICES = ("subspace", "moment", "sender_rows", "receiver_rows")
_BOOKS = ("codebooks", "learned")


@dataclass(frozen=True)
class State:
    """The state from which a boundary continues, between two steps. Empty parts of a given state are made:
    A and P from the seed, m as zeros."""

    steps: int = 0
    subspace: Floats = field(default_factory=_values.empty)  # A, D x r
    moment: Floats = field(default_factory=_values.empty)  # m, D x r; the sender's alone moves
    sender_rows: Floats = field(default_factory=_values.empty)  # P, r x D; empty without anchors
    receiver_rows: Floats = field(default_factory=_values.empty)
    # Of codewords; without them 0 and empty. What is not given is from the seed, what is learned as the codebooks.
    micro_batches: int = 0  # that have been encoded or decoded, over all steps
    codebooks: Floats = field(default_factory=_values.empty)  # C, groups * rounds x codewords x rank / groups
    learned: Floats = field(default_factory=_values.empty)  # L, the sender's alone


class Boundary:
    """One boundary; the caller carries its messages. One serves both sides if one process has both; else each side has its
    own, made alike. The other settings are truestep.h's: anchors, order, beta, direction_iterations, retraction_iterations, seed,
    payload ("fp32", or "bf16": z and dz are floats that bf16 holds), arithmetic ("optimized", or "reference").

        boundary = truestep.mapl.Boundary(1024, 64, vocabulary=50257, anchors="two")
        z, q = boundary.compress(x, ids, anchor)                        # the sender; z and ids travel
        xhat = boundary.decompress(z, ids, other_anchor)                # the receiver
        dz = boundary.decompress_backward(z, g, ids)                    # travels back
        dx = boundary.compress_backward(q, dz, ids)
        boundary.step(0.1 * learning_rate, receivers_part)              # the sender's; then the receiver's: boundary.follow(A)

    With codewords=K (and groups, rounds, subsets, decay) z travels as a message, each micro-batch in the order in which it was encoded:

        message, decoded = boundary.encode(z)                           # behind compress; decoded is what z will be there
        z = boundary.decode(message, tokens)                            # before decompress; decompress_backward takes this one, too

    Matrices are contiguous float32 in their shape, tokens by features; ids are whole numbers, one a token.
    """

    def __init__(self, width: int, rank: int, vocabulary: int = 1, *, state: State | None = None, **settings: object) -> None:
        self.settings = {"width": width, "rank": rank, "vocabulary": vocabulary} | settings
        entry = None if state is None else _entry_of(state)
        self._handle = _library.Handle("mapl_boundary", settings_text(self.settings), None if entry is None else ctypes.byref(entry))
        self.width, self.rank, self.vocabulary = int(width), int(rank), int(vocabulary)
        self.anchored = settings.get("anchors", "none") != "none"
        self.codewords, groups, rounds = (int(str(settings.get(name, usual))) for name, usual in (("codewords", 0), ("groups", 1), ("rounds", 1)))
        self._books = (groups * rounds, self.codewords, self.rank // groups)

    def compress(self, x: Any, ids: Any, anchor: Any = None) -> tuple[Floats, Any]:
        """Z, and Q, which the gradient needs again: without anchors it is x itself."""
        numbers = _ids_of(ids)
        q: Any = np.empty((numbers.size, self.width), np.float32) if self.anchored else x
        z = np.empty((numbers.size, self.rank), np.float32)
        self._call("compress", self._tokens(x, numbers, self.width, "x"), self._table(anchor), *_pointer(numbers),
                   q.ctypes.data if self.anchored else None, z.ctypes.data)
        return z, q

    def message_bytes(self, tokens: int) -> int:
        """The bytes of a message of so many tokens; 0 without codewords."""
        return _library.ask("mapl_boundary_message_bytes", self._handle.pointer, _library.whole(tokens, "tokens", 64))

    def encode(self, z: Any) -> tuple[NDArray[np.uint8], Floats]:
        """For the sender: the message that travels instead of z, indices of codewords and some codewords;
        and what z will be decoded to. The sender learns from it."""
        tokens = _rows_of(z, "z")
        message, decoded = np.empty(self.message_bytes(tokens), np.uint8), np.empty((tokens, self.rank), np.float32)
        self._call("encode", ctypes.byref(_matrix(z, (tokens, self.rank), "z")), tokens, message.ctypes.data or None, decoded.ctypes.data)
        return message, decoded

    def decode(self, message: Any, tokens: int, *, version: int | None = None) -> Floats:
        """For the receiver: z from a message of so many tokens. version: version("sender") before it was
        encoded; if this side's differs, the message is refused."""
        array = _bytes_of(message)
        fits = array.size == self.message_bytes(tokens)  # else it is refused, before there is room for so many
        z = np.empty((tokens if fits else 0, self.rank), np.float32)
        number = None if version is None else ctypes.byref(ctypes.c_uint64(version))
        self._call("decode", array.ctypes.data if array.size else None, array.size, number, tokens, z.ctypes.data)
        return z

    def version(self, side: str) -> int:
        """The version of the codebooks with which the "sender" encodes, or the "receiver" decodes: the
        same number if they are the same, after as many micro-batches."""
        version = ctypes.c_uint64()
        self._call("version", self._side(side, "version"), ctypes.byref(version))
        return version.value

    def decompress(self, z: Any, ids: Any, anchor: Any = None) -> Floats:
        """Xhat."""
        numbers = _ids_of(ids)
        xhat = np.empty((numbers.size, self.width), np.float32)
        self._call("decompress", self._tokens(z, numbers, self.rank, "z"), self._table(anchor), *_pointer(numbers), xhat.ctypes.data)
        return xhat

    def decompress_backward(self, z: Any, gradient: Any, ids: Any, anchor_gradient: Any = None, *, step: int | None = None) -> Floats:
        """dZ of dL/dXhat; the receiver's part of the gradient of A is added to the step's. anchor_gradient, V x r: that of the anchor is
        added to it. step: `steps` at the time of the forward pass; gradients through another A are refused."""
        numbers = _ids_of(ids)
        dz = np.empty((numbers.size, self.rank), np.float32)
        self._call("decompress_backward", self._at(step), self._tokens(z, numbers, self.rank, "z"),
                   self._tokens(gradient, numbers, self.width, "gradient"), *_pointer(numbers), dz.ctypes.data,
                   self._place(anchor_gradient))
        return dz

    def compress_backward(self, q: Any, dz: Any, ids: Any, anchor_gradient: Any = None, *, step: int | None = None) -> Floats:
        """dX; the sender's part of the gradient of A is added to the step's. The rest as in decompress_backward."""
        numbers = _ids_of(ids)
        dx = np.empty((numbers.size, self.width), np.float32)
        self._call("compress_backward", self._at(step), self._tokens(q, numbers, self.width, "q"),
                   self._tokens(dz, numbers, self.rank, "dz"), *_pointer(numbers), dx.ctypes.data, self._place(anchor_gradient))
        return dx

    def part(self, side: str) -> Floats:
        """The part of the step's gradient of A that has come back so far through the "sender" or the
        "receiver". A copy."""
        view = _library.Values()
        self._call("part", self._side(side, "part"), ctypes.byref(view))
        return self._copy(view, (self.width, self.rank))

    def step(self, rate: float, receivers_part: Any = None, *, gradient: Any = None) -> bool:
        """For the sender: a step of SPEL, 0 <= rate < 0.52, with the receiver's part; None: this boundary
        has been both sides. With several replicas `gradient` is the mean of theirs, instead of the
        receiver's part. False if the gradient, or its result, is not finite: A and m are unchanged, and
        the step still counts."""
        stepped = ctypes.c_int32()
        if gradient is not None:
            if receivers_part is not None:
                raise Error("step: gradient and receivers_part are given; the gradient is of both parts, so give it alone")
            self._call("step_by", float(rate), self._subspace(gradient, "gradient"), ctypes.byref(stepped))
            return stepped.value != 0
        part = None if receivers_part is None else self._subspace(receivers_part, "receivers_part")
        self._call("step", float(rate), part, ctypes.byref(stepped))
        return stepped.value != 0

    def follow(self, subspace: Any) -> None:
        """For the receiver: ends the step with the sender's A."""
        self._call("follow", self._subspace(subspace, "subspace"))

    def forget(self) -> None:
        """Drops what has come back since the last step."""
        self._call("forget")

    @property
    def steps(self) -> int:
        """Completed steps."""
        return _library.ask("mapl_boundary_steps", self._handle.pointer)

    @property
    def subspace(self) -> Floats:
        """A copy of A."""
        view = _library.Values()
        self._call("subspace", ctypes.byref(view))
        return self._copy(view, (self.width, self.rank))

    @property
    def distance(self) -> tuple[float, float]:
        """|A^T A - I|, the greatest column sum of magnitudes, and the part that rounding and retraction
        explain."""
        distance, bound = ctypes.c_double(), ctypes.c_double()
        self._call("distance", ctypes.byref(distance), ctypes.byref(bound))
        return distance.value, bound.value

    @property
    def state(self) -> State:
        """Copies of the state between two steps."""
        entry = _library.MaplState(struct_size=ctypes.sizeof(_library.MaplState))
        self._call("state", ctypes.byref(entry))
        tall, wide = (self.width, self.rank), (self.rank, self.width)
        matrices = {name: self._copy(getattr(entry, name), shape) for name, shape in zip(_MATRICES, (tall, tall, wide, wide))}
        books = {name: self._copy(getattr(entry, name), self._books) for name in _BOOKS}
        return State(entry.steps, **matrices, micro_batches=entry.micro_batches, **books)

    def restore(self, state: State) -> None:
        """Continues from a state, and forgets what has come back since the last step. A refused state
        changes nothing."""
        self._call("restore", ctypes.byref(_entry_of(state)))

    def _call(self, name: str, *arguments: object) -> None:
        _library.call(f"mapl_boundary_{name}", self._handle.pointer, *arguments)

    @staticmethod
    def _side(side: str, what: str) -> int:
        if side not in _SIDES:
            raise Error(f"{what}: there is no side {side!r}; give sender or receiver")
        return _SIDES[side]

    def _copy(self, view: _library.Values, shape: tuple[int, ...]) -> Floats:
        return _values.look(self._handle, view).copy().reshape(shape) if view.count else _values.empty()

    def _at(self, step: int | None) -> int:
        return self.steps if step is None else _library.whole(step, "step", 64)

    def _tokens(self, array: Any, ids: NDArray[np.int64], columns: int, what: str) -> Any:
        return ctypes.byref(_matrix(array, (ids.size, columns), what))

    def _subspace(self, array: Any, what: str) -> Any:
        return ctypes.byref(_matrix(array, (self.width, self.rank), what))

    def _table(self, anchor: Any) -> Any:
        return None if anchor is None else ctypes.byref(_matrix(anchor, (self.vocabulary, self.rank), "anchor"))

    def _place(self, gradient: Any) -> int | None:
        if gradient is None:
            return None
        values = _matrix(gradient, (self.vocabulary, self.rank), "anchor_gradient")
        if values.type != _library.F32 or (isinstance(gradient, np.ndarray) and not gradient.flags.writeable):
            raise Error("anchor_gradient: it is bf16 or cannot be written to; give a float32 array of your own")
        return int(values.data)


def _entry_of(state: State) -> _library.MaplState:
    return _library.MaplState(ctypes.sizeof(_library.MaplState), _library.whole(state.steps, "steps", 64),
                              *(_values.one(getattr(state, name), f"state: {name}") for name in _MATRICES),
                              _library.whole(state.micro_batches, "micro_batches", 64),
                              *(_values.one(getattr(state, name), f"state: {name}") for name in _BOOKS))


def _matrix(array: Any, shape: tuple[int, int], what: str) -> _library.Values:
    values = _values.one(array, what)
    if tuple(array.shape) != shape:
        raise Error(f"{what}: its shape is {tuple(array.shape)}; give {shape}")
    return values


def _rows_of(array: Any, what: str) -> int:
    shape = tuple(getattr(array, "shape", ()))
    if len(shape) != 2:
        raise Error(f"{what}: its shape is {shape}; give a matrix, a token a row")
    return int(shape[0])


def _bytes_of(message: Any) -> NDArray[np.uint8]:
    """The bytes in place, if they have the form that C takes."""
    if isinstance(message, (bytes, bytearray, memoryview)):
        return np.frombuffer(message, np.uint8)
    try:
        array = np.asarray(message)
    except (TypeError, ValueError, RuntimeError) as error:  # on a device, or no array
        raise Error(f"message: {error}; give bytes on the CPU") from None
    if array.dtype != np.uint8 or array.ndim != 1:
        raise Error(f"message: it is {array.dtype} in {array.ndim} dimensions; give a vector of uint8, as encode has made it")
    return np.ascontiguousarray(array)


def _ids_of(ids: Any) -> NDArray[np.int64]:
    """The ids in place, if they have the form that C takes."""
    try:
        array = np.asarray(ids)
    except (TypeError, ValueError, RuntimeError) as error:  # on a device, or no array
        raise Error(f"ids: {error}; give whole numbers on the CPU, one a token") from None
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise Error(f"ids: they are {array.dtype} in {array.ndim} dimensions; give a vector of whole numbers, one a token")
    return np.ascontiguousarray(array, np.int64)


def _pointer(ids: NDArray[np.int64]) -> tuple[int | None, int]:
    return (ids.ctypes.data if ids.size else None), ids.size
