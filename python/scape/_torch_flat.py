"""What optimizers over one flat vector have in common: a model's param groups as names, ranges and pieces."""

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
    """As libscape takes it; where there is none, zeros."""
    if parameter.grad is None:
        return _values.zeros(parameter.numel())
    if parameter.grad.layout != torch.strided:
        raise Error(f"the gradient of {name} is sparse; give dense ones (torch.nn.Embedding(..., sparse=False))")
    return parameter.grad.contiguous()


def learning_rate(groups: list[dict[str, Any]]) -> float:
    rates = {float(group["lr"]) for group in groups}
    if len(rates) != 1:
        raise Error(f"the param groups have the learning rates {sorted(rates)}; a step has one, give all groups the same")
    return rates.pop()


def settings(groups: list[dict[str, Any]], keys: tuple[str, ...], apart: str) -> dict[str, Any]:
    """What all param groups have alike; lr and what schedulers keep stand beside it."""
    of_groups = [{key: tuple(group[key]) if isinstance(group[key], list) else group[key] for key in keys} for group in groups]
    for other in of_groups[1:]:
        if other != of_groups[0]:
            raise Error(f"the param groups have the settings {of_groups[0]} and {other}; give all groups the same{apart}")
    return of_groups[0]


def check_parameter(name: str, parameter: torch.Tensor, who: str) -> None:
    if parameter.device.type != "cpu":
        raise Error(f"{name} is on {parameter.device}; scape.torch.{who} steps on the CPU: keep the parameters there")
    if parameter.dtype not in (torch.float32, torch.bfloat16):
        raise Error(f"{name} is {parameter.dtype}; {who}'s parameters are torch.float32, or torch.bfloat16 beside fp32 masters")


def memory(parameter: torch.Tensor) -> tuple[int, int]:
    """Another one after what writes to it, but through .data."""
    return parameter.data_ptr(), parameter._version


def same_bits(parameter: torch.Tensor, master: torch.Tensor) -> bool:
    """Is it its master, rounded where it is bf16?"""
    bits = {torch.float32: torch.int32, torch.bfloat16: torch.int16}.get(parameter.dtype)
    return bits is not None and torch.equal(parameter.view(bits), master.to(parameter.dtype).view(bits))


def one_vector(tensors: list[Any], parameters: list[torch.Tensor]) -> Floats:
    """A copy of all in fp32; None is zeros."""
    parts = [torch.zeros(p.numel()) if t is None else t.detach().to("cpu", torch.float32).reshape(-1) for t, p in zip(tensors, parameters)]
    return torch.cat(parts).numpy().copy()
