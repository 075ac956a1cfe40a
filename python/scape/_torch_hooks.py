"""What is called around each step of an optimizer."""

import types
from collections.abc import Callable
from typing import Any

import torch

from ._errors import Error

Hook = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


def around_steps(optimizer: Any, before: Hook, after: Hook) -> Callable[[], None]:
    """PyTorch 2's hooks; for those before, `step` itself is taken the place of, in this optimizer alone. What is returned takes them away."""
    if hasattr(optimizer, "register_step_pre_hook"):
        hooks = [optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)]

        def unhook() -> None:
            for hook in hooks:
                hook.remove()
        return unhook
    inside, heard = optimizer.step, [True]

    def step(self: Any, *arguments: Any, **options: Any) -> Any:
        if not heard[0]:
            return inside(*arguments, **options)
        before(self, (self, *arguments), options)
        result = inside(*arguments, **options)
        after(self, (self, *arguments), options)
        return result

    def remove() -> None:  # a scheduler may have put its own around it by then
        heard[0] = False
    optimizer.step = types.MethodType(step, optimizer)
    return remove


def state_of(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], name: str, who: str) -> list[Any]:
    """Each parameter's; None where it has none yet. A name that none of them has is a slip, whose zeros would be taken for a result."""
    if not any(name in optimizer.state[p] for p in parameters):
        others = sorted({str(other) for p in parameters for other in optimizer.state[p]})
        if others:
            raise Error(f"{who}: state names {name!r}, which {type(optimizer).__name__} does not keep; there are {', '.join(others)}")
    return [optimizer.state[p].get(name) for p in parameters]
