"""What optimizers over one flat vector share: a model's param groups as names, ranges and pieces."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _values
from ._errors import Error
from ._values import Floats


def tensor_names(groups: list[dict[str, Any]], count: int) -> list[str]:
    named = [name for group in groups for name in group.get("param_names", [])]
    return named or [f"parameter{i}" for i in range(count)]


def ranges(parameters: list[torch.Tensor]) -> list[tuple[int, int]]:
    ends = [0]
    for parameter in parameters:
        ends.append(ends[-1] + parameter.numel())
    return list(zip(ends, ends[1:]))


def gradient(name: str, parameter: torch.Tensor) -> Any:
    """The gradient in the form of libtruestep; zeros if there is none."""
    if parameter.grad is None:
        return _values.zeros(parameter.numel())
    _values.check_memory(parameter.grad, f"the gradient of {name}")
    return parameter.grad.contiguous()


def learning_rate(groups: list[dict[str, Any]]) -> float:
    rates = {_values.rate(group["lr"]) for group in groups}
    if len(rates) != 1:
        raise Error(f"the param groups have the learning rates {sorted(rates)}; a step has one, give all groups the same")
    return rates.pop()


def settings(groups: list[dict[str, Any]], keys: tuple[str, ...], apart: str) -> dict[str, Any]:
    """The settings that all param groups share; lr and schedulers' values are separate."""
    of_groups = [{key: tuple(group[key]) if isinstance(group[key], list) else group[key] for key in keys} for group in groups]
    for other in of_groups[1:]:
        if other != of_groups[0]:
            raise Error(f"the param groups have the settings {of_groups[0]} and {other}; give all groups the same{apart}")
    return of_groups[0]


def check_parameter(name: str, parameter: torch.Tensor, who: str) -> None:
    _values.check_memory(parameter, name)
    if parameter.device.type != "cpu":
        raise Error(f"{name} is on {parameter.device}; truestep.torch.{who} steps on the CPU: keep the parameters there")
    if parameter.dtype not in (torch.float32, torch.bfloat16):
        raise Error(f"{name} is {parameter.dtype}; {who}'s parameters are torch.float32, or torch.bfloat16 beside fp32 masters")


def memory(parameter: torch.Tensor) -> tuple[int, int]:
    """Address and version of a tensor's memory: one changes with every write except through .data."""
    return parameter.data_ptr(), parameter._version


def same_bits(parameter: torch.Tensor, master: torch.Tensor) -> bool:
    """Whether a parameter equals its master, rounded if it is bf16."""
    bits = {torch.float32: torch.int32, torch.bfloat16: torch.int16}.get(parameter.dtype)
    return bits is not None and torch.equal(parameter.view(bits), master.to(parameter.dtype).view(bits))


def one_vector(tensors: list[Any], parameters: list[torch.Tensor]) -> Floats:
    """One fp32 vector with a copy of all tensors; None is zeros."""
    parts = [torch.zeros(p.numel(), device="cpu") if t is None else _values.as_fp32(t, f"tensor {i} of the model").detach().cpu().reshape(-1)
             for i, (t, p) in enumerate(zip(tensors, parameters))]
    return torch.cat(parts).numpy().copy()


def parts_of(state_dict: dict[str, Any], parameters: list[torch.Tensor], system: str, lacks: Callable[[dict[str, Any], torch.Tensor], bool],
             workers: int, rank: int) -> list[dict[str, Any]]:
    """Each parameter's part of this rank's state. `lacks`: whether a part is incomplete."""
    keys = [key for group in state_dict["param_groups"] for key in group["params"]]  # numbers, or names where PyTorch's set_state_dict() calls
    parts = [state_dict.get("state", {}).get(key) for key in keys]
    for i, (part, parameter) in enumerate(zip(parts, parameters)):
        if part is None or lacks(part, parameter):
            raise Error(f"load_state_dict: parameter {i} has no state of {system} of {parameter.numel()} values; "
                        "give a state_dict() of the same model")
    for part in parts:
        saved = part.get("workers", workers), part.get("rank", rank)  # older ones have neither
        if saved != (workers, rank):
            raise Error(f"load_state_dict: it is of rank {saved[1]} of {saved[0]}, and this is rank {rank} of {workers}; each rank loads "
                        "what it saved; for another number of ranks: optimizer.native.save(folder) and .load(checkpoint)")
    return parts


def while_it_lives(method: Callable[[], None]) -> Callable[[], None]:
    """Calls the method of an object, which it does not keep alive."""
    held = weakref.WeakMethod(method)

    def call() -> None:
        living = held()
        if living is not None:
            living()
    return call


class FlatOptimizer(torch.optim.Optimizer):
    """Steps a whole model as one vector through libtruestep. Its groups share one lr, which may change,
    and settings, which may not."""

    _settings: tuple[str, ...]  # of a param group
    _apart: str  # what may differ between groups, beside lr
    _why_whole: str  # no parameter may be added
    _native: Any = None

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        self._all = [parameter for group in self.param_groups for parameter in group["params"]]
        self._names = tensor_names(self.param_groups, len(self._all))
        self._ranges = ranges(self._all)
        self._made_with = self._settings_of(self.param_groups)
        for name, parameter in zip(self._names, self._all):
            check_parameter(name, parameter, type(self).__name__)
            if not parameter.requires_grad:
                raise Error(f"{name} does not require a gradient, and would only decay; give the parameters that do")
        for group in self.param_groups:
            _values.rate(group["lr"])
        self._show_no_state()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused once the optimizer is made."""
        if self._native is not None:
            raise Error(f"add_param_group: {self._why_whole}; make a new optimizer with all parameters")
        super().add_param_group(_named(param_group))

    def __getstate__(self) -> Any:
        raise Error(f"a {type(self).__name__} can be neither copied nor pickled, because its state is libtruestep's; make another one and "
                    "give it this one's state_dict()")

    def _settings_of(self, groups: list[dict[str, Any]]) -> dict[str, Any]:
        return settings(groups, self._settings, self._apart)

    def _loss_of(self, closure: Callable[[], Any] | None) -> Any:
        """The loss of the closure, with which step() begins."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._settings_of(self.param_groups) != self._made_with:
            raise Error("a param group's settings have changed since the optimizer was made; only lr may: make a new optimizer")
        return loss

    def _gradients(self) -> list[Any]:
        return [gradient(name, parameter) for name, parameter in zip(self._names, self._all)]

    def _check_groups(self, groups: list[dict[str, Any]], *more: str) -> None:
        """Checks that the groups of a state_dict are this optimizer's, lr apart."""
        missing = [key for group in groups for key in (*self._settings, "lr", *more, "params") if key not in group]
        if missing or not groups:
            raise Error(f"load_state_dict: its param groups have no {missing[0] if missing else 'entry'}, so they are another optimizer's; "
                        f"give a state_dict() of truestep.torch.{type(self).__name__}")
        if self._settings_of(groups) != self._made_with:
            raise Error("load_state_dict: it was saved with other settings than this optimizer was made with; make it with those")
        for key, told in (("params", "parameters"), *((key, key) for key in more)):
            saved, mine = ([len(group[key]) if key == "params" else group[key] for group in some] for some in (groups, self.param_groups))
            if saved != mine:
                raise Error(f"load_state_dict: its param groups have {saved} {told}, and this optimizer's {mine}; make it with those")

    def _state_dict_of(self, state: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """A state_dict as of any optimizer, with each parameter's state, which is otherwise stored flat."""
        for parameter, held in zip(self._all, state):
            self.state[parameter] = held
        try:
            return super().state_dict()
        finally:
            self._show_no_state()

    def _show_no_state(self) -> None:
        """An empty entry for each parameter. Where there is none, PyTorch's get_state_dict() and set_state_dict() take a step to make some."""
        self.state.update({parameter: {} for parameter in self._all})

    def _with_own(self, state_dict: dict[str, Any], *keys: str) -> dict[str, Any]:
        """A state_dict with this optimizer's settings where they change nothing in a state."""
        own = {key: self._made_with[key] for key in keys}
        return {**state_dict, "param_groups": [group | own for group in state_dict.get("param_groups", [])]}


def _named(group: dict[str, Any]) -> dict[str, Any]:
    """Pairs of a name and a parameter, as PyTorch 2.6 and newer know them, for older versions."""
    params = group.get("params")
    if params is None or isinstance(params, (torch.Tensor, set)):
        return group
    entries = list(params)
    if not entries or not all(isinstance(entry, tuple) for entry in entries):
        return group | {"params": entries}
    return group | {"params": [parameter for _, parameter in entries], "param_names": [name for name, _ in entries]}
