"""Gradients that the step may consume: a backward pass makes them in the optimizer's own memory."""

from typing import Any

import torch

from ._optimizer import Optimizer


class GradientRoom:
    """The gradients of one optimizer's fp32 parameters are in its memory; others have their own memory, as
    usual."""

    def __init__(self, parameters: list[torch.Tensor], ranges: list[tuple[int, int]], native: Optimizer) -> None:
        self._parameters, self._ranges, self._native = parameters, ranges, native

    @torch.no_grad()
    def hand_out(self) -> None:
        """Sets gradients to zeros, to which a backward pass adds."""
        room = torch.from_numpy(self._native.gradient)
        room.zero_()
        for parameter, (begin, end) in zip(self._parameters, self._ranges):
            if parameter.requires_grad and parameter.dtype == torch.float32:
                parameter.grad = room[begin:end].view(parameter.shape)

    def step(self, gradients: list[Any], learning_rate: float) -> None:
        """Steps with gradients in this memory and elsewhere. They are consumed even if the step fails."""
        try:
            self._native.step_using_up(gradients, learning_rate)
        finally:
            self.clear()

    def clear(self) -> None:
        """Removes all gradients, here and elsewhere."""
        for parameter in self._parameters:
            parameter.grad = None
