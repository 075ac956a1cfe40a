"""Gradients that the step may use up: a backward pass makes them where the optimizer has room for one."""

from typing import Any

import torch

from ._optimizer import Optimizer


class GradientRoom:
    """Of one optimizer. The gradients of fp32 parameters stand there; others have memory of their own, as ever."""

    def __init__(self, parameters: list[torch.Tensor], ranges: list[tuple[int, int]], native: Optimizer) -> None:
        self._parameters, self._ranges, self._native = parameters, ranges, native

    @torch.no_grad()
    def hand_out(self) -> None:
        """Zeros, to which a backward pass adds."""
        room = torch.from_numpy(self._native.gradient)
        room.zero_()
        for parameter, (begin, end) in zip(self._parameters, self._ranges):
            if parameter.requires_grad and parameter.dtype == torch.float32:
                parameter.grad = room[begin:end].view(parameter.shape)

    def step(self, gradients: list[Any], learning_rate: float) -> None:
        """Of what stands there, and of what a backward pass has made elsewhere. It is used up, whatever comes of the step."""
        try:
            self._native.step_using_up(gradients, learning_rate)
        finally:
            self.clear()

    def clear(self) -> None:
        """No gradient stands there any more, nor elsewhere."""
        for parameter in self._parameters:
            parameter.grad = None
