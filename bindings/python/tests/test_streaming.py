"""Streaming DiLoCo: fragments of a model that are synchronized in turn. Each is recorded as rounds of GASLoC; what is no such round is found."""

import contextlib
import functools
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import needs

needs.torch()
import torch  # noqa: E402

with contextlib.suppress(ImportError):
    import torch._dynamo  # noqa: F401 - which each rank would load for itself
import torch.distributed as dist  # noqa: E402
import truestep  # noqa: E402
import truestep.integrations  # noqa: E402

if not hasattr(os, "fork"):
    needs.skip("no fork")
import watched_ranks  # noqa: E402

EVERY, FIRST, STEPS = 6, (2, 4, 6), 14


def average(tensor: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(tensor)
    return tensor / dist.get_world_size()


class Fragment:
    """What torchft's DiLoCo keeps of one: the parameters that are shared, and the mean drift that is on its way."""

    def __init__(self, module: torch.nn.Module, rate: float, momentum: float) -> None:
        self.module, self.parameters = module, list(module.parameters())
        self.outer = torch.optim.SGD(self.parameters, lr=rate, momentum=momentum, nesterov=momentum > 0)
        self.shared = [p.detach().clone() for p in self.parameters]

    def send(self) -> None:
        self.drift = [average(shared - p.detach()) for shared, p in zip(self.shared, self.parameters)]

    @torch.no_grad()
    def apply(self, mixing: float) -> None:
        local = [p.clone() for p in self.parameters]
        for p, shared, drift in zip(self.parameters, self.shared, self.drift):
            p.copy_(shared)
            p.grad = drift
        self.outer.step()
        self.shared = [p.clone() for p in self.parameters]
        for p, mine in zip(self.parameters, local):
            p.lerp_(mine, mixing)


def train(rank: int, world: int, folder: str = "", delay: int = 0, mixing: float = 0.0, rate: float = 0.7, momentum: float = 0.9, late: int = 0) -> None:
    """``late``: fragment 1 is synchronized so many steps after it is due."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    fragments = [Fragment(model[i], rate, momentum) for i in (0, 2, 4)]
    inner = torch.optim.AdamW(model.parameters(), lr=0.01)
    records = [truestep.integrations.DiLoCo(one.module, inner, one.outer, EVERY, first_sync=first, mixing=mixing) for one, first in zip(fragments, FIRST)]
    torch.manual_seed(rank)
    for step in range(1, STEPS + 1):
        inner.zero_grad()
        model(torch.randn(6, 6)).square().sum().backward()
        inner.step()
        for number, (one, first) in enumerate(zip(fragments, FIRST)):
            due = step - first - (late if number == 1 else 0)
            if due >= 0 and due % EVERY == 0:
                one.send()
            if due >= delay and (due - delay) % EVERY == 0:
                one.apply(mixing)
    for number, record in enumerate(records):
        record.write(f"{folder}/fragment{number}.safetensors")


class Streaming(unittest.TestCase):
    def verdicts(self, **options: Any) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            statuses = watched_ranks.run(functools.partial(train, folder=folder, **options), 3, folder, watched=False)
            self.assertEqual(statuses, [0] * 3, "".join(path.read_text() for path in Path(folder).glob("error*")))
            return [truestep.verify(f"{folder}/fragment{number}.safetensors", level="rel") for number in range(len(FIRST))]

    def test_fragments_are_rounds(self) -> None:
        for options in ({}, {"mixing": 0.25, "rate": 1.0, "momentum": 0.0}):
            with self.subTest(options):
                for verdict in self.verdicts(**options):
                    self.assertTrue(verdict.passed, verdict.text)

    def test_a_fragment_that_is_synchronized_late_is_found(self) -> None:
        self.assertEqual([verdict.passed for verdict in self.verdicts(late=1)], [True, False, True])

    def test_a_delay_is_no_round(self) -> None:
        """The steps between sending and applying move the moments and are then dropped, which no setting of GASLoC does."""
        self.assertEqual([verdict.passed for verdict in self.verdicts(delay=1)], [False] * 3)

    def test_mixing_with_momentum_is_refused(self) -> None:
        model = torch.nn.Linear(2, 2)
        outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        with self.assertRaisesRegex(truestep.Error, "only lr=1 without momentum is a round of GASLoC"):
            truestep.integrations.DiLoCo(model, torch.optim.AdamW(model.parameters()), outer, EVERY, mixing=0.25)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
