"""SCAPE and GASLoC as a ``torch.optim.Optimizer``, over ``torch.distributed``; ``truestep.torch.mapl``: MAPL's boundary as a module."""

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist

from . import _torch_flat as flat_model
from . import _torch_mapl
from ._c10d import ProcessGroup
from ._communicator import Communicator, ThreadCommunicator
from ._errors import Error
from ._optimizer import Optimizer, Statistics
from ._problem import Problem, Tensor
from ._fingerprints import Fingerprints as Fingerprints
from ._fingerprints import fingerprint as fingerprint
from ._torch_checking import checking as checking
from ._torch_claim import claim as claim
from ._torch_gasloc import GASLoC as GASLoC
from ._torch_gasloc_recorder import RoundRecorder as RoundRecorder
from ._torch_parts import Buckets
from ._torch_recorder import Recorder as Recorder
from ._torch_room import GradientRoom
from ._torch_watch import watch as watch

_SETTINGS = ("betas", "eps", "weight_decay", "clip_norm", "bias_correction", "density", "partition", "threads",
             "norm", "payload", "groups")
mapl = _torch_mapl
sys.modules[f"{__name__}.mapl"] = mapl  # so that `import truestep.torch.mapl` finds it
PartHook = Callable[[bool], None]  # a part has been taken, or all are forgotten
_STATE = ("first_moment", "residual", "mask", "next_mask")


class Scape(flat_model.FlatOptimizer):
    """SCAPE (docs/specification/) on the CPU: each rank steps with its own gradients, the same bits on all ranks and as the reference.

        optimizer = truestep.torch.Scape(model.parameters(), lr=1e-3, density=0.01)

    Do not average gradients over ranks (no DistributedDataParallel): the step does, on the mask. All ranks begin with the same
    parameters, fp32 or bf16; so are gradients, and one that is None is zeros. The memory of fp32 parameters becomes the optimizer's;
    of bf16 ones it keeps fp32 masters, and writes them rounded. ``density`` is a number or ("geometric", start, target, steps).
    ``always_dense`` of a param group: all of it travels at every step; by default that is what has fewer than two dimensions (norms,
    biases). All groups have one lr, which schedulers may change, and the same settings, which may not.

    ``payload="bf16"`` sends half the bytes to the owners, and keeps what rounding takes in the residual (section 21 of the specification);
    ``"e5m2"`` sends a quarter, with a scale that all ranks share; ``"bf16_both"`` and ``"e5m2_both"`` send the means back so, too, and keep
    what that takes in the owner's residual;
    ``groups`` says how many ranks each machine has, such as ``[8, 8]``: they add among themselves first, so that a rank has a few messages, and
    little travels between machines (section 32; another order of adding, so other last digits of the mean);
    ``norm`` is the version of the clip norm's order (section 5), 1 for runs that began before there was 2.

    Gradients of several backward() add up; ``overlap=True`` exchanges those of a param group as soon as the backward pass has made them all
    (PyTorch 2.1 or newer; at step() else), the last group first: then all backward() of a step but the last stand under
    ``optimizer.no_sync()``, and nothing may write to a gradient between backward() and step(). The bits are the same.

    ``using_up_gradients=True``: the step may write into the gradients, which it then reads once, and takes no copy of: after ``zero_grad()`` the
    ``.grad`` of fp32 parameters are zeros in memory of the optimizer, where backward() adds to them, and after ``step()``, also one that was
    refused, every ``.grad`` is None. The bits are the same. Not with ``overlap=True``; on all ranks, or on none.

    ``process_group``: whose backend moves the CPU's memory, such as gloo; by default the world, or this process alone where
    torch.distributed has not been initialized. ``step`` raises truestep.RefusedStep on all ranks, with nothing changed, where a gradient
    is not finite.
    """

    _settings, _apart = _SETTINGS, ", always_dense apart"
    _why_whole = "masks and ranges are cut from the whole model when the optimizer is made, on all ranks alike"
    _native: Optimizer | None = None

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.95), eps: float = 1e-8,
                 weight_decay: float = 0.1, *, clip_norm: float = 0.0, bias_correction: str = "adam",
                 density: float | tuple[str, float, float, int] = 0.01, partition: str = "by_shard", threads: int = 1,
                 norm: int = 2, payload: str = "fp32", groups: list[int] | None = None, always_dense: bool | None = None, overlap: bool = False,
                 using_up_gradients: bool = False, process_group: Any = None, communicator: Communicator | ThreadCommunicator | None = None) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "clip_norm": clip_norm,
            "bias_correction": bias_correction, "density": density, "partition": partition, "threads": threads,
            "norm": norm, "payload": payload, "groups": groups, "always_dense": always_dense})
        if overlap and using_up_gradients:
            raise Error("overlap and using_up_gradients are both True; gradients that are exchanged as they are made are not used up, give one")
        if communicator is None and dist.is_available() and dist.is_initialized():
            communicator = ProcessGroup(process_group)
        elif process_group is not None:
            raise Error("process_group is given, but torch.distributed has not been initialized, or there is a communicator too")
        self._rank = 0 if communicator is None else communicator.rank
        self._problem = self._make_problem(1 if communicator is None else communicator.size)
        self._native = Optimizer(self._problem, [p.detach().contiguous() for p in self._all], communicator)
        self._adopt(self._native)
        self._accumulated = False
        self._part_hooks: list[PartHook] = []
        self._buckets = Buckets(self.param_groups, self._names, self._native) if overlap else None
        self._room = GradientRoom(self._all, self._ranges, self._native) if using_up_gradients else None
        self._native.on_refusal = flat_model.while_it_lives(self._refused)
        self._native.on_restored = flat_model.while_it_lives(self._restored)

    @property
    def problem(self) -> Problem:
        """The model as it was cut up, for a Recorder or a Reference."""
        return self._problem

    @property
    def native(self) -> Optimizer:
        """What steps: flat parameters, moment, residual and masks to look at."""
        assert self._native is not None
        return self._native

    @property
    def statistics(self) -> Statistics:
        """What the last step did on this rank."""
        return self.native.statistics

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """On all ranks, each with the gradients of its own parameters."""
        with self.native.or_refuse():
            loss = self._loss_of(closure)
            self._check_memory()
            self._check_copies()
            rate = flat_model.learning_rate(self.param_groups)
            gradients = self._gradients()
            if self._buckets is not None:
                self._buckets.check()
        self._accumulated = False  # whatever comes of it
        if self._buckets is not None:
            self._buckets.step(rate)
        elif self._room is not None:
            self._room.step(gradients, rate)
        else:
            self.native.step(gradients, rate)
        self._write_copies()
        return loss

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """As every optimizer's; with using_up_gradients=True the gradients of fp32 parameters become zeros where the step uses them up."""
        super().zero_grad(*arguments, **options)
        if self._room is not None:
            self._room.hand_out()

    def accumulate(self) -> None:
        """Takes the gradients that there are as a micro-batch of the coming step, and leaves none. They are added in fp32, where bf16
        parameters would add them in bf16; of fp32 ones several backward() without zero_grad() have the same bits. Talks to nobody."""
        if self._buckets is not None and self._buckets.any:
            raise Error("accumulate: the gradients are exchanged already, as the step's last; call backward() under optimizer.no_sync() "
                        "before accumulate()")
        self.native.accumulate(self._gradients())
        self._accumulated = True
        for hook in self._part_hooks:
            hook(True)
        for parameter in self._all:
            parameter.grad = None

    def no_sync(self) -> AbstractContextManager[None]:
        """With overlap=True, for all backward() of a step but the last: their gradients stay here."""
        return nullcontext() if self._buckets is None else self._buckets.no_sync()

    def forget_parts(self) -> None:
        """Gives up what has been accumulated or exchanged since the last step. On all ranks, where there is overlap=True."""
        self.native.forget_parts()
        self._no_parts()

    def _refused(self) -> None:
        """The step, and this rank is where the others are whose steps ended with it."""
        self._no_parts()
        if self._room is not None:
            self._room.clear()

    def _restored(self) -> None:
        self._no_parts()
        self._write_copies()

    def _no_parts(self) -> None:
        self._accumulated = False
        for hook in self._part_hooks:
            hook(False)
        if self._buckets is not None:
            self._buckets.forget()

    def state_dict(self) -> dict[str, Any]:
        """As every optimizer's; the residual is this rank's own, so each rank saves its own. To be called on all ranks: it waits
        for the coming mask."""
        if self._accumulated or (self._buckets is not None and self._buckets.any):
            raise Error("state_dict: not available within a step, because a state holds no parts; take the step, or call forget_parts()")
        native = self.native
        whole = {name: torch.from_numpy(getattr(native, name)) for name in _STATE}
        place = {"workers": self._problem.workers, "rank": self._rank}
        if self._made_with["payload"].startswith("e5m2"):
            place["exponent"] = native.exponent
        with_master = whole | {"master": torch.from_numpy(native.parameters)}
        return self._state_dict_of(
            {"step": torch.tensor(float(native.steps))} | place | {
                name: values[begin:end].reshape(parameter.shape).clone()
                for name, values in (whole if parameter.dtype == torch.float32 else with_master).items()}
            for parameter, (begin, end) in zip(self._all, self._ranges))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What state_dict() gave on this rank, of the same model and number of ranks. The parameters are the model's to load, before
        or after. What is refused changes nothing."""
        self._check_memory()
        state_dict = self._with_own(state_dict, "groups", "threads")
        # Before there was a choice a clipped run had version 1 of the norm, and fp32 travelled.
        state_dict["param_groups"] = [{"norm": 1 if group.get("clip_norm") else self._made_with["norm"], "payload": "fp32"} | group
                                      for group in state_dict["param_groups"]]
        self._check_groups(state_dict["param_groups"], "always_dense")
        parts = _state_of(state_dict, self._all, self._problem.workers, self._rank)
        self.native.restore(**parts)
        super().load_state_dict(state_dict)
        self._show_no_state()

    def _make_problem(self, workers: int) -> Problem:
        dense = [group["always_dense"] for group in self.param_groups for _ in group["params"]]
        tensors = [Tensor(name, parameter.numel(), parameter.dim() < 2 if always is None else bool(always))
                   for name, parameter, always in zip(self._names, self._all, dense)]
        settings = dict(self._made_with)
        beta1, beta2 = settings.pop("betas")
        groups = settings.pop("groups")
        if groups:
            settings["groups"] = list(groups)
        return Problem(tensors, workers, beta1=float(beta1), beta2=float(beta2), epsilon=float(settings.pop("eps")), **settings)

    def _adopt(self, native: Optimizer) -> None:
        """The memory of fp32 parameters becomes the optimizer's own: what it writes they are, and what the model loads it has."""
        flat = torch.from_numpy(native.parameters)
        self._shared: list[tuple[str, torch.Tensor, int, torch.Size]] = []  # with where in memory, and as what, it has to be
        self._copies: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        for name, parameter, (begin, end) in zip(self._names, self._all, self._ranges):
            master = flat[begin:end].view(parameter.shape)
            if parameter.dtype == torch.float32:
                parameter.data = master
                self._shared.append((name, parameter, master.data_ptr(), master.shape))
            else:
                self._copies.append((name, parameter, master))
        self._written = [flat_model.memory(parameter) for _, parameter, _ in self._copies]

    def _check_memory(self) -> None:
        """What replaces a parameter's memory takes it from the optimizer, and nothing else would tell."""
        for name, parameter, address, shape in self._shared:
            if parameter.data_ptr() != address or parameter.shape != shape or not parameter.is_contiguous():
                raise Error(f"{name} has left the optimizer's memory: something has replaced its .data (vector_to_parameters, model.to "
                            "there and back); write into it (model.load_state_dict, copy_), or make a new optimizer afterwards")

    @torch.no_grad()
    def _check_copies(self) -> None:
        """What writes to a bf16 parameter does not reach its master, and the step would undo it. The values are looked at where
        PyTorch has counted a write."""
        for i, (name, parameter, master) in enumerate(self._copies):
            if flat_model.memory(parameter) == self._written[i]:
                continue
            if parameter.dtype != torch.bfloat16 or not flat_model.same_bits(parameter, master):
                raise Error(f"{name} was changed outside the optimizer, whose fp32 master was not, so the step would undo it; load the optimizer's "
                            "state_dict as well as the model's, or make a new optimizer afterwards")
            self._written[i] = flat_model.memory(parameter)

    @torch.no_grad()
    def _write_copies(self) -> None:
        """bf16 parameters are their masters, rounded to nearest even."""
        for _, parameter, master in self._copies:
            parameter.copy_(master)
        self._written = [flat_model.memory(parameter) for _, parameter, _ in self._copies]


def _state_of(state_dict: dict[str, Any], parameters: list[torch.Tensor], workers: int, rank: int) -> dict[str, Any]:
    """A whole rank's state, from what each parameter has of it."""
    def lacks(part: dict[str, Any], parameter: torch.Tensor) -> bool:
        needed = _STATE if parameter.dtype == torch.float32 else (*_STATE, "master")
        return "step" not in part or any(name not in part or part[name].numel() != parameter.numel() for name in needed)

    parts = flat_model.parts_of(state_dict, parameters, "SCAPE", lacks, workers, rank)
    steps = {int(part["step"]) for part in parts}
    if len(steps) != 1:
        raise Error(f"load_state_dict: the parameters are at the steps {sorted(steps)}; give a state_dict() of one optimizer")
    whole: dict[str, Any] = {name: torch.cat([part[name].reshape(-1) for part in parts]) for name in _STATE}
    whole["parameters"] = torch.cat([part.get("master", parameter.detach()).reshape(-1) for part, parameter in zip(parts, parameters)])
    for name in ("parameters", "first_moment", "residual"):
        whole[name] = whole[name].to(torch.float32).contiguous()
    for name in ("mask", "next_mask"):
        whole[name] = whole[name].to(torch.bool).numpy()
    exponents = {int(part["exponent"]) for part in parts if "exponent" in part}  # of a payload of e5m2, the same in all
    return {"step": steps.pop()} | whole | ({"exponent": max(exponents)} if exponents else {})
