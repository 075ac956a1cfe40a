"""gate_program.py with recorders beside the optimizers: what is recorded of each case has to verify, whichever way it is recorded. Gradients come in
all forms that the package takes, and wrong calls come before the right ones."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gate_program
import gate_refused
import numpy as np
import truestep
from gate_program import RANK, RANKS, Message, floats


class Recording:
    """Brings what all ranks have to rank 0, which records it, and ends the program where the recording does not verify."""

    def __init__(self, links: gate_program.Links) -> None:
        self.links, self.recorder = links, None
        self.folder = Path(os.environ["TRUESTEP_RENDEZVOUS"])  # all ranks have it, and the gate removes it

    def begin(self, recorder: Any, each_its_own: bool = False) -> None:
        """Of the case that has just begun. `each_its_own`: every rank has a recorder, and writes a file."""
        self.recorder, self.each_its_own, self.taken, self.verified, self.sent = recorder, each_its_own, 0, 0, 0

    def stop(self) -> None:
        self.recorder = None

    def of_all(self, mine: Any) -> list[Any] | None:
        """What each rank has, on rank 0."""
        self.sent += 1
        if RANK > 0:
            self.links.send(0, ("recorded", self.sent), mine)
            return None
        return [mine, *(self.links.receive(rank, ("recorded", self.sent)) for rank in range(1, RANKS))]

    def to_record(self, mine: Any) -> list[Any] | None:
        """What this rank records of a step that was taken, if anything."""
        self.taken += 1
        return [mine] if self.each_its_own else self.of_all(mine)

    def verify(self) -> None:
        """Verifies what has been recorded; behind the eighth step whenever it is twice as much as at the last time: some cases have hundreds."""
        if self.recorder is None or self.taken == self.verified or 8 < self.taken < 2 * self.verified:
            return
        self.verified = self.taken
        path = self.folder / (f"recorded.rank{RANK}.safetensors" if self.each_its_own else "recorded.safetensors")
        if RANK == 0 or self.each_its_own:
            self.recorder.write(path)
        paths = self.of_all(path) if self.each_its_own else [path]
        if RANK == 0:
            verdict = truestep.verify(paths)
            assert verdict.status in ("PASSED", "MISTRUSTED"), verdict.text  # some cases are all zeros, and prove nothing


class SCAPE(gate_program.SCAPE):
    def __init__(self, links: gate_program.Links) -> None:
        super().__init__(links)
        self.recording = Recording(links)

    def case(self, case: Message) -> Message | None:
        answer = super().case(case)
        self.recording.stop()
        # Another case may have other ways, and the same case has the same ones when it is repeated.
        self.turn = gate_refused.begin([case[key] for key in (*self.SETTINGS, "size", "density")])
        if self.optimizer is not None:
            self.way = self.turn % 4
            self.recording.begin(self.made_recorder(floats(case["parameters"])), self.way == 2)
        return answer

    def made_recorder(self, parameters: Any) -> Any:
        plain = self.asked["clip_norm"] == 0 and not self.asked["payload"].startswith("e5m2")  # else a sample needs more
        ways: list[dict[str, Any]] = [{}, {"spool": self.recording.folder / f"spool{RANK}"}, {"rank": RANK}, {"sample": 0.5} if plain else {}]
        return truestep.Recorder(self.optimizer.problem, parameters, "gate", **ways[self.way])

    def change_density(self, density: float) -> None:
        if density != self.density:
            self.recording.stop()
        super().change_density(density)

    def pieces(self, gradient: Any) -> list[Any]:
        return np.split(gradient, np.cumsum([tensor["size"] for tensor in self.asked["tensors"]])[:-1])

    def given(self, gradient: Any) -> list[Any]:
        """A piece for each tensor, without values where all are zeros."""
        return [piece if piece.view(np.uint32).any() else truestep._values.zeros(piece.size) for piece in self.pieces(gradient)]

    def take(self, gradient: Any, rate: float) -> None:
        optimizer = self.optimizer
        self.turn += 1
        way = self.turn % 5
        if way == 0:
            optimizer.step(gradient, rate)
        elif way == 1:
            optimizer.step(self.given(gradient), rate)
        elif way == 2:
            for first in (1, 0):  # the first is in vain, and may write into the gradient, too
                room = optimizer.gradient
                room[:] = gradient
                with self.in_vain() if first else gate_refused.without_wrong_steps():
                    optimizer.step_using_up(room[first:], rate)
        else:
            self.take_parts(gradient, rate, way == 4)

    @contextlib.contextmanager
    def in_vain(self) -> Iterator[None]:
        """For a step that has to be refused, and forgets its parts."""
        try:
            yield
        except truestep.Error as error:
            if type(error) is not truestep.Error:
                raise
        else:
            raise AssertionError("a step of what cannot be has been taken")

    def take_parts(self, gradient: Any, rate: float, buckets: bool) -> None:
        optimizer, tensors, pieces = self.optimizer, list(range(len(self.asked["tensors"])))[::-1], self.pieces(gradient)
        for final in (float("nan"), rate):
            with gate_refused.without_wrong_steps() if final == rate else self.in_vain():
                if buckets:
                    for some in filter(None, (tensors[:1], tensors[1:])):
                        optimizer.bucket(some, [pieces[tensor] for tensor in some])
                    optimizer.step_of_parts(final)
                    continue
                rest = gradient
                if not (gradient.view(np.uint32) == 1 << 31).any():  # no sum is -0; all others are exact here
                    optimizer.accumulate(np.where(np.arange(gradient.size) % 2 == 1, gradient, np.float32(0)))
                    rest = np.where(np.arange(gradient.size) % 2 == 1, np.float32(0), gradient)
                optimizer.step(rest, final)

    def step(self, asked: Message) -> Message:
        answer = super().step(asked)
        if answer["did"] == "halted":
            self.recording.stop()
        if answer["did"] != "taken" or self.recording.recorder is None:
            return answer
        of = self.optimizer
        if all_of_them := self.recording.to_record((floats(asked["gradient"]), of.residual)):
            gradients, residual = map(list, zip(*all_of_them))
            # To look at the coming mask is to wait for it, so one way leaves it under way.
            next_mask = {} if self.way == 0 else {"next_mask": of.next_mask}
            self.recording.recorder.step(asked["learning_rate"], [self.given(one) for one in gradients], parameters=of.parameters,
                                         first_moment=of.first_moment, residual=residual, mask=of.mask, **next_mask)
        return answer

    def view(self, asked: Message) -> Message:
        self.recording.verify()
        return super().view(asked)

    def restore(self, asked: Message) -> Message | None:
        self.recording.stop()
        return super().restore(asked)


class GASLoC(gate_program.GASLoC):
    def __init__(self, links: gate_program.Links) -> None:
        super().__init__(links)
        self.recording = Recording(links)

    def case(self, case: Message) -> None:
        gate_refused.begin([case.get(key) for key in (*self.SETTINGS, "size")])
        super().case(case)
        self.worker.restore(self.worker.state)  # changes nothing
        self.recording.stop()
        if self.size > 0:
            self.recording.begin(truestep.gasloc.Recorder(self.worker.problem, floats(case["parameters"]), "gate"))

    def round(self, asked: Message) -> Message:
        answer = super().round(asked)
        if self.ended:
            self.recording.stop()
        if self.recording.recorder is None:
            return answer
        state = self.worker.state
        try:
            all_of_them = self.recording.to_record(([floats(path) for path in asked["gradients"]], asked["learning_rates"], state))
        except EOFError:  # another worker has halted
            self.recording.stop()
            return answer
        if all_of_them:
            gradients, rates, states = zip(*all_of_them)
            self.recording.recorder.round(max(rates, key=len), gradients, **{
                name: [getattr(one, name) for one in states] for name in ("parameters", "first_moment", "second_moment") if getattr(state, name).size})
        return answer

    def view(self, asked: Message) -> Message:
        self.recording.verify()
        if not self.ended:
            state = self.worker.state
            with contextlib.suppress(truestep.Error):  # it is refused late, and changes nothing: not even the number of rounds
                self.worker.restore(dataclasses.replace(state, rounds=state.rounds + 1, parameters=np.full_like(state.parameters, np.nan)))
        return super().view(asked)

    def restore(self, asked: Message) -> None:
        self.recording.stop()
        super().restore(asked)
        self.worker.restore(self.worker.state)


class MAPL(gate_program.MAPL):
    def answer(self, asked: Message) -> Message:
        if asked["do"] == "begin":
            gate_refused.begin([asked.get(key) for key in ("width", "subspace_rank", "codewords", "groups", "rounds", "seed", "steps")])
        answer = super().answer(asked)
        if asked["do"] == "end":
            boundary = self.sides[asked["side"]].boundary
            boundary.restore(boundary.state)
        return answer


if __name__ == "__main__":
    gate_refused.before_each_call()
    gate_program.main({"scape": SCAPE, "gasloc": GASLoC, "mapl": MAPL})
