"""Compares two checkpoints of PyTorch bit for bit, however they are sharded: torch.distributed.checkpoint's (DCP), safetensors with an index, or
one safetensors file. One tensor of each is in memory at a time."""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ._errors import Error

_TYPES = {name: getattr(torch, kind) for name, kind in (("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2"), ("U16", "uint16"), ("U32", "uint32"),
                                                       ("U64", "uint64")) if hasattr(torch, kind)}  # that PyTorch 1.13 lacks
_TYPES |= {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
          "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
_BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
Tensors = Mapping[str, Callable[[], torch.Tensor]]


def _safetensors(path: Path) -> dict[str, Callable[[], torch.Tensor]]:
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError("the header is longer than the file")
            entries = {name: entry for name, entry in json.loads(file.read(length)).items() if name != "__metadata__"}
            places = {name: (_TYPES[entry["dtype"]], list(entry["shape"]), [int(at) for at in entry["data_offsets"]]) for name, entry in entries.items()}
            for name, (kind, shape, (begin, end)) in places.items():
                if min([0, begin, *shape]) < 0 or end - begin != math.prod(shape) * torch.empty(0, dtype=kind).element_size():
                    raise ValueError(f"{name} of shape {shape} is in bytes {begin} to {end}, another number")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(f"{path}: it is no safetensors file ({error})") from None

    def read(name: str) -> torch.Tensor:
        kind, shape, (begin, end) = places[name]
        with open(path, "rb") as file:
            file.seek(8 + length + begin)
            data = bytearray(file.read(end - begin))
        if len(data) != end - begin:
            raise Error(f"{path}: {name} goes beyond the end of the file; it was not written to its end")
        return (torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)).reshape(shape)
    return {name: lambda name=name: read(name) for name in places}  # type: ignore[misc]


def _indexed(index: Path) -> dict[str, Callable[[], torch.Tensor]]:
    try:
        placed: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = {name: _safetensors(index.parent / name) for name in sorted(set(placed.values()))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(f"{index}: it is no index of safetensors ({error})") from None
    for name, file in placed.items():
        if name not in files[file]:
            raise Error(f"{index}: it places {name} in {file}, which does not have it")
    return {name: files[file][name] for name, file in placed.items()}


def _distributed(folder: Path) -> dict[str, Callable[[], torch.Tensor]]:
    try:
        from torch.distributed.checkpoint.filesystem import FileSystemReader
        from torch.distributed.checkpoint.metadata import TensorStorageMetadata
        from torch.distributed.checkpoint.state_dict_loader import load
    except ImportError:
        raise Error(f"{folder}: PyTorch {torch.__version__} cannot read a folder of torch.distributed.checkpoint; take 2.3 or newer") from None

    def whole(action: Callable[[], Any]) -> Any:
        try:
            return action()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001: that of torch.distributed.checkpoint is no Exception
            raise Error(f"{folder}: it cannot be read by torch.distributed.checkpoint ({' '.join(f'{error}'.split())})") from None

    every = whole(lambda: FileSystemReader(folder).read_metadata().state_dict_metadata)
    entries = {name: entry for name, entry in every.items() if isinstance(entry, TensorStorageMetadata)}
    others = sorted(set(every) - set(entries))
    if others:
        print(f"{folder}: not compared, since they are no tensors: {', '.join(others)}", file=sys.stderr)

    def read(name: str) -> torch.Tensor:
        state: dict[str, Any] = {name: torch.empty(entries[name].size, dtype=entries[name].properties.dtype)}
        whole(lambda: load(state, storage_reader=FileSystemReader(folder), no_dist=True))
        return state[name]  # type: ignore[no-any-return]
    return {name: lambda name=name: read(name) for name in entries}  # type: ignore[misc]


def tensors(path: str | os.PathLike[str]) -> Tensors:
    """The tensors of a checkpoint by name, each read when it is called."""
    place = Path(path)
    if (place / ".metadata").exists():
        return _distributed(place)
    found = sorted(place.glob("*.safetensors.index.json")) if place.is_dir() else []
    if found or place.name.endswith(".index.json"):
        return _indexed(found[0] if found else place)
    if place.is_file():
        return _safetensors(place)
    raise Error(f"{place}: there is no checkpoint; give a folder of torch.distributed.checkpoint, one with *.safetensors.index.json, or a file")


def _at(index: int, shape: torch.Size) -> str:
    places: list[int] = []
    for size in reversed(shape):
        places.insert(0, index % size)
        index //= size
    return f"[{', '.join(map(str, places))}]"


def differences(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> list[str]:
    """One line for each tensor that is not the same in every bit: where it first differs, in how many values, and both values."""
    ours, theirs = tensors(a), tensors(b)
    if not set(ours) & set(theirs):
        raise Error(f"{b}: it has no tensor of the same name as {a}; give two checkpoints of one model")
    found = [f"{name}: it is only in {a if name in ours else b}" for name in sorted(set(ours) ^ set(theirs))]
    for name in ours:
        if name not in theirs:
            continue
        x, y = ours[name](), theirs[name]()
        if x.shape != y.shape or x.dtype != y.dtype:
            found.append(f"{name}: {x.dtype} {list(x.shape)} and {y.dtype} {list(y.shape)}")
            continue
        if x.is_complex():
            x, y = torch.view_as_real(x), torch.view_as_real(y)
        bits = _BITS[x.element_size()]
        differ = (x.contiguous().view(-1).view(bits) != y.contiguous().view(-1).view(bits)).nonzero()
        if len(differ):
            first = int(differ[0])
            found.append(f"{name}: {len(differ)} of {x.numel()} values differ, first at {_at(first, x.shape)}: {x.reshape(-1)[first].item()} and "
                         f"{y.reshape(-1)[first].item()}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m truestep.checkpoints A B``: 0 the same, 1 a difference, 2 bad input."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 2:
        print("usage: python -m truestep.checkpoints A B", file=sys.stderr)
        return 2
    try:
        found = differences(*given)
    except (Error, OSError) as error:
        print(f"truestep.checkpoints: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print("\n".join(found) if found else "the same in every bit")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
