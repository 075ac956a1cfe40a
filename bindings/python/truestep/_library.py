"""libtruestep, loaded and declared: the one place that knows truestep.h."""

import ctypes
import operator
import os
import warnings
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ._errors import BY_STATUS, Error, InternalError

ABI_VERSION, ABI_MINOR_VERSION = 1, 11  # this one, and as much or more was added
F32, BF16, BITS = 0, 1, 2
PARAMETERS, FIRST_MOMENT, RESIDUAL, MASK, NEXT_MASK, LOCAL, EXCHANGED, RECONSTRUCTED = range(8)


class Values(ctypes.Structure):
    """truestep_values."""

    _fields_ = [("data", c_void_p), ("count", c_int64), ("type", c_int32)]


class TensorEntry(ctypes.Structure):
    """truestep_tensor."""

    _fields_ = [("name", c_char_p), ("size", c_int64), ("always_dense", c_int32)]


_SIZES, _EXCHANGE = POINTER(c_size_t), POINTER(c_void_p)
START_ALL_TO_ALL = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, _SIZES, c_void_p, _SIZES, _EXCHANGE)
START_ALL_GATHER = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_void_p, _SIZES, _EXCHANGE)
WAIT = CFUNCTYPE(c_int32, c_void_p, c_void_p)
START_MESSAGE = CFUNCTYPE(c_int32, c_void_p, c_int32, c_int32, c_uint64, c_void_p, c_size_t, _EXCHANGE)


class Exchanges(ctypes.Structure):
    """truestep_exchanges. Python provides neither reduce-scatter nor progress."""

    _fields_ = [("struct_size", c_size_t), ("self", c_void_p), ("rank", c_int32), ("size", c_int32),
                ("all_to_all", START_ALL_TO_ALL), ("all_gather", START_ALL_GATHER), ("reduce_scatter", c_void_p),
                ("wait", WAIT), ("progress", c_void_p)]


class StatisticsEntry(ctypes.Structure):
    """truestep_statistics."""

    _fields_ = [("struct_size", c_size_t), ("step", c_int64), ("selected", c_int64), ("kept", c_int64), ("sent", c_uint64 * 6),
                ("gradient_norm", c_double), ("clip_factor", c_double), ("exponent", c_int32)]


class State(ctypes.Structure):
    """truestep_state."""

    _fields_ = [("struct_size", c_size_t), ("step", c_int64), ("parameters", Values), ("first_moment", Values),
                ("residual", Values), ("mask", Values), ("next_mask", Values), ("exponent", c_int32)]


class Messages(ctypes.Structure):
    """truestep_messages, without progress."""

    _fields_ = [("struct_size", c_size_t), ("self", c_void_p), ("rank", c_int32), ("size", c_int32), ("send", START_MESSAGE),
                ("receive", START_MESSAGE), ("wait", WAIT), ("progress", c_void_p)]


class RoundEntry(ctypes.Structure):
    """truestep_gasloc_round."""

    _fields_ = [("struct_size", c_size_t), ("number", c_int64), ("inner_steps", c_int64), ("skipped", c_int32),
                ("neighbours", c_int32), ("sent", c_uint64)]


class GaslocState(ctypes.Structure):
    """truestep_gasloc_state."""

    _fields_ = [("struct_size", c_size_t), ("rounds", c_int64), ("inner_steps", c_int64), ("parameters", Values), ("before", Values),
                ("first_moment", Values), ("second_moment", Values)]


class MaplState(ctypes.Structure):
    """truestep_mapl_state."""

    _fields_ = [("struct_size", c_size_t), ("steps", c_int64), ("subspace", Values), ("moment", Values), ("sender_rows", Values),
                ("receiver_rows", Values), ("micro_batches", c_int64), ("codebooks", Values), ("learned", Values)]


def _found() -> Path:
    for old in sorted(name for name in os.environ if name.startswith("SCAPE_")):
        warnings.warn(f"{old} is not read any more; its name is TRUESTEP_{old.removeprefix('SCAPE_')}", stacklevel=2)
    given = os.environ.get("TRUESTEP_LIBRARY")
    if given:
        return Path(given)
    here = Path(__file__).parent
    for name in (f"libtruestep.so.{ABI_VERSION}", "libtruestep.so"):
        if (here / name).exists():
            return here / name
    raise ImportError(f"truestep: {here} has no libtruestep.so.{ABI_VERSION}; install the package with pip, or let TRUESTEP_LIBRARY name one")


def _load() -> ctypes.CDLL:
    path = _found()
    library = ctypes.CDLL(str(path))
    minor = getattr(library, "truestep_abi_minor_version", lambda: 0)()  # both give C's int
    if library.truestep_abi_version() != ABI_VERSION or minor < ABI_MINOR_VERSION:
        raise ImportError(f"truestep: {path} has version {library.truestep_abi_version()}.{minor} of the interface, and this package wants "
                          f"{ABI_VERSION}.{ABI_MINOR_VERSION}; install both from one commit")
    return library


_library = _load()

_HANDLE, _OUT = c_void_p, POINTER(c_void_p)
_PIECES = POINTER(Values)
_IDS = [c_void_p, c_int64]
_STATUS: dict[str, list[Any]] = {
    "truestep_timeline_start": [c_char_p],
    "truestep_problem_create": [POINTER(TensorEntry), c_size_t, c_int32, c_char_p, _OUT],
    "truestep_problem_density": [_HANDLE, c_int64, POINTER(c_double)],
    "truestep_communicator_create": [POINTER(Exchanges), _OUT],
    "truestep_group_create": [c_int32, c_int64, _OUT],
    "truestep_group_communicator": [_HANDLE, c_int32, _OUT],
    "truestep_optimizer_create": [_HANDLE, _HANDLE, _PIECES, c_size_t, _OUT],
    "truestep_optimizer_step": [_HANDLE, _PIECES, c_size_t, c_double],
    "truestep_optimizer_gradient": [_HANDLE, POINTER(Values)],
    "truestep_optimizer_step_using_up": [_HANDLE, _PIECES, c_size_t, c_double],
    "truestep_optimizer_accumulate": [_HANDLE, _PIECES, c_size_t],
    "truestep_optimizer_bucket": [_HANDLE, POINTER(c_size_t), c_size_t, _PIECES, c_size_t],
    "truestep_optimizer_step_of_parts": [_HANDLE, c_double],
    "truestep_optimizer_forget_parts": [_HANDLE],
    "truestep_optimizer_progress": [_HANDLE],
    "truestep_optimizer_view": [_HANDLE, c_int32, POINTER(Values)],
    "truestep_optimizer_statistics": [_HANDLE, POINTER(StatisticsEntry)],
    "truestep_optimizer_restore": [_HANDLE, POINTER(State)],
    "truestep_optimizer_save": [_HANDLE, c_char_p],
    "truestep_optimizer_load": [_HANDLE, c_char_p],
    "truestep_reference_create": [_HANDLE, _PIECES, c_size_t, _OUT],
    "truestep_reference_step": [_HANDLE, _PIECES, c_size_t, c_double],
    "truestep_reference_view": [_HANDLE, c_int32, c_int32, POINTER(Values)],
    "truestep_fingerprint": [_PIECES, c_uint64, POINTER(c_uint64)],
    "truestep_peers_create": [POINTER(Messages), _OUT],
    "truestep_group_peers": [_HANDLE, c_int32, _OUT],
    "truestep_gasloc_problem_create": [POINTER(TensorEntry), c_size_t, c_int32, c_char_p, _OUT],
    "truestep_gasloc_worker_create": [_HANDLE, _HANDLE, _PIECES, c_size_t, _OUT],
    "truestep_gasloc_worker_step": [_HANDLE, _PIECES, c_size_t, c_double, POINTER(c_int32)],
    "truestep_gasloc_worker_round": [_HANDLE, POINTER(RoundEntry)],
    "truestep_gasloc_worker_parameters": [_HANDLE, POINTER(Values)],
    "truestep_gasloc_worker_state": [_HANDLE, POINTER(GaslocState)],
    "truestep_gasloc_worker_restore": [_HANDLE, POINTER(GaslocState)],
    "truestep_gasloc_worker_save": [_HANDLE, c_char_p],
    "truestep_gasloc_worker_load": [_HANDLE, c_char_p],
    "truestep_gasloc_recorder_create": [_HANDLE, c_char_p, _PIECES, c_size_t, _OUT],
    "truestep_gasloc_recorder_begin_round": [_HANDLE, POINTER(c_double), c_size_t],
    "truestep_gasloc_recorder_add": [_HANDLE, c_char_p, c_int32, _PIECES, c_size_t],
    "truestep_gasloc_recorder_write": [_HANDLE, c_char_p],
    "truestep_mapl_boundary_create": [c_char_p, POINTER(MaplState), _OUT],
    "truestep_mapl_boundary_compress": [_HANDLE, _PIECES, _PIECES, *_IDS, c_void_p, c_void_p],
    "truestep_mapl_boundary_decompress": [_HANDLE, _PIECES, _PIECES, *_IDS, c_void_p],
    "truestep_mapl_boundary_compress_backward": [_HANDLE, c_int64, _PIECES, _PIECES, *_IDS, c_void_p, c_void_p],
    "truestep_mapl_boundary_decompress_backward": [_HANDLE, c_int64, _PIECES, _PIECES, *_IDS, c_void_p, c_void_p],
    "truestep_mapl_boundary_encode": [_HANDLE, _PIECES, c_int64, c_void_p, c_void_p],
    "truestep_mapl_boundary_decode": [_HANDLE, c_void_p, c_int64, POINTER(c_uint64), c_int64, c_void_p],
    "truestep_mapl_boundary_version": [_HANDLE, c_int32, POINTER(c_uint64)],
    "truestep_mapl_boundary_part": [_HANDLE, c_int32, POINTER(Values)],
    "truestep_mapl_boundary_step": [_HANDLE, c_double, _PIECES, POINTER(c_int32)],
    "truestep_mapl_boundary_step_by": [_HANDLE, c_double, _PIECES, POINTER(c_int32)],
    "truestep_mapl_boundary_follow": [_HANDLE, _PIECES],
    "truestep_mapl_boundary_forget": [_HANDLE],
    "truestep_mapl_boundary_subspace": [_HANDLE, POINTER(Values)],
    "truestep_mapl_boundary_distance": [_HANDLE, POINTER(c_double), POINTER(c_double)],
    "truestep_mapl_boundary_state": [_HANDLE, POINTER(MaplState)],
    "truestep_mapl_boundary_restore": [_HANDLE, POINTER(MaplState)],
    "truestep_verify": [c_char_p, c_char_p, c_char_p, _OUT],
    "truestep_verify_ranks": [POINTER(c_char_p), c_size_t, c_char_p, c_char_p, _OUT],
    "truestep_check_collectives": [POINTER(c_char_p), c_size_t, _OUT],
    "truestep_join": [POINTER(c_char_p), c_size_t, c_char_p],
    "truestep_add_summary": [c_char_p, c_char_p],
    "truestep_recorder_create": [_HANDLE, c_char_p, _PIECES, c_size_t, _OUT],
    "truestep_recorder_of_rank": [_HANDLE, c_int32],
    "truestep_recorder_keep_in": [_HANDLE, c_char_p],
    "truestep_recorder_sample": [_HANDLE, c_char_p],
    "truestep_recorder_held": [_HANDLE, POINTER(c_int64), c_size_t, POINTER(c_size_t)],
    "truestep_recorder_begin_at": [_HANDLE, c_int64],
    "truestep_recorder_learning_rate": [_HANDLE, c_int64, c_double],
    "truestep_recorder_norm": [_HANDLE, c_double],
    "truestep_recorder_exponent": [_HANDLE, c_int32],
    "truestep_recorder_begin_step": [_HANDLE, c_double],
    "truestep_recorder_add": [_HANDLE, c_char_p, c_int32, _PIECES, c_size_t],
    "truestep_recorder_write": [_HANDLE, c_char_p],
}
_OTHERS: dict[str, tuple[type | None, list[Any]]] = {
    "truestep_version": (c_char_p, []),
    "truestep_timeline_write": (None, []),
    "truestep_last_error": (c_char_p, []),
    "truestep_set_error": (None, [c_char_p]),
    "truestep_problem_size": (c_int64, [_HANDLE]),
    "truestep_optimizer_steps": (c_int64, [_HANDLE]),
    "truestep_gasloc_problem_size": (c_int64, [_HANDLE]),
    "truestep_gasloc_worker_rounds": (c_int64, [_HANDLE]),
    "truestep_mapl_boundary_steps": (c_int64, [_HANDLE]),
    "truestep_mapl_boundary_message_bytes": (c_int64, [_HANDLE, c_int64]),
    "truestep_verdict_passed": (c_int32, [_HANDLE]),
    "truestep_verdict_text": (c_char_p, [_HANDLE]),
    "truestep_verdict_json": (c_char_p, [_HANDLE]),
    "truestep_verdict_page": (c_char_p, [_HANDLE]),
}
for _name in ("problem", "communicator", "group", "optimizer", "reference", "verdict", "recorder", "peers", "gasloc_problem", "gasloc_worker",
              "gasloc_recorder", "mapl_boundary"):
    _OTHERS[f"truestep_{_name}_destroy"] = (None, [_HANDLE])
for _name, _arguments in _STATUS.items():
    getattr(_library, _name).argtypes, getattr(_library, _name).restype = _arguments, c_int32
for _name, (_result, _arguments) in _OTHERS.items():
    getattr(_library, _name).argtypes, getattr(_library, _name).restype = _arguments, _result


def call(name: str, *arguments: object) -> None:
    """Calls truestep_<name> and raises the error that it returns."""
    status = getattr(_library, f"truestep_{name}")(*arguments)
    if status != 0:
        raise BY_STATUS.get(status, InternalError)(_library.truestep_last_error().decode(errors="replace"))


def ask(name: str, *arguments: object) -> int:
    """Calls a truestep_<name> that cannot fail."""
    return int(getattr(_library, f"truestep_{name}")(*arguments) or 0)


def words(name: str, *arguments: object) -> str:
    """The text that a truestep_<name> returns."""
    return str(getattr(_library, f"truestep_{name}")(*arguments), errors="replace")


def set_error(line: str) -> None:
    """Sets the text of truestep_last_error for a callback that fails."""
    _library.truestep_set_error(line.encode(errors="replace"))


def text(value: object, what: str) -> bytes:
    """Text in the form that C needs."""
    try:
        encoded = os.fsencode(value) if isinstance(value, (str, os.PathLike)) else None
    except UnicodeEncodeError:  # halves of letters
        encoded = None
    if encoded is None or b"\0" in encoded:
        raise Error(f"{what} is {value!r}; give a text without zero bytes")
    return encoded


def texts(values: Sequence[object], what: str) -> tuple[Any, int]:
    """Several texts, as a pointer and a count."""
    if not isinstance(values, Sequence):
        raise Error(f"{what} is {values!r}; give a name, or a list of names")
    return (c_char_p * len(values))(*(text(value, what) for value in values)), len(values)


def whole(value: Any, what: str, bits: int = 32) -> int:
    """An integer that C can hold: ctypes would silently cut off higher bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"{what} is {value!r}; give a whole number") from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Error(f"{what} is {number:#x}, which {bits} bits do not hold; give one closer to zero")
    return number


class Handle:
    """The result of some truestep_<kind>_create. It is destroyed with the last reference."""

    calls: object = None  # what libtruestep calls through this handle

    def __init__(self, kind: str, *arguments: object, maker: str = "") -> None:
        self.kind, self.pointer = kind, c_void_p()
        call(maker or f"{kind}_create", *arguments, ctypes.byref(self.pointer))

    def __del__(self) -> None:
        if self.pointer:
            ask(f"{self.kind}_destroy", self.pointer)


def version() -> str:
    """The version of the library that is loaded."""
    return words("version")
