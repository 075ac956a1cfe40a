"""GASLoC as a ``torch.optim.Optimizer``."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _torch_flat as flat_model
from ._c10d import ProcessGroupPeers
from ._communicator import ThreadPeers
from ._errors import Error
from ._fingerprints import fingerprint
from .gasloc import Edge, Peers, Problem, Round, State, Worker

_SETTINGS = ("betas", "eps", "weight_decay", "inner", "bias_correction", "eta", "alpha", "gamma", "momentum", "law", "seed", "edges",
             "allow_unstable", "threads")
_VECTORS = ("parameters", "before", "first_moment", "second_moment")
Hook = Callable[["GASLoC"], None]


class GASLoC(flat_model.FlatOptimizer):
    """GASLoC (docs/specification/gasloc.md) on the CPU, the same bits as the reference: each rank takes inner steps by itself, then
    averages a little with its neighbours of the round, with momentum.

        optimizer = truestep.torch.GASLoC(model.parameters(), lr=1e-3, inner_steps=10)

    ``step`` is an inner step; the last of ``inner_steps`` makes the round, too. With None rounds are the caller's: ``round()``, after
    any number of steps, another on each rank. Between steps the parameters are x, where the next gradient belongs, after a round
    theta. They differ by rank, by design; all ranks begin with the same. Do not average gradients over ranks.

    Parameters are fp32 or bf16 (of those the worker keeps fp32 ones, and writes them rounded), and so are gradients; one that is None is
    zeros. One that is not finite makes this rank's round a skipped one: its model is what it was when the round began.

    Ranks talk to all others when the optimizer is made or restored, then to their neighbours of the round alone, in messages between
    two: no collective, no barrier. ``process_group``: as truestep.torch.Scape takes it. ``law``, ``seed``, ``edges``: who meets whom;
    what diverges (``alpha``, ``gamma``) is refused. All groups have one lr, which schedulers may change, the same on all ranks, and
    the same settings, which may not.
    """

    _settings, _apart = _SETTINGS, ""
    _why_whole = "neighbours send each other the whole model as one vector, whose length is agreed on when the optimizer is made"
    _native: Worker | None = None
    _restored_to: list[int | None]

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.95), eps: float = 1e-8,
                 weight_decay: float = 0.1, *, inner_steps: int | None = 1, inner: str = "adamw", bias_correction: str = "adam",
                 eta: float = 1.0, alpha: float = 1.0, gamma: float = 0.5, momentum: str = "local", law: str = "pairs", seed: int = 1,
                 edges: Sequence[Edge] = (), allow_unstable: bool = False, threads: int = 1, process_group: Any = None,
                 peers: Peers | ThreadPeers | None = None) -> None:
        if inner_steps is not None and inner_steps < 1:
            raise Error(f"inner_steps is {inner_steps}; give 1 or more, or None to make rounds by round()")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "inner": inner, "bias_correction": bias_correction,
            "eta": eta, "alpha": alpha, "gamma": gamma, "momentum": momentum, "law": law, "seed": seed, "edges": tuple(edges),
            "allow_unstable": allow_unstable, "threads": threads})
        self.inner_steps = inner_steps
        self._taken = 0  # inner steps of this round
        self._before_round: list[Hook] = []
        self._after_round: list[Hook] = []
        self.process_group: Any = None  # that carries the messages
        if peers is None and dist.is_available() and dist.is_initialized():
            self.process_group = process_group if process_group is not None else dist.group.WORLD
            peers = ProcessGroupPeers(self.process_group)
        elif process_group is not None:
            raise Error("process_group is given, but torch.distributed has not been initialized, or there are peers too")
        self._rank = 0 if peers is None else peers.rank
        self._problem = self._make_problem(1 if peers is None else peers.size)
        self._native = Worker(self._problem, [p.detach().contiguous() for p in self._all], peers)
        self._native.on_restored = flat_model.while_it_lives(self._restored)
        self._write_parameters()

    @property
    def problem(self) -> Problem:
        """Model, workers and settings, for a truestep.gasloc.Recorder."""
        return self._problem

    @property
    def native(self) -> Worker:
        """The underlying worker: flat parameters, state and checkpoints."""
        assert self._native is not None
        return self._native

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """An inner step of this rank, and the round if this step ends it."""
        loss = self._loss_of(closure)
        self._check_parameters()
        self.native.step(self._gradients(), flat_model.learning_rate(self.param_groups))
        self._taken += 1
        if self.inner_steps is not None and self._taken >= self.inner_steps:
            self.round()
        else:
            self._write_parameters()
        return loss

    @torch.no_grad()
    def round(self) -> Round:
        """Drift, gossip with the neighbours of this round, momentum; with inner_steps=None the training
        loop calls it. It waits only for those neighbours."""
        self._check_parameters()
        for hook in self._before_round:
            hook(self)
        went = self.native.round()
        self._taken = 0
        self._write_parameters()
        for hook in self._after_round:
            hook(self)
        return went

    def register_round_hooks(self, before: Hook, after: Hook) -> Callable[[], None]:
        """Hooks that are called with this optimizer around each round. The result removes them."""
        self._before_round.append(before)
        self._after_round.append(after)

        def remove() -> None:
            self._before_round.remove(before)
            self._after_round.remove(after)
        return remove

    def state_dict(self) -> dict[str, Any]:
        """A state_dict as of any optimizer, between two rounds. It is this rank's own, with its parameters
        in fp32: each rank saves its own."""
        state = self.native.state
        counters = {"rounds": state.rounds, "inner_steps": state.inner_steps, "workers": self._problem.workers, "rank": self._rank}
        vectors = {name: torch.from_numpy(getattr(state, name)) for name in _VECTORS}
        return self._state_dict_of(
            counters | {name: vector[begin:end].reshape(parameter.shape).clone() for name, vector in vectors.items() if vector.numel()}
            for parameter, (begin, end) in zip(self._all, self._ranges))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the state_dict() of this rank, of the same model and number of ranks; it writes the
        model's parameters, too. Call it on all ranks. A refused state changes nothing."""
        with self.native.or_refuse_restore():
            state_dict = self._with_own(state_dict, "threads")
            self._check_groups(state_dict["param_groups"])
            state = _state_of(state_dict, self._all, self._problem.workers, self._rank)
        self.native.restore(state)
        super().load_state_dict(state_dict)
        self._show_no_state()

    def _restored(self) -> None:
        self._taken = 0
        self._write_parameters()
        self._restored_to = [fingerprint(parameter) for parameter in self._all]

    def _make_problem(self, workers: int) -> Problem:
        settings = dict(self._made_with)
        beta1, beta2 = settings.pop("betas")
        tensors = [(name, parameter.numel()) for name, parameter in zip(self._names, self._all)]
        return Problem(tensors, workers, beta1=float(beta1), beta2=float(beta2), epsilon=float(settings.pop("eps")), **settings)

    def _masters(self) -> list[torch.Tensor]:
        flat = torch.from_numpy(self.native._look())
        return [flat[begin:end].view(parameter.shape) for parameter, (begin, end) in zip(self._all, self._ranges)]

    @torch.no_grad()
    def _write_parameters(self) -> None:
        """Writes x, or theta between rounds: fp32 parameters become views of the worker's memory for it,
        bf16 ones are rounded to nearest even."""
        for parameter, master in zip(self._all, self._masters()):
            if parameter.dtype != torch.float32:
                parameter.copy_(master)
            elif parameter.data_ptr() != master.data_ptr():
                parameter.data = master
        self._written = [flat_model.memory(parameter) for parameter in self._all]
        self._restored_to = [None for _ in self._all]

    @torch.no_grad()
    def _check_parameters(self) -> None:
        """Checks for writes to bf16 parameters, which the worker would not see and the step would undo: if
        PyTorch has counted a write, the values are compared. A write to an fp32 parameter reaches the
        worker, but its moments and momentum no longer fit, unless it writes what was restored: PyTorch's set_state_dict() loads the
        model last."""
        if self._written == [flat_model.memory(parameter) for parameter in self._all]:
            return
        for name, parameter, master, written, restored in zip(self._names, self._all, self._masters(), self._written, self._restored_to):
            if parameter.dtype == torch.float32 and flat_model.memory(parameter) != written and fingerprint(parameter) != restored:
                raise Error(f"{name} was changed outside the optimizer, whose state no longer fits; load the "
                            "optimizer's state_dict after the model's, or make a new optimizer afterwards")
            if not flat_model.same_bits(parameter, master):
                raise Error(f"{name} was changed outside the optimizer, whose own copy was not, so the step would undo it; load the "
                            "optimizer's state_dict after the model's, or make a new optimizer afterwards")
        self._written = [flat_model.memory(parameter) for parameter in self._all]


def _state_of(state_dict: dict[str, Any], parameters: list[torch.Tensor], workers: int, rank: int) -> State:
    """A rank's whole state, from each parameter's part of it."""
    def lacks(part: dict[str, Any], parameter: torch.Tensor) -> bool:
        wrong = any(part[name].numel() != parameter.numel() for name in _VECTORS if name in part)
        return wrong or not {"rounds", "parameters", "before", "workers", "rank"} <= set(part)

    parts = flat_model.parts_of(state_dict, parameters, "GASLoC", lacks, workers, rank)
    counters = {(int(part["rounds"]), int(part["inner_steps"])) for part in parts}
    if len(counters) != 1:
        raise Error(f"load_state_dict: the parameters are at the rounds {sorted(counters)}; give a state_dict() of one optimizer")
    rounds, inner_steps = counters.pop()
    whole = {name: torch.cat([part[name].reshape(-1).to(torch.float32) if name in part else torch.empty(0, device="cpu") for part in parts]).numpy()
             for name in _VECTORS}
    return State(rounds, inner_steps, **whole)
