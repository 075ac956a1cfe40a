"""The model and the settings of a training."""

import ctypes
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from . import _library
from ._errors import Error


class Tensor(NamedTuple):
    """A tensor of the model. always_dense: all of it is synchronized at every step (norms, biases).
    param_group: the group with its learning rate and weight decay."""

    name: str
    size: int
    always_dense: bool = False
    param_group: int = 0


# (name, size), (name, size, always_dense), what named_parameters() of PyTorch's gives, or a param group of an optimizer of PyTorch's.
Entry = Tensor | tuple[str, int] | tuple[str, int, bool] | tuple[str, Any] | Mapping[str, Any]


def tensors_of(entries: Iterable[Entry]) -> list[Tensor]:
    """Tensors with their sizes; a parameter with fewer than two dimensions is always dense, as in
    truestep.torch.Scape."""
    def tensor(name: str, size: Any, *more: Any) -> Tensor:
        if callable(getattr(size, "numel", None)):
            return Tensor(name, size.numel(), *(more or (size.dim() < 2,)))
        return Tensor(name, size, *more)

    if not isinstance(entries, Iterable) or isinstance(entries, (str, bytes)):
        raise _no_tensors(entries)
    tensors: list[Tensor] = []
    groups = 0
    for entry in entries:
        if isinstance(entry, Mapping) and "params" in entry:
            params, dense = entry["params"], entry.get("always_dense")
            names = entry.get("param_names") or [f"parameter{len(tensors) + i}" for i in range(len(params))]
            tensors += [tensor(name, p, *([] if dense is None else [dense]))._replace(param_group=groups) for name, p in zip(names, params)]
            groups += 1 if params else 0
        elif isinstance(entry, (tuple, list)) and len(entry) in (2, 3, 4):
            tensors.append(tensor(*entry))
        else:
            raise _no_tensors(entry)
    return tensors


def _no_tensors(found: object) -> Error:
    return Error(f"Problem: where tensors belong there is {type(found).__name__}; give a list of (name, size), (name, size, always_dense), "
                 "model.named_parameters() or optimizer.param_groups")


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
    """Calls some truestep_<kind>_create that takes a model, a number of workers and settings."""
    if any(tensor.param_group for tensor in tensors):
        settings = settings | {"param_groups": [tensor.param_group for tensor in tensors]}
    entries = (_library.TensorEntry * len(tensors))(
        *(_library.TensorEntry(_library.text(name, "a tensor's name"), _library.whole(size, f"the size of {name}", 64), bool(dense))
          for name, size, dense, _ in tensors))
    return _library.Handle(kind, entries, len(tensors), workers, settings_text(settings))


def settings_text(settings: dict[str, Any]) -> bytes:
    """Settings in the form of truestep.h."""
    return _library.text(" ".join(f"{key}={_word(key, value)}" for key, value in settings.items()), "settings")


class Problem:
    """A model, a number of workers and the settings of truestep.h: beta1, beta2, epsilon, weight_decay, clip_norm,
    bias_correction, density (a number, or ("geometric", start, target, steps)), partition, threads, norm (1 or 2),
    payload ("fp32", "bf16", "e5m2", "bf16_both" or "e5m2_both"), groups (of ranks, such as [4, 4, 2]), algorithm. Of a model in parameter
    groups weight_decay may be a list, with a number for each group.

        Problem([Tensor("embed", 4096), Tensor("norm", 64, True)], workers=3, density=0.1)
        Problem(model.named_parameters(), workers=3, density=0.1)   # of PyTorch; always dense: what has fewer than two dimensions
        Problem(optimizer.param_groups, workers=3, density=0.1)         # the same, each param group with its own learning rate and weight_decay
    """

    def __init__(self, tensors: Iterable[Entry], workers: int = 1, **settings: object) -> None:
        if isinstance(tensors, Iterable) and not isinstance(tensors, (str, bytes)):
            tensors = [{**entry, "params": list(entry["params"])} if isinstance(entry, Mapping) and "params" in entry else entry
                       for entry in tensors]
            groups = [entry for entry in tensors if isinstance(entry, Mapping) and entry.get("params")]
            if groups and all("weight_decay" in group for group in groups):
                settings.setdefault("weight_decay", [float(group["weight_decay"]) for group in groups])
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
