"""What the tests of one process train."""

from typing import Any

import needs
import torch


def make_model() -> torch.nn.Sequential:
    needs.on_device()
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(7, 12), torch.nn.LayerNorm(12), torch.nn.Tanh(), torch.nn.Linear(12, 3))


def backward(model: torch.nn.Module, step: int) -> None:
    torch.manual_seed(step)
    model.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(16, 7)), torch.randn(16, 3)).backward()


def flat(tensors: object) -> torch.Tensor:
    return torch.cat([tensor.detach().reshape(-1).to(torch.float32) for tensor in tensors])


def ends_of_none_and_zeros(case: Any) -> list[bytes]:
    """The parameters after a gradient of one tensor that is None, and after one of zeros, of the model and optimizer of a test."""
    ends = []
    for zeros in (False, True):
        case.setUp()
        case.train(range(1))
        backward(case.model, 1)
        weight = case.model[3].weight
        weight.grad = torch.zeros_like(weight) if zeros else None
        case.optimizer.step()
        ends.append(flat(case.model.parameters()).numpy().tobytes())
    return ends
