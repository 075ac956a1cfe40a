"""Arrays as libscape takes and gives them, by pointer."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _library
from ._errors import Error

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


def _of_torch(tensor: Any, what: str) -> _library.Values:
    kind = {"torch.float32": _library.F32, "torch.bfloat16": _library.BF16}.get(str(tensor.dtype))
    if kind is None:
        raise Error(f"{what}: its dtype is {tensor.dtype}; give torch.float32 or, of a gradient, torch.bfloat16")
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise Error(f"{what}: a tensor on {tensor.device} with strides {tuple(tensor.stride())}; give a contiguous one on the CPU")
    return _library.Values(tensor.data_ptr() or None, tensor.numel(), kind)


def _of_numpy(array: Any, what: str) -> _library.Values:
    if not isinstance(array, np.ndarray) or array.dtype != np.float32 or not array.flags.c_contiguous:
        found = f"{array.dtype} with strides {array.strides}" if isinstance(array, np.ndarray) else type(array).__name__
        raise Error(f"{what}: it is {found}; give a contiguous float32 array of NumPy or PyTorch")
    return _library.Values(array.ctypes.data, array.size, _library.F32)


def one(array: Any, what: str) -> _library.Values:
    """An array where it stands. Whoever calls keeps it alive."""
    return _of_torch(array, what) if hasattr(array, "data_ptr") else _of_numpy(array, what)


def pieces(arrays: Any, what: str) -> tuple[Any, int]:
    """One array, or several that stand for one vector, as a pointer and a count. None in a list: zeros, with its count."""
    given = list(arrays) if isinstance(arrays, Sequence) else [arrays]
    entries = (_library.Values * len(given))()
    for i, array in enumerate(given):
        entries[i] = array if isinstance(array, _library.Values) else one(array, what if len(given) == 1 else f"{what}, piece {i}")
    return entries, len(given)


def zeros(count: int) -> _library.Values:
    return _library.Values(None, count, _library.F32)


def bits(mask: Any, what: str) -> tuple[_library.Values, object]:
    """A mask's bytes, and what they live in."""
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.ndim != 1:
        raise Error(f"{what}: it is {array.dtype} in {array.ndim} dimensions; give a vector of bool")
    packed = np.packbits(array, bitorder="little")
    return _library.Values(packed.ctypes.data, packed.size, _library.BITS), packed


def empty() -> Floats:
    return np.empty(0, np.float32)


def look(owner: object, view: _library.Values) -> Floats:
    """The floats of a view where they stand; the array keeps the owner alive."""
    memory: Any = (ctypes.c_float * view.count).from_address(view.data)
    memory.owner = owner
    return np.frombuffer(memory, np.float32)


def copy_mask(view: _library.Values, size: int) -> Mask:
    """The mask of a view, a bool a coordinate."""
    memory: Any = (ctypes.c_uint8 * view.count).from_address(view.data)
    return np.unpackbits(np.frombuffer(memory, np.uint8), count=size, bitorder="little").astype(np.bool_)
