"""Arrays in libtruestep's form, by pointer."""

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _library
from ._errors import Error

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


def _torch_of(array: Any) -> Any:
    """PyTorch, if this is one of its tensors; then it has been imported."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None


def _strangeness(tensor: Any, torch: Any) -> str:
    """Why a tensor's values are not at its address, and what to pass instead; "" if they are."""
    kind = type(tensor).__name__
    if hasattr(tensor, "to_local") and hasattr(tensor, "full_tensor"):
        return f"it is of {kind}, whose values are in other tensors; give its .to_local(), this rank's part, or its .full_tensor()"
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"it is of {kind}, whose values are in other tensors; give a plain torch.Tensor of them"
    if tensor.device.type == "meta":
        return "it is on the meta device and has no values; give one that has been made on a device (model.to_empty, then initialize)"
    if tensor.is_sparse or tensor.layout != torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).replace("torch.", "").strip("_").replace("_", " ")
        return f"it is {layout}; give it dense, .to_dense() (of a gradient: torch.nn.Embedding(..., sparse=False))"
    if tensor.is_quantized:
        return "it is quantized; give its .dequantize()"
    if tensor.is_conj() or tensor.is_neg():
        return "it is a view that conjugates or negates when it is read; give its .resolve_conj().resolve_neg()"
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()  # PyTorch 1.13 has the latter alone
    if storage.data_ptr() == 0 and tensor.numel() > 0:
        return f"it is of {kind} and without memory, freed or never made; give a tensor that has its values"
    return ""


def check_memory(tensor: Any, what: str) -> None:
    """Refuses a tensor whose values are not at its address: data_ptr() of a wrapper is only its storage's
    offset. Accepts other objects."""
    torch = _torch_of(tensor)
    if torch is None:
        return
    try:
        reason = _strangeness(tensor, torch)
    except (RuntimeError, ValueError) as error:  # inside of vmap and the like, or an UninitializedParameter
        said = str(error).splitlines()[0].split(". ")[0]
        reason = f"it is of {type(tensor).__name__}, whose memory cannot be read ({said}); give a plain torch.Tensor that has values"
    if reason:
        raise Error(f"{what}: {reason}")


def check_exact(tensor: Any, what: str) -> None:
    """Refuses a tensor whose values fp32 cannot represent exactly, as it can those of bf16, fp16, smaller
    floats and masks. Rounded, or without its imaginary part, it would be recorded as something else."""
    if _torch_of(tensor) is None:
        raise Error(f"{what}: it is {type(tensor).__name__}; give a torch.Tensor")
    check_memory(tensor, what)
    dtype = tensor.dtype
    if dtype.is_complex or tensor.element_size() > (4 if dtype.is_floating_point else 2):
        way = "torch.view_as_real() of it" if dtype.is_complex else "its .float(), if that is what is meant"
        raise Error(f"{what}: its dtype is {dtype}, and fp32 does not hold all of its values; give {way}")


def as_fp32(tensor: Any, what: str) -> Any:
    """A tensor's values in fp32, on its device; the conversion is exact."""
    check_exact(tensor, what)
    return tensor.float()


def rate(value: Any, what: str = "the learning rate") -> float:
    """A learning rate, refused before it is used."""
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise Error(f"{what} is {value!r}; it is a finite number, 0 or more")
    return number


def check_given(of_ranks: Any, ranks: int, what: str) -> None:
    """A list with an entry for each rank, checked before anything is recorded."""
    found = len(of_ranks) if isinstance(of_ranks, (Sequence, np.ndarray)) else type(of_ranks).__name__
    missing = [] if found != ranks else [rank for rank in range(ranks) if of_ranks[rank] is None]
    if found != ranks or missing:
        seen = f"of rank {missing[0]} there is None" if missing else f"it is {found}" if isinstance(found, str) else f"there are {found}"
        raise Error(f"{what}: {seen}; give a list with each rank's, {ranks} in all")


def _of_torch(tensor: Any, what: str) -> _library.Values:
    check_memory(tensor, what)
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
    """An array, used in place. The caller keeps it alive."""
    return _of_numpy(array, what) if _torch_of(array) is None else _of_torch(array, what)


def pieces(arrays: Any, what: str) -> tuple[Any, int]:
    """One array, or several that form one vector, as a pointer and a count. None in a list: zeros, with
    its count."""
    given = list(arrays) if isinstance(arrays, Sequence) else [arrays]
    entries = (_library.Values * len(given))()
    for i, array in enumerate(given):
        entries[i] = array if isinstance(array, _library.Values) else one(array, what if len(given) == 1 else f"{what}, piece {i}")
    return entries, len(given)


def zeros(count: int) -> _library.Values:
    return _library.Values(None, count, _library.F32)


def bits(mask: Any, what: str, size: int, held: Sequence[tuple[int, int]] = ()) -> tuple[_library.Values, object]:
    """The bytes of a mask, and their owner. If only stretches are held, it may be whole or reduced to
    them. Libtruestep sees bytes, whose number may fit both, so the values are counted here."""
    part = sum(end - begin for begin, end in held) if held else size
    check_memory(mask, what)
    try:
        array = np.asarray(mask)
    except (TypeError, ValueError, RuntimeError) as error:  # on a device, or no array
        raise Error(f"{what}: {error}; give a vector of bool on the CPU") from None
    if array.dtype != np.bool_ or array.ndim != 1:
        raise Error(f"{what}: it is {array.dtype} in {array.ndim} dimensions; give a vector of bool")
    if array.size not in (size, part):
        raise Error(f"{what}: it has {array.size} values; there are {size}" + (f", or {part} that are held" if part != size else ""))
    if array.size != part:
        array = np.concatenate([array[begin:end] for begin, end in held])
    packed = np.packbits(array, bitorder="little")
    return _library.Values(packed.ctypes.data, packed.size, _library.BITS), packed


def empty() -> Floats:
    return np.empty(0, np.float32)


def look(owner: object, view: _library.Values) -> Floats:
    """The floats of a view in place; the array keeps the owner alive."""
    memory: Any = (ctypes.c_float * view.count).from_address(view.data)
    memory.owner = owner
    return np.frombuffer(memory, np.float32)


def copy_mask(view: _library.Values, size: int) -> Mask:
    """A copy of a view's mask, a bool a coordinate."""
    memory: Any = (ctypes.c_uint8 * view.count).from_address(view.data)
    return np.unpackbits(np.frombuffer(memory, np.uint8), count=size, bitorder="little").astype(np.bool_)
