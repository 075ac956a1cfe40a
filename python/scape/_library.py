"""libscape, loaded and declared: the one place that knows scape.h."""

import ctypes
import operator
import os
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ._errors import BY_STATUS, Error, InternalError

ABI_VERSION, ABI_MINOR_VERSION = 1, 8  # this one, and as much or more was added
F32, BF16, BITS = 0, 1, 2
PARAMETERS, FIRST_MOMENT, RESIDUAL, MASK, NEXT_MASK, LOCAL, EXCHANGED, RECONSTRUCTED = range(8)


class Values(ctypes.Structure):
    """scape_values."""

    _fields_ = [("data", c_void_p), ("count", c_int64), ("type", c_int32)]


class TensorEntry(ctypes.Structure):
    """scape_tensor."""

    _fields_ = [("name", c_char_p), ("size", c_int64), ("always_dense", c_int32)]


_SIZES, _EXCHANGE = POINTER(c_size_t), POINTER(c_void_p)
START_ALL_TO_ALL = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, _SIZES, c_void_p, _SIZES, _EXCHANGE)
START_ALL_GATHER = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_void_p, _SIZES, _EXCHANGE)
WAIT = CFUNCTYPE(c_int32, c_void_p, c_void_p)
START_MESSAGE = CFUNCTYPE(c_int32, c_void_p, c_int32, c_int32, c_uint64, c_void_p, c_size_t, _EXCHANGE)


class Exchanges(ctypes.Structure):
    """scape_exchanges. No reduce-scatter and no progress are given from here."""

    _fields_ = [("struct_size", c_size_t), ("self", c_void_p), ("rank", c_int32), ("size", c_int32),
                ("all_to_all", START_ALL_TO_ALL), ("all_gather", START_ALL_GATHER), ("reduce_scatter", c_void_p),
                ("wait", WAIT), ("progress", c_void_p)]


class StatisticsEntry(ctypes.Structure):
    """scape_statistics."""

    _fields_ = [("struct_size", c_size_t), ("step", c_int64), ("selected", c_int64), ("kept", c_int64), ("sent", c_uint64 * 6),
                ("gradient_norm", c_double), ("clip_factor", c_double), ("exponent", c_int32)]


class State(ctypes.Structure):
    """scape_state."""

    _fields_ = [("struct_size", c_size_t), ("step", c_int64), ("parameters", Values), ("first_moment", Values),
                ("residual", Values), ("mask", Values), ("next_mask", Values), ("exponent", c_int32)]


class Messages(ctypes.Structure):
    """scape_messages, without progress."""

    _fields_ = [("struct_size", c_size_t), ("self", c_void_p), ("rank", c_int32), ("size", c_int32), ("send", START_MESSAGE),
                ("receive", START_MESSAGE), ("wait", WAIT), ("progress", c_void_p)]


class RoundEntry(ctypes.Structure):
    """scape_gasloc_round."""

    _fields_ = [("struct_size", c_size_t), ("number", c_int64), ("inner_steps", c_int64), ("skipped", c_int32),
                ("neighbours", c_int32), ("sent", c_uint64)]


class GaslocState(ctypes.Structure):
    """scape_gasloc_state."""

    _fields_ = [("struct_size", c_size_t), ("rounds", c_int64), ("inner_steps", c_int64), ("parameters", Values), ("before", Values),
                ("first_moment", Values), ("second_moment", Values)]


class MaplState(ctypes.Structure):
    """scape_mapl_state."""

    _fields_ = [("struct_size", c_size_t), ("steps", c_int64), ("subspace", Values), ("moment", Values), ("sender_rows", Values),
                ("receiver_rows", Values), ("micro_batches", c_int64), ("codebooks", Values), ("learned", Values)]


def _found() -> Path:
    given = os.environ.get("SCAPE_LIBRARY")
    if given:
        return Path(given)
    here = Path(__file__).parent
    for name in (f"libscape.so.{ABI_VERSION}", "libscape.so"):
        if (here / name).exists():
            return here / name
    raise ImportError(f"scape: {here} has no libscape.so.{ABI_VERSION}; install the package with pip, or let SCAPE_LIBRARY name one")


def _load() -> ctypes.CDLL:
    path = _found()
    library = ctypes.CDLL(str(path))
    minor = getattr(library, "scape_abi_minor_version", lambda: 0)()  # both give C's int
    if library.scape_abi_version() != ABI_VERSION or minor < ABI_MINOR_VERSION:
        raise ImportError(f"scape: {path} has version {library.scape_abi_version()}.{minor} of the interface, and this package wants "
                          f"{ABI_VERSION}.{ABI_MINOR_VERSION}; install both from one commit")
    return library


_library = _load()

_HANDLE, _OUT = c_void_p, POINTER(c_void_p)
_PIECES = POINTER(Values)
_IDS = [c_void_p, c_int64]
_STATUS: dict[str, list[Any]] = {
    "scape_problem_create": [POINTER(TensorEntry), c_size_t, c_int32, c_char_p, _OUT],
    "scape_problem_density": [_HANDLE, c_int64, POINTER(c_double)],
    "scape_communicator_create": [POINTER(Exchanges), _OUT],
    "scape_group_create": [c_int32, c_int64, _OUT],
    "scape_group_communicator": [_HANDLE, c_int32, _OUT],
    "scape_optimizer_create": [_HANDLE, _HANDLE, _PIECES, c_size_t, _OUT],
    "scape_optimizer_step": [_HANDLE, _PIECES, c_size_t, c_double],
    "scape_optimizer_gradient": [_HANDLE, POINTER(Values)],
    "scape_optimizer_step_using_up": [_HANDLE, _PIECES, c_size_t, c_double],
    "scape_optimizer_accumulate": [_HANDLE, _PIECES, c_size_t],
    "scape_optimizer_bucket": [_HANDLE, POINTER(c_size_t), c_size_t, _PIECES, c_size_t],
    "scape_optimizer_step_of_parts": [_HANDLE, c_double],
    "scape_optimizer_forget_parts": [_HANDLE],
    "scape_optimizer_progress": [_HANDLE],
    "scape_optimizer_view": [_HANDLE, c_int32, POINTER(Values)],
    "scape_optimizer_statistics": [_HANDLE, POINTER(StatisticsEntry)],
    "scape_optimizer_restore": [_HANDLE, POINTER(State)],
    "scape_optimizer_save": [_HANDLE, c_char_p],
    "scape_optimizer_load": [_HANDLE, c_char_p],
    "scape_reference_create": [_HANDLE, _PIECES, c_size_t, _OUT],
    "scape_reference_step": [_HANDLE, _PIECES, c_size_t, c_double],
    "scape_reference_view": [_HANDLE, c_int32, c_int32, POINTER(Values)],
    "scape_fingerprint": [_PIECES, c_uint64, POINTER(c_uint64)],
    "scape_peers_create": [POINTER(Messages), _OUT],
    "scape_group_peers": [_HANDLE, c_int32, _OUT],
    "scape_gasloc_problem_create": [POINTER(TensorEntry), c_size_t, c_int32, c_char_p, _OUT],
    "scape_gasloc_worker_create": [_HANDLE, _HANDLE, _PIECES, c_size_t, _OUT],
    "scape_gasloc_worker_step": [_HANDLE, _PIECES, c_size_t, c_double, POINTER(c_int32)],
    "scape_gasloc_worker_round": [_HANDLE, POINTER(RoundEntry)],
    "scape_gasloc_worker_parameters": [_HANDLE, POINTER(Values)],
    "scape_gasloc_worker_state": [_HANDLE, POINTER(GaslocState)],
    "scape_gasloc_worker_restore": [_HANDLE, POINTER(GaslocState)],
    "scape_gasloc_worker_save": [_HANDLE, c_char_p],
    "scape_gasloc_worker_load": [_HANDLE, c_char_p],
    "scape_gasloc_recorder_create": [_HANDLE, c_char_p, _PIECES, c_size_t, _OUT],
    "scape_gasloc_recorder_begin_round": [_HANDLE, POINTER(c_double), c_size_t],
    "scape_gasloc_recorder_add": [_HANDLE, c_char_p, c_int32, _PIECES, c_size_t],
    "scape_gasloc_recorder_write": [_HANDLE, c_char_p],
    "scape_mapl_boundary_create": [c_char_p, POINTER(MaplState), _OUT],
    "scape_mapl_boundary_compress": [_HANDLE, _PIECES, _PIECES, *_IDS, c_void_p, c_void_p],
    "scape_mapl_boundary_decompress": [_HANDLE, _PIECES, _PIECES, *_IDS, c_void_p],
    "scape_mapl_boundary_compress_backward": [_HANDLE, c_int64, _PIECES, _PIECES, *_IDS, c_void_p, c_void_p],
    "scape_mapl_boundary_decompress_backward": [_HANDLE, c_int64, _PIECES, _PIECES, *_IDS, c_void_p, c_void_p],
    "scape_mapl_boundary_encode": [_HANDLE, _PIECES, c_int64, c_void_p, c_void_p],
    "scape_mapl_boundary_decode": [_HANDLE, c_void_p, c_int64, POINTER(c_uint64), c_int64, c_void_p],
    "scape_mapl_boundary_version": [_HANDLE, c_int32, POINTER(c_uint64)],
    "scape_mapl_boundary_part": [_HANDLE, c_int32, POINTER(Values)],
    "scape_mapl_boundary_step": [_HANDLE, c_double, _PIECES, POINTER(c_int32)],
    "scape_mapl_boundary_step_by": [_HANDLE, c_double, _PIECES, POINTER(c_int32)],
    "scape_mapl_boundary_follow": [_HANDLE, _PIECES],
    "scape_mapl_boundary_forget": [_HANDLE],
    "scape_mapl_boundary_subspace": [_HANDLE, POINTER(Values)],
    "scape_mapl_boundary_distance": [_HANDLE, POINTER(c_double), POINTER(c_double)],
    "scape_mapl_boundary_state": [_HANDLE, POINTER(MaplState)],
    "scape_mapl_boundary_restore": [_HANDLE, POINTER(MaplState)],
    "scape_verify": [c_char_p, c_char_p, c_char_p, _OUT],
    "scape_verify_ranks": [POINTER(c_char_p), c_size_t, c_char_p, c_char_p, _OUT],
    "scape_join": [POINTER(c_char_p), c_size_t, c_char_p],
    "scape_recorder_create": [_HANDLE, c_char_p, _PIECES, c_size_t, _OUT],
    "scape_recorder_of_rank": [_HANDLE, c_int32],
    "scape_recorder_keep_in": [_HANDLE, c_char_p],
    "scape_recorder_sample": [_HANDLE, c_char_p],
    "scape_recorder_held": [_HANDLE, POINTER(c_int64), c_size_t, POINTER(c_size_t)],
    "scape_recorder_begin_at": [_HANDLE, c_int64],
    "scape_recorder_learning_rate": [_HANDLE, c_int64, c_double],
    "scape_recorder_norm": [_HANDLE, c_double],
    "scape_recorder_exponent": [_HANDLE, c_int32],
    "scape_recorder_begin_step": [_HANDLE, c_double],
    "scape_recorder_add": [_HANDLE, c_char_p, c_int32, _PIECES, c_size_t],
    "scape_recorder_write": [_HANDLE, c_char_p],
}
_OTHERS: dict[str, tuple[type | None, list[Any]]] = {
    "scape_version": (c_char_p, []),
    "scape_last_error": (c_char_p, []),
    "scape_set_error": (None, [c_char_p]),
    "scape_problem_size": (c_int64, [_HANDLE]),
    "scape_optimizer_steps": (c_int64, [_HANDLE]),
    "scape_gasloc_problem_size": (c_int64, [_HANDLE]),
    "scape_gasloc_worker_rounds": (c_int64, [_HANDLE]),
    "scape_mapl_boundary_steps": (c_int64, [_HANDLE]),
    "scape_mapl_boundary_message_bytes": (c_int64, [_HANDLE, c_int64]),
    "scape_verdict_passed": (c_int32, [_HANDLE]),
    "scape_verdict_text": (c_char_p, [_HANDLE]),
    "scape_verdict_json": (c_char_p, [_HANDLE]),
}
for _name in ("problem", "communicator", "group", "optimizer", "reference", "verdict", "recorder", "peers", "gasloc_problem", "gasloc_worker",
              "gasloc_recorder", "mapl_boundary"):
    _OTHERS[f"scape_{_name}_destroy"] = (None, [_HANDLE])
for _name, _arguments in _STATUS.items():
    getattr(_library, _name).argtypes, getattr(_library, _name).restype = _arguments, c_int32
for _name, (_result, _arguments) in _OTHERS.items():
    getattr(_library, _name).argtypes, getattr(_library, _name).restype = _arguments, _result


def call(name: str, *arguments: object) -> None:
    """Calls scape_<name> and raises what it ends with."""
    status = getattr(_library, f"scape_{name}")(*arguments)
    if status != 0:
        raise BY_STATUS.get(status, InternalError)(_library.scape_last_error().decode(errors="replace"))


def ask(name: str, *arguments: object) -> int:
    """Calls a scape_<name> that cannot fail."""
    return int(getattr(_library, f"scape_{name}")(*arguments) or 0)


def words(name: str, *arguments: object) -> str:
    """What a scape_<name> that gives text says."""
    return str(getattr(_library, f"scape_{name}")(*arguments), errors="replace")


def set_error(line: str) -> None:
    """What scape_last_error says of a callback that fails."""
    _library.scape_set_error(line.encode(errors="replace"))


def text(value: object, what: str) -> bytes:
    """As C wants it."""
    try:
        encoded = os.fsencode(value) if isinstance(value, (str, os.PathLike)) else None
    except UnicodeEncodeError:  # halves of letters
        encoded = None
    if encoded is None or b"\0" in encoded:
        raise Error(f"{what} is {value!r}; give a text without zero bytes")
    return encoded


def texts(values: Sequence[object], what: str) -> tuple[Any, int]:
    """Several, as a pointer and a count."""
    if not isinstance(values, Sequence):
        raise Error(f"{what} is {values!r}; give a name, or a list of names")
    return (c_char_p * len(values))(*(text(value, what) for value in values)), len(values)


def whole(value: Any, what: str, bits: int = 32) -> int:
    """As C can hold it: ctypes cuts off what is too much, and says nothing."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"{what} is {value!r}; give a whole number") from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Error(f"{what} is {number:#x}, which {bits} bits do not hold; give one closer to zero")
    return number


class Handle:
    """What some scape_<kind>_create gave. It goes with the last who knows it."""

    calls: object = None  # what libscape calls through this handle

    def __init__(self, kind: str, *arguments: object, maker: str = "") -> None:
        self.kind, self.pointer = kind, c_void_p()
        call(maker or f"{kind}_create", *arguments, ctypes.byref(self.pointer))

    def __del__(self) -> None:
        if self.pointer:
            ask(f"{self.kind}_destroy", self.pointer)


def version() -> str:
    """The version of the library that is loaded."""
    return words("version")
