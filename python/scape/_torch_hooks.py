"""What is called around each step of an optimizer."""

import types
from collections.abc import Callable
from typing import Any

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
