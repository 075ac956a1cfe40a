"""What an optimizer of torch.optim claims to do, read from its class and its param groups."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import _dense_recorder, _torch_sharded, _values
from ._errors import Error
from ._problem import Problem, Tensor
from ._torch_hooks import optimizers_of

# torch.optim's names of a rule's settings, by dense.md's.
_SETTINGS = {"sgd": {"weight_decay": "weight_decay", "momentum": "momentum", "nesterov": "nesterov", "dampening": "dampening"},
             "adam": {"weight_decay": "weight_decay", "epsilon": "eps"},
             "muon": {"weight_decay": "weight_decay", "momentum": "momentum", "nesterov": "nesterov", "iterations": "ns_steps", "epsilon": "eps"}}
_RANGES: dict[str, Callable[[float], bool]] = {
    "momentum": lambda value: 0 <= value < 1, "beta1": lambda value: 0 <= value < 1, "beta2": lambda value: 0 <= value < 1,
    "dampening": lambda value: 0 <= value <= 1, "epsilon": lambda value: 0 < value < math.inf, "weight_decay": lambda value: 0 <= value < math.inf}
_RULES = "torch.optim's SGD, Adam, AdamW and Muon"


class Claim:
    """A problem of dense training (docs/specification/dense.md) that a Recorder takes, and the gradients of it."""

    recorder = _dense_recorder.Recorder

    def __init__(self, optimizer: Any, workers: int, clip_norm: float, scaler: Any) -> None:
        self.workers, self._scaler = workers, scaler
        self._optimizers = optimizers_of(optimizer)
        self._groups = [self._read(one, group) for one in self._optimizers for group in one.param_groups]
        self._trained = [self._parameters(group) for one in self._optimizers for group in one.param_groups]
        self.parameters: list[torch.Tensor] = [p for group in self._trained for p in group]
        self.tensors, groups = self._tensors()
        self.size = sum(tensor.size for tensor in self.tensors)
        self._own: dict[torch.Tensor, list[torch.Tensor]] = {}  # of each micro-batch since the last step
        self._versions: dict[torch.Tensor, int] = {}  # of sharded gradients, as the last reduction has left them
        rules = [group["rule"] for group in groups]
        self._moments = {"first_moment": any(group["rule"] != "sgd" or group["momentum"] for group in groups),
                         "second_moment": "adam" in rules or "adamw" in rules}
        self._mean = "clipped" if clip_norm > 0 else "mean"
        self.config = {"algorithm": "dense", "workers": workers, "order": "rank", "accumulation": "sum",  # as .grad adds up
                       "clip_norm": float(clip_norm), "copies": "none", "groups": groups, "tensors": [
                           {"name": tensor.name, "shape": list(p.shape) or [1], "role": groups[tensor.param_group]["roles"][0]}
                           for tensor, p in zip(self.tensors, self.parameters)]}

    @staticmethod
    def _read(optimizer: Any, group: dict[str, Any]) -> dict[str, Any]:
        """A param group's rule and settings, without its rate."""
        kind = type(optimizer).__name__
        name = next((name for name in ("SGD", "AdamW", "Adam", "Muon") if isinstance(optimizer, getattr(torch.optim, name, ()))), None)
        if name is None:
            raise Error(f"claim: {kind} is none of {_RULES}, so its rule is not known; give what it claims to be, "
                        "claim=truestep.torch.claim(torch.optim.AdamW(...)) of the same parameters, or a truestep.Problem")
        for key in ("amsgrad", "maximize", "differentiable"):
            if group.get(key):
                raise Error(f"claim: {kind} has {key}={group[key]}, and no rule of docs/specification/dense.md has that; leave it out")
        for key, value in group.items():
            if isinstance(value, torch.Tensor) or key == "betas" and any(isinstance(beta, torch.Tensor) for beta in value):
                raise Error(f"claim: {key} of {kind} is a tensor, which may change without a trace; give a number")
        rule = name.lower()
        if name in ("Adam", "AdamW"):
            rule = "adamw" if group.get("decoupled_weight_decay", name == "AdamW") else "adam"
        settings: dict[str, Any] = {ours: group[theirs] for ours, theirs in _SETTINGS[rule[:4]].items()}
        if rule in ("adam", "adamw"):
            settings |= dict(zip(("beta1", "beta2"), group["betas"])) | {"epsilon_place": "corrected"}
        if rule == "muon":
            settings |= dict(zip("abc", group["ns_coefficients"])) | {
                "orthogonalization": "newton_schulz", "iteration": "bf16", "scale": group["adjust_lr_fn"] or "original"}
        for key, good in _RANGES.items():
            if key in settings and not good(settings[key]):
                raise Error(f"claim: {key} of {kind} is {settings[key]}, outside of its range in docs/specification/dense.md, section 34")
        return {"rule": rule} | settings

    @staticmethod
    def _parameters(group: dict[str, Any]) -> list[torch.Tensor]:
        """What PyTorch trains: a frozen parameter has no gradient, and no step changes it."""
        return [p for p in group["params"] if p.requires_grad]

    def _tensors(self) -> tuple[list[Tensor], list[dict[str, Any]]]:
        """The tensors, and the groups that have some."""
        tensors: list[Tensor] = []
        groups: list[dict[str, Any]] = []
        theirs = [group for one in self._optimizers for group in one.param_groups]
        for settings, group, trained in zip(self._groups, theirs, self._trained):
            names = {p: name for p, name in zip(group["params"], group.get("param_names", ()))}
            for p in trained:
                name = names.get(p, f"parameter{len(tensors)}")
                _torch_sharded.check_placements(p, f"claim: {name}")
                _values.check_memory(_torch_sharded.of_this_rank(p), f"claim: {name}")
                if p.dtype != torch.float32:
                    raise Error(f"claim: {name} is {str(p.dtype).replace('torch.', '')}; torch.optim then rounds each step to that, without an fp32 master, "
                                "which no rule here does; keep parameters in float32 (torch.autocast computes in bfloat16)")
                tensors.append(Tensor(name, p.numel(), param_group=len(groups)))
            if trained:
                groups.append(settings | {"roles": [f"group {len(groups)}"]})
        if not tensors:
            raise Error("claim: no parameter of the optimizer requires a gradient, so there is nothing to train")
        return tensors, groups

    def check(self) -> None:
        """Refuses what has changed since the claim was read; rates may."""
        groups = [(one, group) for one in self._optimizers for group in one.param_groups]
        if [list(map(id, self._parameters(group))) for _, group in groups] != [list(map(id, group)) for group in self._trained]:
            raise Error("claim: the optimizer trains other parameters than when its claim was read (add_param_group, requires_grad); begin anew then")
        for number, ((one, group), before) in enumerate(zip(groups, self._groups)):
            now = self._read(one, group)
            key = next((key for key in before if now.get(key) != before[key]), None)
            if key is not None:
                raise Error(f"claim: {key} of param group {number} has changed from {before[key]} to {now.get(key)}; only learning rates have a "
                            "schedule here (OneCycleLR: cycle_momentum=False)")

    def watch(self) -> Callable[[], None]:
        """Sees each parameter's gradient as backward() makes it, before anything reduces, clips or unscales it. The result ends that."""
        sharded = [p for p in self.parameters if _torch_sharded.is_sharded(p)]
        handles: list[Any] = [_torch_sharded.OwnGradients(_torch_sharded.sharding_modules(), sharded, self._see)] if sharded else []
        handles += [p.register_post_accumulate_grad_hook(self._reduced) for p in sharded]  # type: ignore[no-untyped-call]
        # The node that adds to .grad, and not the tensor, whose hooks torch.autograd.grad calls, too.
        plain = [p for p in self.parameters if not _torch_sharded.is_sharded(p)]
        nodes = [p.expand_as(p).grad_fn.next_functions[0][0] for p in plain]  # type: ignore[union-attr]
        if not all(hasattr(node, "register_prehook") for node in nodes):
            raise Error(f"claim: PyTorch {torch.__version__} does not show gradients before they are reduced; take PyTorch 2.0 or newer")
        handles += [node.register_prehook(lambda gradients, p=p: self._see(p, gradients[0])) for node, p in zip(nodes, plain)]  # type: ignore[union-attr]

        def remove() -> None:
            for handle in handles:
                handle.remove()
            nodes.clear()  # a node that nothing refers to is made anew, without hooks
        return remove

    def _see(self, parameter: torch.Tensor, gradient: torch.Tensor | None) -> None:
        if gradient is None:
            return
        _values.check_memory(gradient, "checking: a gradient")
        if parameter not in self._own or self._taken_away(parameter):
            self._own[parameter] = []
        self._own[parameter].append(gradient.detach().float() * self._unscaling())

    def _taken_away(self, parameter: torch.Tensor) -> bool:
        """Whether zero_grad() has taken away the gradient before this one, which then has no part in the step."""
        if not _torch_sharded.is_sharded(parameter):
            return parameter.grad is None or not bool(parameter.grad.any())
        if parameter not in self._versions:  # FSDP2 keeps it, not yet reduced, where zero_grad() does not reach it
            return False
        version = self._versions.pop(parameter)
        # This rank's part may be zero without having been taken away: then nothing has written to it since it was reduced.
        return parameter.grad is None or (parameter.grad._version != version and not bool(parameter.grad.to_local().any()))  # type: ignore[attr-defined]

    def _reduced(self, parameter: torch.Tensor) -> None:
        self._versions[parameter] = parameter.grad._version  # type: ignore[union-attr]

    def _unscaling(self) -> float:
        scale = float(self._scaler.get_scale()) if self._scaler is not None else 1.0
        if math.frexp(scale)[0] != 0.5:
            raise Error(f"checking: the scaler's scale is {scale}, and dividing by it rounds; give init_scale, growth_factor and backoff_factor as "
                        "powers of 2")
        return 1 / scale

    def given(self, rank: int) -> dict[str, list[Any]]:
        """This rank's own gradients since the last step, and what the optimizer is about to take."""
        self.check()
        own, self._own, self._versions = self._own, {}, {}
        for tensor, p in zip(self.tensors, self.parameters):
            if p.grad is None:
                raise Error(f"checking: {tensor.name} has no gradient in this step, and PyTorch leaves it out; freeze what is not trained "
                            "(requires_grad_(False)), or give it a gradient of zeros")
            if own and p not in own and _torch_sharded.is_sharded(p):
                raise Error(f"checking: this rank has made no gradient of {tensor.name} in a forward() of the modules that FSDP2 has sharded, and the "
                            "reduced one does not say which part is its own; use each parameter on all ranks, through the modules' forward()")
        if not own:
            raise Error("checking: no backward() has made gradients since the last step; begin before backward(), and take one step after it")
        gradients: dict[str, list[Any]] = {f"gradient.{part + 1}": [dict(enumerate(own.get(p, ()))).get(part) for p in self.parameters]
                                           for part in range(max(map(len, own.values())))}
        # A scaler divides each optimizer's gradients when that one steps, or inside of its step.
        mean = [_torch_sharded.whole(p.grad, "checking") for p in self.parameters] if self._scaler is None else []  # on all ranks together
        return gradients | ({self._mean: mean} if rank == 0 and mean else {})

    def moments(self, optimizer: Any) -> dict[str, list[Any]]:
        """Those that the optimizer keeps, if the claim is its own: others may define them differently."""
        if optimizers_of(optimizer) != self._optimizers:
            return {}
        every = optimizer.state
        states = [every.get(p, {}) for p in self.parameters]
        kept = {"first_moment": [state.get("momentum_buffer", state.get("exp_avg")) for state in states],
                "second_moment": [state.get("exp_avg_sq") for state in states]}
        return {name: values for name, values in kept.items() if self._moments[name] and any(value is not None for value in values)}

    def steps_taken(self, optimizer: Any) -> int:
        """Steps before the first one seen here. Without a count, of SGD and Muon, only whether there were any makes a difference."""
        every = optimizer.state
        if optimizers_of(optimizer) != self._optimizers and any(every.get(p) for p in self.parameters):
            raise Error("checking: the optimizer has taken steps, and a claim of another one cannot tell what its state means; begin before its first step")
        counts = {int(every.get(p, {}).get("step", 0)) for p, tensor in zip(self.parameters, self.tensors)
                  if self.config["groups"][tensor.param_group]["rule"] in ("adam", "adamw")}  # type: ignore[index]
        if len(counts) > 1:
            raise Error(f"checking: the optimizer's parameters have taken {sorted(counts)} steps; a run here has one count for all of them")
        return counts.pop() if counts else int(bool(self.moments(optimizer)))


def claim(optimizer: Any, *, clip_norm: float = 0.0, scaler: Any = None, workers: int | None = None) -> Any:
    """The problem that an optimizer claims to solve, for a Recorder or checking(): of a torch.optim.SGD, Adam, AdamW or Muon, or a list of such that
    step together, read from class and param groups; of a truestep.torch.Scape or GASLoC its own.

    ``clip_norm``: the max_norm that the script gives to torch.nn.utils.clip_grad_norm_ of all these parameters; ``scaler``: its torch.amp.GradScaler.
    ``workers``: ranks whose gradients are averaged; by default those of torch.distributed. Refused by name: another optimizer, amsgrad, maximize,
    differentiable, numbers that are tensors, parameters that are not float32. FSDP2's parameters are taken, of an optimizer made after fully_shard.
    """
    own: Problem | None = getattr(optimizer, "problem", None)
    if own is not None:
        if clip_norm or scaler is not None:
            raise Error(f"claim: clip_norm and scaler are of torch.optim's, and {type(optimizer).__name__} has its own settings; leave them out")
        return own
    if scaler is not None and len(optimizers_of(optimizer)) > 1:
        raise Error("claim: a scaler skips each of several optimizers by itself, and a step here is taken or skipped as a whole; give one optimizer")
    if workers is None:
        workers = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    return Claim(optimizer, workers, clip_norm, scaler)
