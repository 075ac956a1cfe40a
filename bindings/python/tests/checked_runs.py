"""Trainings of torch.optim under truestep.torch.checking, over gloo. Started by test_checking.py, a process a rank:

    checked_runs.py RANK SIZE FOLDER WHAT

WHAT: "SEED:COUNT" draws so many runs that are right: rules, settings, groups, schedules, micro-batches, clipping, a scaler. The rest are runs behind
DistributedDataParallel with a bug of 2025 or 2026: "sgd" (Muon that is plain SGD), "micro" (Muon once a micro-batch), "ndim" (rules dealt by the
dimensions of what a framework holds flat), "lost" (of a tensor that is used twice a contribution of rank 1 is lost), and "drift" (rank 1's parameters
drift), "stale" (no zero_grad), "unclipped" (a claim of clipping, and none). "uneven" is right: ranks have different numbers of micro-batches.
"""

import contextlib
import math
import random
import sys
import tempfile
from typing import Any

import needs
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import truestep
import truestep.torch

STEPS = 4


class Twice(torch.nn.Module):
    """Uses one matrix in two places."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.matrix, self.last = torch.nn.Linear(9, 9), torch.nn.Linear(9, 5)
        self.first_use: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = self.matrix.weight * 1, self.matrix.weight * 1
        one.requires_grad and one.register_hook(lambda gradient: setattr(self, "first_use", gradient.clone()))
        return self.last(torch.tanh(torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(x, one, self.matrix.bias)), other)))


def both(model: torch.nn.Module, of_matrices: Any = torch.optim.Muon, **settings: Any) -> list[torch.optim.Optimizer]:
    """Muon of the matrices, and AdamW of the rest."""
    named = list(model.named_parameters())
    return [of_matrices([(name, p) for name, p in named if p.ndim == 2], lr=0.02, **settings),
            torch.optim.AdamW([(name, p) for name, p in named if p.ndim != 2], lr=0.01)]


class PlainSgd(torch.optim.Muon):
    """Bug 1: Newton-Schulz is never called."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"])


class OnceAMicroBatch(torch.optim.Muon):
    """Bug 3: momentum and orthogonalization of each micro-batch."""

    @torch.no_grad()
    def micro_batch(self, parts: int) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                before = p.detach().clone()
                whole, state = p.grad, self.state[p]
                p.grad = whole - state.get("seen", torch.zeros_like(whole))
                state["seen"] = whole.clone()
                self._one(group, p)
                state["change"] = state.get("change", torch.zeros_like(p)) + (p - before) / parts
                p.copy_(before)
                p.grad = whole

    def _one(self, group: dict[str, Any], p: torch.Tensor) -> None:
        kept = self.param_groups
        self.param_groups = [group | {"params": [p]}]
        super().step()
        self.param_groups = kept

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                p.add_(state.pop("change"))
                state.pop("seen")


class ByDimensions(torch.optim.Optimizer):
    """Bug 4: deals by the dimensions of what it holds, which is flat."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.flat = [(p, torch.nn.Parameter(p.detach().view(-1))) for group in self.param_groups for p in group["params"]]
        matrices, rest = [f for _, f in self.flat if f.ndim == 2], [f for _, f in self.flat if f.ndim != 2]
        self.inner = ([torch.optim.Muon(matrices, lr=lr)] if matrices else []) + [torch.optim.AdamW(rest, lr=lr)]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for p, flat in self.flat:
            flat.grad = p.grad.view(-1)
        for one in self.inner:
            one.step()


def train_wrong(rank: int, what: str) -> None:
    model = Twice()
    ddp = DistributedDataParallel(model)
    parts, clip_norm, claim = 1, 0.0, None
    optimizers: list[Any] = both(model, PlainSgd if what == "sgd" else OnceAMicroBatch if what == "micro" else torch.optim.Muon)
    if what == "ndim":
        claim = truestep.torch.claim([torch.optim.Muon([("matrix.weight", model.matrix.weight), ("last.weight", model.last.weight)], lr=0.02),
                                      torch.optim.AdamW([("matrix.bias", model.matrix.bias), ("last.bias", model.last.bias)], lr=0.02)])
        optimizers = [ByDimensions(model.parameters(), 0.02)]
    if what == "lost":
        def lose(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            for p, gradient in zip(bucket.parameters(), bucket.gradients()):
                if p is model.matrix.weight and rank == 1:
                    gradient.sub_(model.first_use)
            bucket.buffer().div_(dist.get_world_size())
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])
        ddp.register_comm_hook(None, lose)
    if what == "micro":
        parts = 2
    if what == "unclipped":
        clip_norm = 0.01
    torch.manual_seed(100 + rank)
    with truestep.torch.checking(optimizers, claim=claim, clip_norm=clip_norm):
        for step in range(1, STEPS + 1):
            for optimizer in optimizers:
                if what != "stale":
                    optimizer.zero_grad()
            if what == "uneven":
                parts = 1 + (rank + step) % 2 + rank
            for part in range(parts):
                with ddp.no_sync() if what == "uneven" and part + 1 < parts else contextlib.nullcontext():
                    (ddp(torch.randn(6, 9)).square().mean() / parts).backward()
                if what == "micro":
                    optimizers[0].micro_batch(parts)
            for optimizer in optimizers:
                optimizer.step()
            if what == "drift" and step == 2 and rank == 1:
                with torch.no_grad():
                    model.last.bias[3] *= 1.5


class Drawn:
    """A run that is right, by its seed."""

    def __init__(self, seed: int, size: int, sharded: bool = False) -> None:
        self.draw, self.size, self.sharded = random.Random(seed), size, sharded
        draw = self.draw
        torch.manual_seed(seed)
        width = [draw.randint(1, 20) for _ in range(draw.randint(2, 4))]
        layers: list[torch.nn.Module] = []
        for inside, outside in zip(width, width[1:]):
            layers += [torch.nn.Linear(inside, outside, bias=draw.random() < 0.8), torch.nn.Tanh()]
            if draw.random() < 0.3:
                layers.append(torch.nn.LayerNorm(outside))
        self.model, self.inputs = torch.nn.Sequential(*layers), width[0]
        if draw.random() < 0.2:
            next(self.model.parameters()).requires_grad_(len(list(self.model.parameters())) == 1)
        if sharded:
            self._shard()
        self.optimizers = self._optimizers([(name, p) for name, p in self.model.named_parameters() if p.requires_grad])
        self.parts, self.sync = draw.choice([1, 1, 2, 3]), draw.random() < 0.5
        self.clip_norm = draw.choice([0.0, 0.0, 1e-3, 0.1, 10.0])
        self.scaler = None
        if len(self.optimizers) == 1 and draw.random() < 0.35:
            self.scaler = torch.amp.GradScaler(needs.DEVICE, init_scale=2.0 ** draw.randint(-3, 16), growth_interval=2)
        self.factor = 10.0 ** draw.randint(-6, 2)  # of the loss
        self.before, self.steps = draw.choice([0, 0, 1, 3]), draw.randint(2, 6)
        self.infinite = draw.randint(1, 4) if self.scaler is not None else None  # the scaler skips this step
        self.to_none, self.probe = draw.random() < 0.8, draw.random() < 0.2 and not sharded  # a gradient that nothing trains with
        self.schedules = [self._schedule(one) for one in self.optimizers]
        self.ddp = DistributedDataParallel(self.model) if size > 1 and not sharded else self.model

    def __str__(self) -> str:
        return (f"{self.optimizers}, {[tuple(p.shape) for p in self.model.parameters()]}, parts {self.parts}, clip_norm {self.clip_norm}, "
                f"scaler {self.scaler is not None}, factor {self.factor}, steps {self.before}+{self.steps}, {self.schedules}")

    def _shard(self) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        draw, size = self.draw, self.size
        hybrid, policy = size % 2 == 0 and draw.random() < 0.5, MixedPrecisionPolicy(*draw.choice([(None, None), (None, None), (torch.bfloat16, torch.float32)]))
        mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("copies", "shards")) if hybrid else init_device_mesh("cpu", (size,))
        for layer in [*draw.sample(list(self.model), draw.randint(0, len(self.model))), self.model]:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=draw.random() < 0.5)

    def _settings(self, kind: str) -> dict[str, Any]:
        draw = self.draw
        settings: dict[str, Any] = {"lr": 10.0 ** draw.uniform(-4, -0.5), "weight_decay": draw.choice([0.0, 0.01, 0.1, 1.0])}
        if kind == "SGD":
            settings |= {"momentum": draw.choice([0.0, 0.5, 0.9, 0.99])}
            nesterov = settings["momentum"] > 0 and draw.random() < 0.4
            settings |= {"nesterov": nesterov, "dampening": 0.0 if nesterov else draw.choice([0.0, 0.1, 1.0])}
        elif kind == "Muon":
            settings |= {"momentum": draw.choice([0.0, 0.9, 0.95]), "nesterov": draw.random() < 0.5, "ns_steps": draw.randint(1, 7),
                         "adjust_lr_fn": draw.choice([None, "original", "match_rms_adamw", "spectral_unclamped"])}
        else:
            settings |= {"betas": (draw.choice([0.0, 0.9]), draw.choice([0.5, 0.95, 0.999])), "eps": draw.choice([1e-8, 1e-6, 1e-12, 0.1])}
        return settings

    def _optimizers(self, named: list[tuple[str, torch.Tensor]]) -> list[torch.optim.Optimizer]:
        draw = self.draw
        kind = draw.choice(["SGD", "Adam", "AdamW"])
        more = {"foreach": draw.choice([None, True, False])} if draw.random() < 0.7 or (self.sharded and kind == "SGD") else {"fused": True}
        groups = [named]
        made: list[torch.optim.Optimizer] = []
        # Of a DTensor with fewer rows than ranks PyTorch's Muon stops: its add_ shards no such matrix.
        matrices = [(name, p) for name, p in named if p.ndim == 2 and (not self.sharded or len(p) >= self.size)]
        if draw.random() < 0.4 and matrices:
            made.append(torch.optim.Muon(matrices, **self._settings("Muon")))
            taken = {name for name, _ in matrices}
            groups = [[(name, p) for name, p in named if name not in taken]]
        elif draw.random() < 0.4 and len(named) > 1:
            at = draw.randint(1, len(named) - 1)
            groups = [named[:at], named[at:]]
        if groups[0]:
            made.append(getattr(torch.optim, kind)([{"params": group} | self._settings(kind) for group in groups], **more))
        return made

    def _schedule(self, optimizer: torch.optim.Optimizer) -> Any:
        of = torch.optim.lr_scheduler
        return self.draw.choice([lambda: None, lambda: of.ExponentialLR(optimizer, 0.7), lambda: of.LambdaLR(optimizer, lambda step: 0.2 * step),
                                 lambda: of.CosineAnnealingLR(optimizer, 5),
                                 lambda: of.OneCycleLR(optimizer, 0.1, total_steps=40, cycle_momentum=False)])()

    def step(self, number: int) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=self.to_none)
        for part in range(self.parts):
            apart = part + 1 < self.parts and not self.sync
            if self.sharded:
                self.model.set_requires_gradient_sync(not apart)  # type: ignore[operator]
            with self.ddp.no_sync() if apart and hasattr(self.ddp, "no_sync") else contextlib.nullcontext():
                loss = self.ddp(torch.randn(4, self.inputs)).square().sum() * self.factor / self.parts
                if number == self.infinite:
                    loss = loss * math.inf
                (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if self.probe:
            torch.autograd.grad(self.model(torch.ones(1, self.inputs)).sum(), [p for p in self.model.parameters() if p.requires_grad])
        for optimizer in self.optimizers if self.scaler is not None and (self.clip_norm or self.probe) else ():
            self.scaler.unscale_(optimizer)
        if self.clip_norm:
            torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], self.clip_norm)
        for optimizer in self.optimizers:
            optimizer.step() if self.scaler is None else self.scaler.step(optimizer)
        if self.scaler is not None:
            self.scaler.update()
        for schedule in self.schedules:
            if schedule is not None:
                schedule.step()

    def run(self, rank: int, seed: int, **options: Any) -> None:
        torch.manual_seed(1000 * seed + rank)
        for number in range(self.before):
            self.step(-number)
        one = self.optimizers[0] if len(self.optimizers) == 1 else self.optimizers
        with truestep.torch.checking(one, clip_norm=self.clip_norm, scaler=self.scaler, **options):
            for number in range(1, self.steps + 1):
                self.step(number)


def main() -> None:
    rank, size, folder, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    tempfile.tempdir = folder  # where runs that have not passed stay
    needs.on_device()
    dist.init_process_group(needs.backend(size), init_method=f"file://{folder}/store", rank=rank, world_size=size)
    status = 0
    if ":" in what:
        first, count = map(int, what.split(":"))
        unproved = 0
        for seed in range(first, first + count):
            drawn = Drawn(seed, size)
            try:
                drawn.run(rank, seed)
            except (AssertionError, truestep.Error) as error:
                if "is not proved true" in str(error):  # a rate of 0, or matrices of which Muon's rounding leaves nothing to compare
                    unproved += 1
                    continue
                print(f"seed {seed}: {drawn}\n{type(error).__name__}: {error}")
                status = 1
        if unproved > count / 2:
            print(f"{unproved} of {count} runs are not proved true, which says little of the others")
            status = 1
    else:
        try:
            train_wrong(rank, what)
        except AssertionError as error:
            print(error)
            status = 1
    dist.destroy_process_group()
    sys.exit(status)


if __name__ == "__main__":
    main()
