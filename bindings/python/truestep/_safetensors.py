"""Writes the file of a trace."""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._errors import Error


def write(path: str | os.PathLike[str], metadata: Mapping[str, str], tensors: Mapping[str, Any]) -> None:
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    at = 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F64" if values.dtype == np.float64 else "F32", "shape": [values.size], "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    last = _destination(os.fspath(path))
    try:
        with open(path if last is None else f"{last}.partial", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for values in tensors.values():
                file.write(values.tobytes())
        if last is not None:
            os.replace(f"{last}.partial", last)
    except OSError as error:
        if last is not None:
            with contextlib.suppress(OSError):
                os.unlink(f"{last}.partial")
        raise Error(f"{os.fspath(path)}: it cannot be written: {error.strerror}") from None


def _destination(path: str) -> str | None:
    """The regular or new file at the end of all links, to be written beside its name and renamed. None for
    a device, a pipe or an open /dev/fd/3, which a rename would replace: these are written in place (as in
    storage/)."""
    for _ in range(40):
        if os.path.realpath(os.path.dirname(path)).startswith("/proc/") or os.path.exists(path) and not os.path.isfile(path):
            return None
        if not os.path.islink(path):
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return None
