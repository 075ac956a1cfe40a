"""Records the rounds of truestep.torch.GASLoC."""

import os
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from . import _torch_flat as flat_model
from . import gasloc
from ._errors import Error
from ._torch_gasloc import GASLoC
from ._torch_hooks import around_steps
from ._values import Floats


@dataclass
class _Round:
    """One rank's round."""

    learning_rates: list[float] = field(default_factory=list)
    gradients: list[Floats] = field(default_factory=list)
    results: dict[str, Floats] = field(default_factory=dict)


class RoundRecorder:
    """Records every round of a truestep.torch.GASLoC from the first on. Nothing travels for that before ``write``.

        recorder = truestep.torch.RoundRecorder(optimizer)
        ...                                              # a few rounds: optimizer.step(), without a closure
        recorder.write("run.safetensors")                # on all ranks; then: truestep verify run.safetensors

    The parameters that are recorded are the model's own, as the training loop sees them, where they are fp32.
    """

    def __init__(self, optimizer: GASLoC) -> None:
        if not isinstance(optimizer, GASLoC):
            raise Error(f"RoundRecorder: it was given {type(optimizer).__name__}, and takes truestep.torch.GASLoC; truestep.gasloc.Recorder "
                        "takes the rounds of any other")
        self._check_is_new(optimizer)
        if optimizer.problem.workers > 1 and optimizer.process_group is None:
            raise Error("RoundRecorder: it gathers what ranks have recorded over a process group, and there is none; "
                        "truestep.gasloc.Recorder takes rounds one by one")
        self._optimizer = optimizer
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._start: Floats | None = None  # what the first step begins with
        self._rounds: list[_Round] = []
        self._now = _Round()
        self._given: tuple[float, Floats] | None = None  # to a step, which takes it or raises
        self._removals = [around_steps(optimizer, self._before_step, lambda *_: self._take()), optimizer.register_round_hooks(self._before_round, self._after_round)]

    @staticmethod
    def _check_is_new(optimizer: GASLoC) -> None:
        if optimizer.native.rounds > 0 or optimizer._taken > 0:
            raise Error("RoundRecorder: a step or round has been made already, here or before a state was loaded, and since then ranks differ; "
                        "begin before the first step")

    def _begin(self) -> None:
        """Runs once, with the present state, which may have been loaded after the recorder was made."""
        if self._start is None:
            self._check_is_new(self._optimizer)
            self._start = self._seen()

    def stop(self) -> None:
        """Ends the recording of this rank, as an exception does that leaves nothing to write."""
        while self._removals:
            self._removals.pop()()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the recording, on rank 0, and ends it. Call it on all ranks, after as many rounds on
        each."""
        self.stop()
        group, everyone = self._optimizer.process_group, [self._rounds]
        if group is not None:
            everyone = [[] for _ in range(dist.get_world_size(group))]
            dist.all_gather_object(everyone, self._rounds, group=group)
        if group is None or dist.get_rank(group) == 0:
            self._write(everyone, path)
        if group is not None:
            dist.barrier(group)

    def _before_step(self, optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if any(argument is not None for argument in (*arguments[1:], *options.values())):
            raise Error("RoundRecorder: step(closure) makes the gradients inside, where the recorder cannot see them; call backward() before step()")
        self._begin()
        self._given = float(optimizer.param_groups[0]["lr"]), flat_model.one_vector([p.grad for p in self._parameters], self._parameters)

    def _take(self) -> None:
        """Records what the step has been given, once, before the round that it may end."""
        if self._given is not None:
            self._now.learning_rates.append(self._given[0])
            self._now.gradients.append(self._given[1])
        self._given = None

    def _before_round(self, optimizer: GASLoC) -> None:
        self._begin()
        self._take()
        self._now.results["inner"] = optimizer.native.parameters

    def _after_round(self, optimizer: GASLoC) -> None:
        state = optimizer.native.state
        gossiped = optimizer.param_groups[0]["momentum"] == "gossiped"
        results = {"gossiped" if gossiped else "drifted": state.before, "first_moment": state.first_moment,
                   "second_moment": state.second_moment}
        self._now.results |= {name: vector for name, vector in results.items() if vector.size == self._optimizer.problem.size}
        self._now.results["parameters"] = self._seen()
        self._rounds.append(self._now)
        self._now = _Round()

    def _seen(self) -> Floats:
        if all(p.dtype == torch.float32 for p in self._parameters):
            return flat_model.one_vector(self._parameters, self._parameters)
        return self._optimizer.native.parameters

    def _write(self, everyone: list[list[_Round]], path: str | os.PathLike[str]) -> None:
        counts = [len(rounds) for rounds in everyone]
        if len(set(counts)) != 1:
            raise Error(f"RoundRecorder: ranks have recorded {counts} rounds; write after as many on each")
        recorder = gasloc.Recorder(self._optimizer.problem, self._seen() if self._start is None else self._start, source=type(self._optimizer).__name__)
        for number, of_ranks in enumerate(zip(*everyone)):
            results = {name: [of_rank.results[name] for of_rank in of_ranks] for name in of_ranks[0].results}
            recorder.round(_common_rates(number + 1, list(of_ranks)), [of_rank.gradients for of_rank in of_ranks], **results)
        recorder.write(path)


def _common_rates(number: int, of_ranks: list[_Round]) -> list[float]:
    """Section 12: the learning rate of an inner step is the same on all workers."""
    longest = max((of_rank.learning_rates for of_rank in of_ranks), key=len)
    for rank, of_rank in enumerate(of_ranks):
        for h, (rate, common) in enumerate(zip(of_rank.learning_rates, longest)):
            if rate != common:
                raise Error(f"RoundRecorder: rank {rank} took inner step {h + 1} of round {number} with the learning rate {rate!r}, another "
                            f"rank with {common!r}; one step has one on all ranks, so give their schedulers the same")
    return longest
