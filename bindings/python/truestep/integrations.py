"""Records what the training loops of others do, as traces that ``truestep verify`` takes: torchft's DiLoCo, and SGD under DeepSpeed's ZeRO.

Both are rounds of GASLoC: DiLoCo is the one in which all meet with the momentum on what they share, and data parallelism with SGD is that of
one inner step. Rank 0 gathers all ranks' vectors in memory: for a few steps of a small model."""

import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist

from . import gasloc
from ._errors import Error
from ._torch_hooks import around_steps


class _Rounds:
    """Rounds of this rank until they are written: gradients of the inner steps, then what the round left."""

    def __init__(self, named: Iterable[tuple[str, torch.Tensor]], source: str, group: Any, **settings: Any) -> None:
        self._named = [(name, p) for name, p in named if p.requires_grad]
        self._group, self._source, self._settings = group, source, settings
        self._start = self._flat([p for _, p in self._named])
        self._rounds: list[tuple[list[float], list[torch.Tensor], dict[str, torch.Tensor]]] = []
        self._rates: list[float] = []
        self._gradients: list[torch.Tensor] = []

    def _flat(self, tensors: list[Any]) -> torch.Tensor:
        values = [torch.zeros(p.numel()) if t is None else t.detach().float().cpu().reshape(-1) for t, (_, p) in zip(tensors, self._named)]
        return torch.cat(values).clone()

    def _inner(self, rate: float, gradients: list[Any]) -> None:
        self._rates.append(rate)
        self._gradients.append(self._flat(gradients))

    def _end(self, **results: list[Any]) -> None:
        self._rounds.append((self._rates, self._gradients, {name: self._flat(tensors) for name, tensors in results.items()}))
        self._rates, self._gradients = [], []

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace on rank 0. Call it on all ranks."""
        ranks = dist.get_world_size(self._group) if dist.is_initialized() else 1
        everyone: list[Any] = [(self._start, self._rounds)] * ranks
        if ranks > 1:
            dist.all_gather_object(everyone, (self._start, self._rounds), group=self._group)
        if dist.is_initialized() and dist.get_rank(self._group) != 0:
            return
        for rank, (start, rounds) in enumerate(everyone):
            if not torch.equal(start, self._start) or len(rounds) != len(self._rounds):
                raise Error(f"integrations: rank {rank} begins with other parameters than rank 0 or has another number of rounds; ranks begin alike")
        problem = gasloc.Problem([(name, p.numel()) for name, p in self._named], ranks, law="complete", alpha=1.0, momentum="gossiped", **self._settings)
        recorder = gasloc.Recorder(problem, self._start, self._source)
        for number, (rates, _, results) in enumerate(self._rounds):
            recorder.round(rates, [rounds[number][1] for _, rounds in everyone],
                           **{name: [rounds[number][2][name] for _, rounds in everyone] for name in results})
        recorder.write(path)


def _rule(optimizer: torch.optim.Optimizer, what: str) -> dict[str, Any]:
    """The settings of GASLoC's inner optimizer that this one claims."""
    first = optimizer.param_groups[0]
    for key in ("lr", "weight_decay", "betas", "eps"):
        if any(settings.get(key) != first.get(key) for settings in optimizer.param_groups):
            raise Error(f"integrations: the param groups of the {what} optimizer differ in {key}; give it one group")
    plain = not any(first.get(key) for key in ("momentum", "weight_decay", "maximize", "nesterov"))
    if type(optimizer).__name__ == "SGD" and plain:
        return {"inner": "sgd", "weight_decay": 0.0}
    if type(optimizer).__name__ == "AdamW" and not first.get("amsgrad") and not first.get("maximize"):
        return {"inner": "adamw", "beta1": first["betas"][0], "beta2": first["betas"][1], "epsilon": first["eps"], "weight_decay": first["weight_decay"]}
    raise Error(f"integrations: the {what} optimizer is {type(optimizer).__name__}; give torch.optim.SGD without momentum and decay"
                f"{', or torch.optim.AdamW without amsgrad' if what == 'inner' else ''}")


class DiLoCo(_Rounds):
    """Of a model in one fragment that torchft.local_sgd.DiLoCo (without delay, mixing and quantization) or a loop like it trains:

        record = truestep.integrations.DiLoCo(model, inner_optimizer, outer_optimizer, sync_every=20)
        ...                                      # train
        record.write("run.safetensors")          # on all ranks; then: truestep verify --level rel run.safetensors
    """

    def __init__(self, model: torch.nn.Module, inner: torch.optim.Optimizer, outer: torch.optim.Optimizer, sync_every: int, group: Any = None) -> None:
        settings = outer.param_groups[0]
        momentum = settings.get("momentum", 0.0)
        if type(outer).__name__ != "SGD" or settings["dampening"] or settings["weight_decay"] or settings["maximize"] or bool(momentum) != settings["nesterov"]:
            raise Error(f"integrations: the outer optimizer is {type(outer).__name__} {settings}; give torch.optim.SGD, with nesterov=True if it has momentum")
        self._optimizer, self._every = inner, sync_every
        super().__init__(model.named_parameters(), "DiLoCo", group, eta=settings["lr"], gamma=momentum, **_rule(inner, "inner"))
        self._unhook = around_steps(inner, self._before, lambda *_: None)

    def _before(self, *_: Any) -> None:
        self._close_round()
        self._inner(self._optimizer.param_groups[0]["lr"], [p.grad for _, p in self._named])

    def _close_round(self) -> None:
        """Looks at a round when the next one begins: the outer step comes within or after the last inner one."""
        if len(self._rates) < self._every:
            return
        state = self._optimizer.state
        moments = {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"} if self._settings["inner"] == "adamw" else {}
        self._end(parameters=[p for _, p in self._named], **{name: [state[p].get(key) for _, p in self._named] for name, key in moments.items()})

    def write(self, path: str | os.PathLike[str]) -> None:
        self._unhook()
        self._close_round()
        super().write(path)


class DeepSpeed(_Rounds):
    """Of an engine of deepspeed.initialize() with ZeRO 0, 1 or 2 in fp32, whose optimizer is torch.optim.SGD, or claims to be (``rule="sgd"``):

        record = truestep.integrations.DeepSpeed(engine)
        ...                                      # engine.backward(loss), engine.step()
        record.write("run.safetensors")          # on all ranks; then: truestep verify --level rel run.safetensors

    Each rank's own gradients are taken as backward makes them, before ZeRO reduces them; parameters by safe_get_full_fp32_param.
    """

    def __init__(self, engine: Any, rule: str = "") -> None:
        if engine.zero_optimization_stage() > 2:
            raise Error(f"integrations: the engine is at ZeRO stage {engine.zero_optimization_stage()}; stages 0 to 2 have been tried")
        if engine.gradient_clipping() > 0:
            raise Error(f"integrations: the engine clips gradients to the norm {engine.gradient_clipping()} (some releases do by default); give "
                        '"gradient_clipping": 0.0 in its config')
        basic = engine.basic_optimizer
        if (_rule(basic, "engine's")["inner"] if not rule else rule) != "sgd":
            raise Error(f"integrations: the engine's optimizer is {type(basic).__name__}; give torch.optim.SGD without momentum and decay")
        super().__init__(engine.module.named_parameters(), f"DeepSpeed {type(basic).__name__}", engine.data_parallel_group, inner="sgd", weight_decay=0.0,
                         eta=1.0, gamma=0.0)
        self._engine, self._inside, self._own = engine, engine.step, dict[str, torch.Tensor]()
        self._hooks = [p.register_hook(lambda g, name=name: self._take(name, g)) for name, p in self._named]  # type: ignore[no-untyped-call]
        engine.step = self._step

    def _take(self, name: str, gradient: torch.Tensor) -> None:
        self._own[name] = self._own[name] + gradient if name in self._own else gradient.clone()

    def _step(self, *arguments: Any, **options: Any) -> Any:
        from deepspeed.utils import safe_get_full_fp32_param  # type: ignore[import-not-found]
        last, rate = self._engine.is_gradient_accumulation_boundary(), self._engine.get_lr()[0]
        result = self._inside(*arguments, **options)
        if last:
            self._inner(rate, [self._own.get(name) for name, _ in self._named])
            self._own.clear()
            whole = [safe_get_full_fp32_param(p) if hasattr(p, "_hp_mapping") else p for _, p in self._named]
            self._end(parameters=whole)
        return result

    def write(self, path: str | os.PathLike[str]) -> None:
        self._engine.step = self._inside
        for hook in self._hooks:
            hook.remove()
        super().write(path)
