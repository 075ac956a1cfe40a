"""Records the steps of a PyTorch optimizer."""

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from . import _recorder, _torch_sharded, _values
from ._errors import Error
from ._optimizer import Optimizer
from ._problem import Problem
from ._torch_claim import Claim, claim
from ._torch_held import Gathered, Held, OwnFile
from ._torch_hooks import Together, around_steps, checked_on_error, state_of, until_failure

CommHook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]  # type: ignore[name-defined]
_NATIVE = ("parameters", "first_moment", "residual", "mask", "next_mask")


class Recorder:
    """Records every step of an optimizer from here on, through its step hooks. Each rank writes a file of its own, in the background:

        with truestep.torch.Recorder(optimizer, path="run.rank{rank}.safetensors"):   # a truestep.torch.Scape; {rank} as it stands
            ...                                          # train: optimizer.step(), without a closure
        # then: truestep verify run.rank*.safetensors, or truestep.verify("run.rank*.safetensors")

    Steps wait for the disk in a file without a name beside it; the trace appears when the recorder is closed, and a process that is killed
    leaves nothing. ``budget``: the bytes that may be on their way there; where there are more, the step waits. Without ``path``, rank 0 gathers all
    ranks' vectors in memory, and ``recorder.write("run.safetensors")``, on all ranks, writes one file.

    Of torch.optim's SGD, Adam, AdamW and Muon, or a list of them, the problem is read from their param groups, as claim() does; checking() records
    and verifies in one. Of another optimizer that claims to be SCAPE or AdamS say what it trains and where its state holds a result:
    ``Recorder(mine, problem, state={"exp_avg": "first_moment"})``. Every rank's copy is recorded, so a rank that drifts is found.
    Behind DistributedDataParallel gradients are averaged before the step: comm_hook() sees each rank's own, of FSDP2 own_gradients() does, and
    a claim's do so by themselves.
    Shards of FSDP2's parameters are gathered at each step, on all ranks together. Of a ZeroRedundancyOptimizer give the problem and state, too.

    Of a large run a part: ``sample`` keeps some segments of every vector in full, which are still checked bit for bit, as truestep.Recorder
    has it (0.001, or ["wq", "norm"]); of another optimizer that clips say its norm, ``norm=lambda: mine.last_norm``, and of one whose
    payload is e5m2 the exponent that its scale is made from, ``exponent=lambda: mine.last_exponent``. ``start`` and
    ``steps``: from that step on, and no more than so many, counted from here as Fingerprints count; what the optimizer has when the first of
    them begins is recorded as the state that the trace begins with (of another one its ``state`` has to name all of it, with bf16 parameters
    also the fp32 masters, as "parameters"; how many steps it took before it is seen here is read from a ``step`` in its state).

    An error, such as a full disk, is raised in ``step()``, which ends the training. With ``on_error="warn"``, which takes ``path``, it is
    one warning: training goes on, nothing more is recorded by this rank, and it leaves no file.
    """

    def __init__(self, optimizer: Any, problem: Problem | Claim | None = None, *,
                 path: str | os.PathLike[str] | None = None, budget: int = 256 << 20, state: Mapping[str, str] | None = None,
                 process_group: Any = None, sample: _recorder.Sample | None = None, start: int = 1, steps: int | None = None,
                 norm: Callable[[], float] | None = None, exponent: Callable[[], int] | None = None, on_error: str = "raise") -> None:
        for name, count in (("start", start), ("steps", 1 if steps is None else steps), ("budget", budget)):
            if count < 1:
                raise Error(f"Recorder: {name} is {count}; it must be at least 1")
        if not isinstance(state or {}, Mapping):
            raise Error(f"Recorder: state is {state!r}; give a name in the optimizer's state and its result, such as {{'exp_avg': 'first_moment'}}")
        self._warns, self._failed = checked_on_error(on_error, "Recorder") == "warn", False
        if self._warns and path is None:
            raise Error("Recorder: on_error is 'warn', and without path ranks gather every step together, which one alone cannot leave; give path")
        optimizer = Together(optimizer) if isinstance(optimizer, (list, tuple)) else optimizer
        self._optimizer, self._state = optimizer, dict(state or {})
        self._native: Optimizer | None = getattr(optimizer, "native", None)
        problem = problem if problem is not None else claim(optimizer)
        self._claim = problem if isinstance(problem, Claim) else None
        self._parameters = self._claim.parameters if self._claim else [p for group in optimizer.param_groups for p in group["params"]]
        _torch_sharded.check_recordable(None if self._claim else optimizer, self._parameters, problem.workers, self._state, self._warns)
        distributed = dist.is_available() and dist.is_initialized()
        group = (process_group or dist.group.WORLD) if distributed and problem.workers > 1 else None
        ranks = 1 if group is None else dist.get_world_size(group)
        if ranks != problem.workers:
            raise Error(f"Recorder: the problem has {problem.workers} workers and the process group {ranks} ranks; "
                        "give the group of its ranks")
        rank = 0 if group is None else dist.get_rank(group)
        if path is not None and "rank{rank}" not in os.path.basename(os.fspath(path)):
            raise Error(f"Recorder: path is {os.fspath(path)!r}, and each rank writes a file of its own; give one with the rank in its "
                        "name, such as 'run.rank{rank}.safetensors'")
        self._where = (problem, group, rank, None if path is None else os.fspath(path).replace("{rank}", str(rank)), budget, sample)
        # Says what a sample holds, and what is wrong with the path, before the first step.
        whole = _recorder.kind_of(problem)(problem, None if self._claim else [_values.zeros(problem.size)], sample=sample,
                                           spool=self._where[3] and self._where[3] + ".spool")
        self._check_order(problem)
        self._rates()
        if self._claim is None:
            self._check_decays(problem)
        self._held = Held(self._parameters, whole.held)
        self._start, self._left, self._seen, self._norm, self._exponent = start, steps, 0, norm, exponent
        self._to: Gathered | OwnFile | None = None
        self._taken = 0  # steps of another optimizer before the first that is seen here
        self._given: dict[str, np.ndarray] | None = None  # to the coming step
        self._own: dict[torch.Tensor, list[torch.Tensor] | None] | None = None  # by the comm hook; None: seen twice
        self._adds: _torch_sharded.OwnGradients | None = None
        self._parts: np.ndarray | None = None  # micro-batches of the coming step, added
        self._part_hooks: list[Callable[[bool], None]] = getattr(optimizer, "_part_hooks", [])
        self._unwatch = self._claim.watch() if self._claim else lambda: None
        self._part_hooks.append(self._part)
        hooks = until_failure(self._fail, self._before, self._after) if self._warns else [self._before, self._after]
        try:
            self._unhook: Callable[[], None] | None = around_steps(optimizer, *hooks)
        except Exception:
            self._unwatch()
            self._part_hooks.remove(self._part)
            raise

    def _check_order(self, problem: Any) -> None:
        """Checks the order: param groups may order parameters differently from the model. A single vector
        of all cannot be wrong."""
        said, held = [tensor.size for tensor in problem.tensors], [p.numel() for p in self._parameters]
        for i, parameter in enumerate(self._parameters):
            _torch_sharded.check_exact(parameter, f"Recorder: parameter {i} of the optimizer")
        if sum(said) != sum(held):
            raise Error(f"Recorder: the problem has {sum(said)} parameters, and the optimizer {sum(held)}; give the tensors that it trains")
        if said != held and sorted(said) == sorted(held):
            i = next(i for i, sizes in enumerate(zip(said, held)) if sizes[0] != sizes[1])
            raise Error(f"Recorder: {problem.tensors[i].name} has {said[i]} parameters in the problem, and in its place the optimizer has a "
                        f"tensor of {held[i]}; give the tensors in the order of its param_groups")

    def _check_decays(self, problem: Any) -> None:
        decays = [group.get("weight_decay") for group in self._optimizer.param_groups if group["params"]]
        if len(set(decays)) > 1 and not any(tensor.param_group for tensor in problem.tensors):
            raise Error(f"Recorder: the optimizer's param groups have the weight decays {decays}, and the problem has one for all; make it of them, "
                        "truestep.Problem(optimizer.param_groups, ...)")

    def _rates(self) -> list[float]:
        """The learning rate of each parameter group of the problem. It must be the same for all tensors of
        the group, or the trace would describe another run."""
        of_parameters = {p: _values.rate(group["lr"]) for group in self._optimizer.param_groups for p in group["params"]}
        if any(p not in of_parameters for p in self._parameters):
            raise Error("Recorder: the optimizer does not have all parameters of the claim; make the claim of the parameters that it has")
        of_tensors = [of_parameters[p] for p in self._parameters]
        numbers = [tensor.param_group for tensor in self._where[0].tensors]
        if not any(numbers):
            numbers = [0] * len(of_tensors)  # however the problem cuts them into tensors
        rates = [{rate for number, rate in zip(numbers, of_tensors) if number == group} for group in range(1 + max(numbers))]
        if len(numbers) != len(of_tensors) or any(len(of_group) != 1 for of_group in rates):
            raise Error(f"Recorder: the optimizer's param groups have the learning rates {[float(group['lr']) for group in self._optimizer.param_groups]}, "
                        "and the problem's parameter groups are not theirs; make it of them, truestep.Problem(optimizer.param_groups, ...)")
        return [of_group.pop() for of_group in rates]

    def _open(self) -> None:
        """Opens the recording with the present state."""
        problem, group, rank, path, budget, sample = self._where
        begin = self._taken + self._seen if self._native is None else self._native.steps
        start = self._masters()
        source = getattr(self._optimizer, "name", type(self._optimizer).__name__)
        mine = self._initial() if begin > 0 else {}
        self._to = (Gathered(problem, start, source, group, rank, sample, begin, mine) if path is None
                    else OwnFile(problem, start, source, rank, path, budget, sample, begin, mine))

    def _masters(self) -> np.ndarray:
        """The parameters in fp32, as the step takes them: for bf16 ones their masters, if the optimizer
        has any."""
        if self._native is not None:
            return self._native.parameters.copy()
        key = next((key for key, name in self._state.items() if name == "parameters"), None)
        masters = [p if kept is None else kept for p in self._parameters for kept in [self._optimizer.state.get(p, {}).get(key)]]
        return Held(self._parameters, [(0, sum(p.numel() for p in self._parameters))]).flat(masters)

    def _steps_taken(self) -> int:
        """Steps that another optimizer took before the first one seen here, for a run that continues an
        earlier one."""
        if self._claim is not None:
            return self._claim.steps_taken(self._optimizer)
        states = [state for state in map(_torch_sharded.inner(self._optimizer).state.get, self._parameters) if state]
        steps = _torch_sharded.steps_on_ranks(self._optimizer, [int(state["step"]) for state in states if "step" in state])
        here = any(isinstance(state.get(key), torch.Tensor) and bool(_torch_sharded.of_this_rank(state[key]).any())
                   for state in states for key in self._state)
        if not steps and _torch_sharded.on_any_rank(self._optimizer, self._parameters, here):
            raise Error("Recorder: the optimizer has a state already, and its number of steps is unknown without 'step'; begin to record "
                        "before its first step, or keep 'step' in its state")
        return max(steps, default=0)

    def _initial(self) -> dict[str, np.ndarray]:
        """The state besides the parameters before a step; the mask in flight is the next one."""
        results = self._results()
        mask = results.get("next_mask")
        return {name: results[name] for name in ("first_moment", "second_moment", "residual") if name in results} | ({} if mask is None else {"mask": mask})

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the gathered recording, on rank 0, and ends it. Call it on all ranks."""
        if self._where[3] is not None:
            raise Error(f"Recorder: this rank's file is {self._where[3]}; close() finishes it")
        self._stop()
        assert isinstance(self._began(), Gathered)
        self._began().write(path)  # type: ignore[union-attr]

    def close(self) -> None:
        """Completes this rank's file, and ends the recording."""
        if self._unhook is None:
            return
        self._stop()
        if self._where[3] is None or self._failed:
            return
        try:
            self._began().close(write=True)  # type: ignore[union-attr]
        except Error as error:
            if not self._warns:
                raise
            self._warn(error)

    def _fail(self, error: Exception) -> None:
        """With on_error="warn": training continues, and the recording is dropped."""
        self._failed, self._given, self._parts = True, None, None
        with contextlib.suppress(Exception):  # most often the same again
            if isinstance(self._to, OwnFile):
                self._to.close(write=False)
        self._to = None
        self._warn(error)

    def _warn(self, error: Exception) -> None:
        warnings.warn(f"Recorder: this rank records no more, and there is no {self._where[3]}: {error}", RuntimeWarning, stacklevel=2)

    def _began(self) -> Gathered | OwnFile:
        if self._to is None:
            raise Error(f"Recorder: start is {self._start}, and {self._seen} steps were taken, so that no step has been recorded")
        return self._to

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        try:
            self.close()
        except Error:
            if error is None:  # else that is what is to be told
                raise

    def comm_hook(self, hook: CommHook = allreduce_hook) -> CommHook:
        """For ``ddp.register_comm_hook(None, recorder.comm_hook())``: keeps each rank's own gradients before ``hook`` reduces them."""
        self._own, held = {}, set(self._parameters)

        def keep(bucket: dist.GradBucket) -> None:  # type: ignore[name-defined]
            if self._failed or self._own is None:
                return
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
                if parameter in held:  # ddp may reduce those of other optimizers, too
                    self._own[parameter] = None if parameter in self._own else [piece.clone() for piece in self._held.of(parameter, gradient)]
        (looks,) = until_failure(self._fail, keep) if self._warns else [keep]

        def keep_and_reduce(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
            looks(bucket)
            return hook(state, bucket)
        return keep_and_reduce

    def own_gradients(self, model: torch.nn.Module) -> None:
        """For a model that FSDP2's fully_shard has sharded: keeps each rank's own gradients before they are reduced, micro-batches added.
        Without it the reduced ones are recorded, as the step is given them."""
        self._own = {}
        self._adds = _torch_sharded.OwnGradients(_torch_sharded.sharding_modules(model.modules()), self._parameters, self._add)

    def _add(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """Adds a micro-batch."""
        if self._own is not None:
            before, now = self._own.get(parameter), [piece.clone() for piece in self._held.of(parameter, gradient)]
            self._own[parameter] = now if before is None else [a + b for a, b in zip(before, now)]

    def _stop(self) -> None:
        if self._unhook is not None:
            self._unhook()
        if self._adds is not None:
            self._adds.remove()
        self._unhook = None
        self._unwatch()
        if self._part in self._part_hooks:
            self._part_hooks.remove(self._part)

    def _part(self, taken: bool) -> None:
        """Records a part of truestep.torch.Scape.accumulate: section 20's sum, in the order of the parts."""
        part = self._held.flat([p.grad for p in self._parameters]) if taken and not self._failed else None
        self._parts = part if part is None or self._parts is None else self._parts + part

    def _before(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if any(argument is not None for argument in (*arguments[1:], *options.values())):
            raise Error("Recorder: step(closure) makes the gradients inside, where the recorder cannot see them; call backward() before step()")
        for settings in optimizer.param_groups:
            _values.rate(settings["lr"])
        own, self._own = self._own, None if self._own is None else {}
        parts, self._parts = self._parts, None
        self._given = None
        given = self._claim.given(self._where[2]) if self._claim else None
        if self._seen == 0 and self._native is None:
            self._taken = self._steps_taken()
        if self._left == 0 or self._seen + 1 < self._start:
            self._seen += 1
            return
        if self._to is None:
            self._open()
        self._seen += 1
        if given is not None:
            self._given = {name: self._held.flat(tensors) for name, tensors in given.items()}
            return
        if own is None:
            last = self._held.flat([p.grad for p in self._parameters])
            self._given = {"gradient": last if parts is None else parts + last}
            return
        if self._adds is not None:
            for parameter in self._parameters:
                if parameter.grad is None:  # no rank has used it
                    own.setdefault(parameter, self._held.of(parameter, None))
        if any(p not in own for p in self._parameters) or any(gradient is None for gradient in own.values()):
            raise Error("Recorder: own_gradients has not seen the gradient of every parameter since the last step; call it before the first forward, "
                        "and let each module compute with its own parameters" if self._adds is not None else
                        "Recorder: the comm hook has not seen every gradient once since the last step; let ddp reduce once a step "
                        "(micro-batches under ddp.no_sync()), of all parameters that the optimizer has")
        self._given = {"gradient": torch.cat([piece for p in self._parameters for piece in own[p] or []]).numpy()}

    def _after(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if self._given is None or self._to is None:
            return  # not one of those that are recorded
        norm = self._norm() if self._norm is not None else None
        exponent = self._exponent() if self._exponent is not None else None
        if self._native is not None:
            settings, last = self._native.problem.settings, self._native.statistics
            norm = last.gradient_norm if norm is None and settings.get("clip_norm") else norm
            exponent = last.exponent if exponent is None and str(settings.get("payload", "")).startswith("e5m2") else exponent
        self._to.step((self._rates(), norm, exponent), self._given | self._results())
        if self._left is not None:
            self._left -= 1

    def _results(self) -> dict[str, Any]:
        if self._native is not None:
            return {name: self._held.cut(getattr(self._native, name)) for name in _NATIVE}
        results = {"parameters": self._held.flat(self._parameters)}
        if self._claim is not None:
            return results | {name: self._held.flat(kept) for name, kept in self._claim.moments(self._optimizer).items()}
        for key, name in self._state.items():
            kept = state_of(self._optimizer, self._parameters, key, "Recorder")
            if name == "parameters":  # those of fp32 are their own masters
                kept = [p if master is None else master for p, master in zip(self._parameters, kept)]
            flat = self._held.flat(kept)
            results[name] = flat != 0 if "mask" in name else flat
        return results
