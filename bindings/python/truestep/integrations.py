"""Records what the training loops of others do, as traces that ``truestep verify`` takes: torchft's DiLoCo,
DeepSpeed's ZeRO, Megatron Core's optimizers and torchtitan's trainer.

DiLoCo is the round of GASLoC in which all meet with the momentum on what they share; the others are dense training. Rank 0 gathers all ranks'
vectors in memory: for a few steps of a small model."""

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist

from . import _torch_sharded, gasloc
from ._errors import Error
from ._torch_claim import Claim
from ._torch_held import Gathered
from ._torch_hooks import around_steps


class _Rounds:
    """Rounds of this rank until they are written: gradients of the inner steps, then what the round left."""

    def __init__(self, named: Iterable[tuple[str, torch.Tensor]], source: str, group: Any, **settings: Any) -> None:
        self._named = [(name, p) for name, p in named if p.requires_grad]
        self._group, self._source, self._settings = group, source, settings
        self._settings.setdefault("alpha", 1.0)
        self._start = self._flat([p for _, p in self._named])
        self._rounds: list[tuple[list[float], list[torch.Tensor], dict[str, torch.Tensor]]] = []
        self._rates: list[float] = []
        self._gradients: list[torch.Tensor] = []

    def _flat(self, tensors: list[Any]) -> torch.Tensor:
        values = [torch.zeros(p.numel(), device="cpu") if t is None else t.detach().float().cpu().reshape(-1) for t, (_, p) in zip(tensors, self._named)]
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
        problem = gasloc.Problem([(name, p.numel()) for name, p in self._named], ranks, law="complete", momentum="gossiped", **self._settings)
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

    Of Streaming DiLoCo each fragment is a run of its own: give one such object the fragment's module and outer optimizer, and ``first_sync``, the number
    of the step after which it is first synchronized. ``mixing``: the share of the local parameters that stays, of an outer SGD with lr=1 alone.
    """

    def __init__(self, model: torch.nn.Module, inner: torch.optim.Optimizer, outer: torch.optim.Optimizer, sync_every: int, group: Any = None, *,
                 first_sync: int | None = None, mixing: float = 0.0) -> None:
        settings = outer.param_groups[0]
        momentum = settings.get("momentum", 0.0)
        if type(outer).__name__ != "SGD" or settings["dampening"] or settings["weight_decay"] or settings["maximize"] or bool(momentum) != settings["nesterov"]:
            raise Error(f"integrations: the outer optimizer is {type(outer).__name__} {settings}; give torch.optim.SGD, with nesterov=True if it has momentum")
        if sync_every < 1 or (first_sync is not None and first_sync < 1):
            raise Error(f"integrations: sync_every is {sync_every} and first_sync {first_sync}; steps are counted from 1")
        if not 0 <= mixing <= 1 or (mixing and (momentum or settings["lr"] != 1)):
            raise Error(f"integrations: mixing is {mixing} and the outer optimizer SGD with lr={settings['lr']} and momentum={momentum}; mixing is from 0 to 1, "
                        "and above 0 only lr=1 without momentum is a round of GASLoC: others measure the drift from parameters that no rank trains")
        self._optimizer, self._every = inner, sync_every
        self._wanted = sync_every if first_sync is None else first_sync
        super().__init__(model.named_parameters(), "DiLoCo", group, alpha=1.0 - mixing, eta=settings["lr"], gamma=momentum, **_rule(inner, "inner"))
        self._unhook = around_steps(inner, self._before, lambda *_: None)

    def _before(self, *_: Any) -> None:
        self._close_round()
        self._inner(self._optimizer.param_groups[0]["lr"], [p.grad for _, p in self._named])

    def _close_round(self) -> None:
        """Looks at a round when the next one begins: the outer step comes within or after the last inner one."""
        if len(self._rates) < self._wanted:
            return
        self._wanted = self._every
        state = self._optimizer.state
        moments = {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"} if self._settings["inner"] == "adamw" else {}
        self._end(parameters=[p for _, p in self._named], **{name: [state[p].get(key) for _, p in self._named] for name, key in moments.items()})

    def write(self, path: str | os.PathLike[str]) -> None:
        self._unhook()
        self._close_round()
        super().write(path)


def _key(moment: str, group: dict[str, Any]) -> str | None:
    """Where an optimizer keeps a moment, if the group's rule has one."""
    if group["rule"] in ("adam", "adamw"):
        return "exp_avg" if moment == "first_moment" else "exp_avg_sq"
    return "momentum_buffer" if moment == "first_moment" and group["momentum"] else None


class _Steps:
    """Steps of dense training (docs/specification/dense.md) until they are written: each rank's own gradients, and whole results."""

    def __init__(self, claim: Claim, source: str, group: Any, steps: int) -> None:
        """``steps``: those that have been taken."""
        ranks = dist.get_world_size(group) if dist.is_initialized() else 1
        if not isinstance(claim, Claim):
            raise Error(f"integrations: the claim is {type(claim).__name__}; give what truestep.torch.claim() makes of the optimizers that this should equal")
        if claim.workers != ranks:
            raise Error(f"integrations: the claim has {claim.workers} workers, and {ranks} ranks train; give truestep.torch.claim(..., workers={ranks})")
        if steps:
            raise Error(f"integrations: {steps} steps have been taken; begin to record before the first one")
        self._stepped = False
        self._claim, self._parameters, self._group = claim, claim.parameters, (group or dist.group.WORLD) if ranks > 1 else None
        self._own: dict[torch.Tensor, list[torch.Tensor]] = {}  # of each micro-batch since the last step
        self._to = Gathered(claim, self._flat(self._results()["parameters"]), source, self._group, dist.get_rank(self._group) if ranks > 1 else 0,
                            None, 0, {})

    def _results(self) -> dict[str, list[Any]]:
        """What the framework holds now, of each parameter the whole."""
        raise NotImplementedError

    def _moments(self, of: Callable[[torch.Tensor, str], Any]) -> dict[str, list[Any]]:
        """The moments that the claim's rules have; `of` gives that of a parameter from the optimizer's state, by PyTorch's name."""
        results: dict[str, list[Any]] = {}
        for moment in ("first_moment", "second_moment") if self._stepped else ():  # no state is read that is not there yet
            keys = [_key(moment, self._claim.config["groups"][tensor.param_group]) for tensor in self._claim.tensors]  # type: ignore[index]
            if any(keys):
                results[moment] = [of(p, key) if key else None for p, key in zip(self._parameters, keys)]
        return results

    def _flat(self, tensors: list[Any]) -> Any:
        values = [torch.zeros(of.size, device="cpu") if t is None else t.detach().float().cpu().reshape(-1) for t, of in zip(tensors, self._claim.tensors)]
        for value, of in zip(values, self._claim.tensors):
            if value.numel() != of.size:
                raise Error(f"integrations: of {of.name} there are {value.numel()} values, and the claim has {of.size}; make the claim of the whole model")
        return torch.cat(values).numpy()

    def _take(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        self._own.setdefault(parameter, []).append(gradient.detach().clone())

    def _step(self, rates: list[float]) -> None:
        """Records a step that has been taken. ``rates``: of each group of the claim, or one for all."""
        groups = len(self._claim.config["groups"])  # type: ignore[arg-type]
        if len(rates) != groups and len(set(rates)) != 1:
            raise Error(f"integrations: there are the learning rates {rates}, and the claim has {groups} groups; claim the groups in the framework's order")
        own, self._own, self._stepped = self._own, {}, True
        parts = max(map(len, own.values()), default=1)
        given = {f"gradient.{i + 1}": [dict(enumerate(own.get(p, ()))).get(i) for p in self._parameters] for i in range(parts)}
        vectors = {name: self._flat(tensors) for name, tensors in (given | self._results()).items()}
        self._to.step((rates if len(rates) == groups else rates[:1] * groups, None, None), vectors)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace on rank 0. Call it on all ranks."""
        self._to.write(path)


class DeepSpeed(_Steps):
    """Of an engine of deepspeed.initialize() in fp32, at any ZeRO stage without offload. The claim is made before, of the same parameters:

        claim = truestep.torch.claim([torch.optim.Muon(matrices), torch.optim.AdamW(rest)], workers=2)
        engine, *_ = deepspeed.initialize(...)
        record = truestep.integrations.DeepSpeed(engine, claim)
        ...                                      # engine.backward(loss), engine.step()
        record.write("run.safetensors")          # on all ranks; then: truestep verify --level rel run.safetensors

    Each rank's own gradients are taken as backward makes them, before ZeRO reduces them; parameters and moments by DeepSpeed's safe_get_*
    functions, but for moments at stages 1 and 2: of Muon those functions misread them.
    """

    def __init__(self, engine: Any, claim: Claim) -> None:
        self._engine, self._inside, self._stage = engine, engine.step, engine.zero_optimization_stage()
        clips = claim.config["clip_norm"] if isinstance(claim, Claim) else engine.gradient_clipping()
        if engine.gradient_clipping() != clips:
            raise Error(f"integrations: the engine clips gradients to the norm {engine.gradient_clipping()} (some releases do by default), and the claim has "
                        f'{clips}; give "gradient_clipping": {clips} in its config')
        if any(p.dtype != torch.float32 for p in engine.module.parameters()):
            raise Error("integrations: the engine trains in 16 bits; give a config without bf16 and fp16, whose copies are no part of a claim")
        super().__init__(claim, f"DeepSpeed {type(engine.basic_optimizer).__name__}", engine.data_parallel_group, engine.global_steps)
        self._hooks = [p.register_hook(lambda g, p=p: self._take(p, g)) for p in self._parameters]  # type: ignore[no-untyped-call]
        engine.step = self._step_of_engine

    def _results(self) -> dict[str, list[Any]]:
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state  # type: ignore[import-not-found]
        of: Callable[[torch.Tensor, str], Any] = {0: lambda p, key: self._engine.optimizer.state.get(p, {}).get(key),
                                                  3: safe_get_full_optimizer_state}.get(self._stage, self._of_partitions)
        return {"parameters": [safe_get_full_fp32_param(p) if self._stage else p for p in self._parameters]} | self._moments(of)

    def _of_partitions(self, p: torch.Tensor, key: str) -> torch.Tensor:
        """At stages 1 and 2 a rank keeps of each group the state of its range. Of Muon it keeps whole matrices, of those that begin or end in the range."""
        zero, whole = self._engine.optimizer, torch.zeros(p.numel(), device=p.device)
        for group, owned in zip(zero.optimizer.param_groups, zero.params_in_partition):
            place = next((i for i, other in enumerate(owned) if other is p), None)
            if place is None:
                continue
            kept, mine = zero.optimizer.state[group["params"][0]][key], p._hp_mapping.lp_fragment_address  # type: ignore[attr-defined]
            begin = p._hp_mapping.hp_fragment_address.start  # type: ignore[attr-defined]
            if group.get("use_muon"):
                begin = sum(other.numel() for other in owned[:place]) + mine.start
            whole[mine.start:mine.start + mine.numel] = kept[begin:begin + mine.numel]
        dist.all_reduce(whole, group=self._engine.data_parallel_group)
        return whole

    def _step_of_engine(self, *arguments: Any, **options: Any) -> Any:
        last, rates = self._engine.is_gradient_accumulation_boundary(), self._engine.get_lr()
        result = self._inside(*arguments, **options)
        if last:
            self._step(rates)
        return result

    def write(self, path: str | os.PathLike[str]) -> None:
        self._engine.step = self._inside
        for hook in self._hooks:
            hook.remove()
        super().write(path)


class Megatron(_Steps):
    """Of megatron.core's DistributedDataParallel and an optimizer of its get_megatron_optimizer(), distributed or not, that trains in fp32:

        claim = truestep.torch.claim(torch.optim.AdamW(ddp.module.named_parameters(), lr=...))
        record = truestep.integrations.Megatron(ddp, optimizer, claim)
        ...                                      # backward(), ddp.finish_grad_sync(), optimizer.step()
        record.write("run.safetensors")          # on all ranks; then: truestep verify --level rel run.safetensors

    Each rank's own gradients are those of main_grad, all micro-batches added, before its bucket is scaled and reduced.
    """

    def __init__(self, model: Any, optimizer: Any, claim: Claim) -> None:
        self._optimizer, self._inside = optimizer, optimizer.step
        self._inner = [one for one in getattr(optimizer, "chained_optimizers", [optimizer]) if not getattr(one, "is_stub_optimizer", False)]
        clips = claim.config["clip_norm"] if isinstance(claim, Claim) else 0.0
        for one in self._inner:
            if one.config.clip_grad != clips:
                raise Error(f"integrations: the optimizer's clip_grad is {one.config.clip_grad}, and the claim has {clips}; give OptimizerConfig(clip_grad={clips})")
            if one.config.fp16 or one.config.bf16:
                raise Error("integrations: the optimizer trains in 16 bits, whose copies are no part of a claim; give a config without fp16 and bf16")
        steps = [int(of["step"]) for one in self._inner for of in [*one.optimizer.state.values(), *one.optimizer.param_groups] if "step" in of]
        if dist.is_initialized():  # a rank may own nothing that has been counted
            steps = _torch_sharded.greatest([max(steps, default=0)], [model.dp_cp_group], next(iter(model.parameters())).device)
        super().__init__(claim, f"Megatron Core {', '.join(type(one.optimizer).__name__ for one in self._inner)}", model.dp_cp_group, max(steps, default=0))
        self._groups = [(group, group.start_grad_sync) for group in model.bucket_groups + model.expert_parallel_bucket_groups]
        for group, inside in self._groups:
            group.start_grad_sync = functools.partial(self._start, group, inside)
        optimizer.step = self._step_of_optimizer

    def _start(self, group: Any, inside: Any, *arguments: Any, **options: Any) -> Any:
        for bucket in group.buckets:
            for p in bucket.params_list:
                self._own[p] = [p.main_grad.detach().clone()]
        return inside(*arguments, **options)

    def _results(self) -> dict[str, list[Any]]:
        return {"parameters": list(self._parameters)} | self._moments(self._whole)

    def _whole(self, p: torch.Tensor, key: str) -> Any:
        """Of a distributed optimizer's state each rank has some ranges, which are added."""
        for one in self._inner:
            if p in one.optimizer.state:
                return one.optimizer.state[p].get(key)
        whole = torch.zeros(p.numel(), device=p.device)
        for one in self._inner:
            if p in getattr(one, "model_param_group_index_map", ()):
                place = one._get_model_param_range_map(p)["param"]
                whole[place.start:place.end] = one._get_main_param_and_optimizer_states(p)[key].reshape(-1)
        if self._group is not None:
            dist.all_reduce(whole, group=self._group)
        return whole

    def _step_of_optimizer(self, *arguments: Any, **options: Any) -> Any:
        result = self._inside(*arguments, **options)
        if result[0]:
            self._step([group["lr"] for group in self._optimizer.param_groups])
        else:  # skipped
            self._own = {}
        return result

    def write(self, path: str | os.PathLike[str]) -> None:
        self._optimizer.step = self._inside
        for group, inside in self._groups:
            group.start_grad_sync = inside
        super().write(path)


class Torchtitan(_Steps):
    """Of a torchtitan.trainer.Trainer under FSDP or HSDP in fp32, whose optimizers and max_norm say what is claimed:

        record = truestep.integrations.Torchtitan(trainer)
        trainer.train()
        record.write("run.safetensors")          # on all ranks; then: truestep verify --level rel run.safetensors

    Each rank's own gradients are seen before FSDP reduces them. A loss there is divided by the tokens of all ranks, so that gradients add up in place of
    being averaged: they are recorded times the number of ranks, which is exact for a power of two.
    """

    def __init__(self, trainer: Any) -> None:
        training, ranks = trainer.config.training, dist.get_world_size()
        if training.mixed_precision_param != "float32" or training.dtype != "float32":
            raise Error("integrations: torchtitan computes in 16 bits, whose gradients are rounded before they are added; give mixed_precision_param and "
                        "dtype float32")
        if ranks & (ranks - 1):
            raise Error(f"integrations: torchtitan adds gradients of {ranks} ranks, and times {ranks} they would be rounded; take a power of two")
        self._optimizers, self._inside = trainer.optimizers, trainer.optimizers.step
        claim = Claim(list(trainer.optimizers), ranks, training.max_norm, None)
        super().__init__(claim, f"torchtitan {', '.join(type(one).__name__ for one in trainer.optimizers)}", None, trainer.step)

        self._own_gradients = _torch_sharded.OwnGradients(_torch_sharded.sharding_modules(), self._parameters,
                                                          lambda p, gradient: self._take(p, gradient * ranks))
        trainer.optimizers.step = self._step_of_optimizers

    def _results(self) -> dict[str, list[Any]]:
        def of(p: torch.Tensor, key: str) -> Any:
            return _torch_sharded.whole(next(one.state[p] for one in self._optimizers if p in one.state)[key], "integrations")

        return {"parameters": [_torch_sharded.whole(p, "integrations") for p in self._parameters]} | self._moments(of)

    def _step_of_optimizers(self, *arguments: Any, **options: Any) -> Any:
        rates = [group["lr"] for one in self._optimizers for group in one.param_groups]
        result = self._inside(*arguments, **options)
        self._step(rates)
        return result

    def write(self, path: str | os.PathLike[str]) -> None:
        self._optimizers.step = self._inside
        self._own_gradients.remove()
        super().write(path)
