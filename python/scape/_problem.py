"""What is being trained."""

import ctypes
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _library
from ._errors import Error


class Tensor(NamedTuple):
    """A tensor of the model; always_dense: all of it is synchronized at every step (norms, biases)."""

    name: str
    size: int
    always_dense: bool = False


# (name, size), (name, size, always_dense), or what named_parameters() of PyTorch's gives.
Entry = Tensor | tuple[str, int] | tuple[str, int, bool] | tuple[str, Any]


def tensors_of(entries: Iterable[Entry]) -> list[Tensor]:
    """Of a parameter its size, always dense with fewer than two dimensions, as scape.torch.Scape has it."""
    def tensor(name: str, size: Any, *dense: bool) -> Tensor:
        if callable(getattr(size, "numel", None)):
            return Tensor(name, size.numel(), *(dense or (size.dim() < 2,)))
        return Tensor(name, size, *dense)

    return [tensor(*entry) for entry in entries]


def _word(key: str, value: object) -> str:
    if isinstance(value, tuple):
        return ":".join(_word(key, part) for part in value)
    if isinstance(value, list):
        return ",".join(_word(key, part) for part in value)
    word = repr(value) if isinstance(value, float) else str(value)
    if not word or any(letter.isspace() for letter in word):
        raise Error(f"settings: {key} is {value!r}; give one word or number")
    return word


def handle_of(kind: str, tensors: list[Tensor], workers: int, settings: dict[str, Any]) -> _library.Handle:
    """Of some scape_<kind>_create that takes a model, a number of workers and settings."""
    entries = (_library.TensorEntry * len(tensors))(
        *(_library.TensorEntry(_library.text(name, "a tensor's name"), _library.whole(size, f"the size of {name}", 64), bool(dense))
          for name, size, dense in tensors))
    return _library.Handle(kind, entries, len(tensors), workers, settings_text(settings))


def settings_text(settings: dict[str, Any]) -> bytes:
    """As scape.h wants them."""
    return _library.text(" ".join(f"{key}={_word(key, value)}" for key, value in settings.items()), "settings")


class Problem:
    """A model, a number of workers and the settings of scape.h: beta1, beta2, epsilon, weight_decay, clip_norm,
    bias_correction, density (a number, or ("geometric", start, target, steps)), partition, threads, norm (1 or 2),
    payload ("fp32", "bf16", "e5m2", "bf16_both" or "e5m2_both"), groups (of ranks, such as [4, 4, 2]), algorithm.

        Problem([Tensor("embed", 4096), Tensor("norm", 64, True)], workers=3, density=0.1)
        Problem(model.named_parameters(), workers=3, density=0.1)   # of PyTorch; always dense: what has fewer than two dimensions
    """

    def __init__(self, tensors: Iterable[Entry], workers: int = 1, **settings: object) -> None:
        self.tensors = tensors_of(tensors)
        self.workers = _library.whole(workers, "workers")
        self.settings = settings
        self._handle = handle_of("problem", self.tensors, self.workers, settings)
        self.size = _library.ask("problem_size", self._handle.pointer)

    def density(self, step: int) -> float:
        """The share of each segment that the mask used at this step selects; steps are counted from 1."""
        value = ctypes.c_double()
        _library.call("problem_density", self._handle.pointer, _library.whole(step, "step", 64), ctypes.byref(value))
        return value.value
