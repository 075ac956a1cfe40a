"""A recorder of traces of one boundary of MAPL, of any implementation."""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _safetensors, _values
from ._errors import Error

_SETTINGS = {"width": None, "rank": None, "vocabulary": 1, "anchors": "none", "order": "project_first", "beta": 0.9, "direction_iterations": 8,
             "retraction_iterations": 2, "payload": "fp32"}
# Of codewords; what is left out is its default.
_OF_CODEWORDS = {"codewords": 0, "groups": 1, "rounds": 1, "subsets": 1, "decay": 0.9, "seed": 1}
_OF_MICRO = {"X", "G", "Z", "Xhat", "dZ", "dX", "indices", "codewords"}
_OF_STEP = {"L", "C", "C_receiver", "E_sender", "E_receiver", "gradient_sender", "gradient_receiver", "gradient", "dE_sender", "dE_receiver", "m", "A", "A_receiver"}


class Recorder:
    """Keeps the steps of a boundary in memory and writes them as a trace that `truestep verify` takes. ``settings``: those of
    ``truestep.mapl.Boundary``; what is left out is its default.

        recorder = truestep.mapl.Recorder({"width": 64, "rank": 8}, subspace)              # with anchors also sender_rows, receiver_rows
        recorder.micro_batch(ids, X=x, G=g, Z=z, Xhat=xhat, dZ=dz, dX=dx)               # X and G are needed, the rest is compared
        recorder.step(rate, m=m, A=a, A_receiver=other_a)                               # after the step; with anchors E_sender=, E_receiver=
        recorder.write("run.safetensors")                                               # as they were before it

    Micro-batches of a step are as many, and as long, as those of the first. ``back="descending"``: their gradients came back in the other
    order, which to the bit is another sum. With codewords: codebooks (C) and learned (L, if it is another) of before the first step, and how many
    micro-batches went before it; of each micro-batch ``**recorder.of_message(message, tokens)``, and Z is what it was decoded to; of each step L and C.
    """

    def __init__(self, settings: Mapping[str, Any], subspace: Any, *, moment: Any = None, sender_rows: Any = None, receiver_rows: Any = None,
                 codebooks: Any = None, learned: Any = None, micro_batches_before: int = 0, source: str = "truestep.mapl.Recorder",
                 back: str = "ascending") -> None:
        unknown = set(settings) - set(_SETTINGS) - set(_OF_CODEWORDS) - {"arithmetic"}
        if unknown:
            raise Error(f"Recorder: there is no setting {sorted(unknown)[0]!r}; settings are {', '.join([*_SETTINGS, *_OF_CODEWORDS])}")
        self._config = {"algorithm": "mapl", "workers": 1} | {
            "subspace_rank" if name == "rank" else name: settings.get(name, usual) for name, usual in _SETTINGS.items()}
        self._coded = {name: settings.get(name, usual) for name, usual in _OF_CODEWORDS.items()}
        if self._coded["codewords"]:
            if codebooks is None:
                raise Error("Recorder: there are codewords, and no codebooks to begin with; give codebooks=")
            self._config |= self._coded | {"micro_batches_before": int(micro_batches_before)}
        if back != "ascending":
            self._config["back"] = back
        self._source = source
        self._vectors: dict[str, Any] = {"initial/A": _floats(subspace)}
        for name, values in (("initial/m", moment), ("initial/C", codebooks), ("initial/L", learned), ("P_sender", sender_rows),
                             ("P_receiver", receiver_rows)):
            if values is not None:
                self._vectors[name] = _floats(values)
        self._rates: list[float] = []
        self._ids: list[Any] = []
        self._micro = 0
        self._sizes: list[int] = []  # micro-batches of each step

    def micro_batch(self, ids: Any, **vectors: Any) -> None:
        """Records a micro-batch, in the order of the forward passes."""
        self._micro += 1
        self._ids.append(np.asarray(ids, np.float64).reshape(-1))
        self._keep(_OF_MICRO, {f"{name}.{self._micro}": values for name, values in vectors.items()})

    def of_message(self, message: Any, tokens: int) -> dict[str, Any]:
        """The indices and codewords of a message without ids (section 23.1), for micro_batch."""
        data = np.frombuffer(bytes(message), np.uint8) if isinstance(message, (bytes, bytearray, memoryview)) else np.asarray(message, np.uint8)
        books = self._coded["groups"] * self._coded["rounds"]
        bits = (self._coded["codewords"] - 1).bit_length()
        at = (tokens * books * bits + 7) // 8
        each = np.unpackbits(data[:at], count=tokens * books * bits, bitorder="little").reshape(tokens * books, bits)
        return {"indices": (each * 2.0 ** np.arange(bits)).sum(axis=1).astype(np.float32), "codewords": data[at:].copy().view(np.float32)}

    def step(self, rate: float, **vectors: Any) -> None:
        """Ends a step of the micro-batches since the last one."""
        self._keep(_OF_STEP, vectors)
        self._rates.append(_values.rate(rate))
        self._sizes.append(self._micro)
        self._micro = 0

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes all completed steps."""
        if not self._rates:
            raise Error(f"{os.fspath(path)}: not written: no step has ended; call step")
        tokens = {ids.size for ids in self._ids}
        if len(set(self._sizes)) > 1 or len(tokens) > 1 or self._micro:
            raise Error(f"{os.fspath(path)}: not written: a trace has as many micro-batches in each step, of as many tokens; these are {self._sizes} "
                        f"(and {self._micro} of no step) of {sorted(tokens)} tokens")
        config = self._config | {"steps": len(self._rates), "micro_batches": self._sizes[0], "tokens": tokens.pop() if tokens else 0}
        numbers = {"rate": np.array(self._rates), "ids": np.concatenate(self._ids)}
        _safetensors.write(path, {"format": "scape-trace", "version": "1", "source": self._source, "config": json.dumps(config)}, numbers | self._vectors)

    def _keep(self, known: set[str], vectors: Mapping[str, Any]) -> None:
        for name, values in vectors.items():
            if name.split(".")[0] not in known:
                raise Error(f"Recorder: there is no {name.split('.')[0]!r} here; there are {', '.join(sorted(known))}")
            if values is not None:
                self._vectors[f"step/{len(self._rates) + 1:04}/{name}"] = _floats(values)


def _floats(values: Any) -> Any:
    """A copy, since the recorded values may change."""
    if hasattr(values, "detach"):
        values = _values.as_fp32(values, "Recorder").detach().cpu().numpy()
    if isinstance(values, np.ndarray) and values.dtype not in (np.float32, np.float16) and values.dtype.kind not in "biu":
        raise Error(f"Recorder: an array is {values.dtype}, and fp32 does not hold all of its values; give float32")
    return np.array(values, np.float32).reshape(-1)
