"""Gradients in buckets: param groups are exchanged while a backward pass makes the others."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from . import _torch_flat as flat_model
from ._errors import Error
from ._optimizer import Optimizer


class Buckets:
    """Buckets of one optimizer. The last group comes first, as in a backward pass. A bucket is sent when
    all its gradients and all buckets before it are complete, so that all ranks send them in the same
    order. The step sends the rest."""

    def __init__(self, groups: list[dict[str, Any]], names: list[str], native: Optimizer) -> None:
        self._native, self._names, self._silent = native, names, False
        self._parameters = [parameter for group in groups for parameter in group["params"]]
        self._buckets: list[list[int]] = []
        begin = 0
        for group in groups:
            end = begin + len(group["params"])
            if end > begin:
                self._buckets.insert(0, list(range(begin, end)))
            begin = end
        self._begin()
        self._listen()

    def _begin(self) -> None:
        """Starts empty for the next step."""
        self._next = 0
        self._awaited = [{i for i in bucket if self._parameters[i].requires_grad} for bucket in self._buckets]
        self._given: dict[int, tuple[int, int] | None] = {}

    def _listen(self) -> None:
        """Registers hooks of PyTorch 2.1 and newer. They end with this object, and do not keep it alive."""
        if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            return
        me = weakref.ref(self)

        def hook_of(number: int) -> Callable[[torch.Tensor], None]:
            def hook(_parameter: torch.Tensor) -> None:
                buckets = me()
                if buckets is not None:
                    buckets._arrived(number)
            return hook
        hooks = [parameter.register_post_accumulate_grad_hook(hook_of(i)) for i, parameter in enumerate(self._parameters)
                 if parameter.requires_grad]
        weakref.finalize(self, lambda: [hook.remove() for hook in hooks])

    @property
    def any(self) -> bool:
        return self._next > 0

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def _arrived(self, number: int) -> None:
        if self._silent:
            return
        if number in self._given:
            raise Error(f"{self._names[number]} has another gradient, and the one before has been exchanged for the step; all backward() of a "
                        "step but the last stand under optimizer.no_sync(), and optimizer.forget_parts() gives a step up, on all ranks")
        for awaited in self._awaited:
            awaited.discard(number)
        while self._next < len(self._buckets) and not self._awaited[self._next]:
            self._give()

    @torch.no_grad()
    def _give(self) -> None:
        bucket = self._buckets[self._next]
        with self._native.or_refuse(bucket=True):
            gradients = [flat_model.gradient(self._names[i], self._parameters[i]) for i in bucket]
        try:
            self._native.bucket(bucket, gradients)
        except BaseException:  # libtruestep has forgotten all parts of the step
            self._native.on_refusal()
            raise
        self._next += 1
        self._given |= {i: self._memory(i) for i in bucket}

    def _memory(self, number: int) -> tuple[int, int] | None:
        gradient = self._parameters[number].grad
        return None if gradient is None else flat_model.memory(gradient)

    def check(self) -> None:
        """Checks that gradients have not changed since their exchange."""
        for number, memory in self._given.items():
            if self._memory(number) != memory:
                raise Error(f"the gradient of {self._names[number]} has been written to since it was exchanged, in the backward pass; make the "
                            "optimizer with overlap=False (and clip by clip_norm=); what was exchanged has been given up")

    def step(self, learning_rate: float) -> None:
        """Takes the step, and sends the remaining buckets first."""
        while self._next < len(self._buckets):
            self._give()
        try:
            self._native.step_of_parts(learning_rate)
        finally:
            self._begin()

    def forget(self) -> None:
        """Forgets the buckets that were given."""
        self._begin()
