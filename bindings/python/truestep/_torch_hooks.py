"""Hooks around each step of an optimizer."""

import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ._errors import Error
from ._torch_sharded import spreads_state, state_on_ranks

Hook = Callable[..., None]  # of the optimizer, and the arguments of its step


def checked_on_error(on_error: str, who: str) -> str:
    if on_error not in ("raise", "warn"):
        raise Error(f"{who}: on_error is {on_error!r}; give 'raise', which ends the training, or 'warn', which ends the recording")
    return on_error


def until_failure(fail: Callable[[Exception], None], *hooks: Hook) -> list[Hook]:
    """Passes the first error of a hook to `fail`; later steps skip the hooks. They stay registered, since
    PyTorch iterates over its hooks while it calls them."""
    going = [True]

    def guarded(hook: Hook) -> Hook:
        def call(*arguments: Any) -> None:
            try:
                if going[0]:
                    hook(*arguments)
            except Exception as error:  # noqa: BLE001 - a recorder must not end the training that it looks at
                going[0] = False
                fail(error)
        return call
    return [guarded(hook) for hook in hooks]


def _or_refuse(native: Any, before: Hook) -> Hook:
    """For a truestep.torch.Scape: an error of this rank's hook before the step ends the step on all ranks,
    which would otherwise wait for this one."""
    def call(optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        with native.or_refuse():
            before(optimizer, arguments, options)
    return call


def _of_the_outermost(hook: Hook) -> Hook:
    """PyTorch calls the hooks in each class's step(), so twice where a subclass's calls its base's."""
    def call(optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        frame: Any = sys._getframe(1)
        step = frame.f_code
        while (frame := frame.f_back) is not None:
            if frame.f_code is step and frame.f_locals.get("self") is optimizer:
                return
        hook(optimizer, arguments, options)
    return call


class Together:
    """Optimizers that step together, such as Muon for matrices and AdamW for the rest, as one: its step
    begins with the first one's and ends when all have stepped."""

    def __init__(self, optimizers: Sequence[Any]) -> None:
        self.optimizers = list(optimizers)
        self.name = " and ".join(type(one).__name__ for one in self.optimizers)
        self._stepped: list[Any] = []

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for one in self.optimizers for group in one.param_groups]

    @property
    def state(self) -> dict[Any, Any]:
        return {parameter: state for one in self.optimizers for parameter, state in one.state.items()}

    def around(self, before: Hook, after: Hook) -> Callable[[], None]:
        def first(optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            if any(optimizer is one for one in self._stepped):
                raise Error(f"{type(optimizer).__name__} takes a second step before all of {self.name} have taken their first; step each once")
            if not self._stepped:
                before(self, arguments, options)

        def last(optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            self._stepped.append(optimizer)
            if len(self._stepped) == len(self.optimizers):
                self._stepped.clear()
                after(self, arguments, options)
        removals = [around_steps(one, first, last) for one in self.optimizers]

        def remove_all() -> None:
            for remove in removals:
                remove()
        return remove_all


def optimizers_of(optimizer: Any) -> list[Any]:
    return getattr(optimizer, "optimizers", list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer])


def around_steps(optimizer: Any, before: Hook, after: Hook) -> Callable[[], None]:
    """Uses PyTorch 2's hooks; older versions get a replacement of `step`, in this optimizer alone. The
    result removes them."""
    if isinstance(optimizer, Together):
        return optimizer.around(before, after)
    native = getattr(optimizer, "native", None)
    if hasattr(native, "or_refuse"):
        before = _or_refuse(native, before)
    if hasattr(optimizer, "register_step_pre_hook"):
        hooks = [optimizer.register_step_pre_hook(_of_the_outermost(before)), optimizer.register_step_post_hook(_of_the_outermost(after))]

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


def state_of(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], name: str, who: str) -> Iterable[Any]:
    """Each parameter's state after a step; None if it has none yet. A name that no parameter has is an
    error. So is a state that no parameter with a gradient has, since it is elsewhere (wrappers). Otherwise
    zeros would be recorded as a result."""
    if spreads_state(optimizer):
        return state_on_ranks(optimizer, parameters, name, who)
    kind, wraps = type(optimizer).__name__, isinstance(getattr(optimizer, "optim", None), torch.optim.Optimizer)
    states = [{} if wraps else optimizer.state.get(p, {}) for p in parameters]  # after it was loaded, a wrapper's own is a stale copy
    if not any(name in state for state in states):
        others = sorted({str(other) for state in states for other in state})
        if others:
            raise Error(f"{who}: state names {name!r}, which {kind} does not keep; there are {', '.join(others)}")
        if wraps or any(p.grad is not None for p in parameters):
            raise Error(f"{who}: state names {name!r}, and {kind} keeps no state of the parameters itself (it wraps another one); "
                        "record an optimizer that keeps all of it, or leave state out")
    return [state.get(name) for state in states]
