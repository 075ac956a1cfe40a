"""GASLoC: one worker, peers to write in Python, and a recorder. ``truestep.torch.GASLoC`` is the optimizer for PyTorch."""

import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from . import _library, _values
from ._communicator import Bytes, Calls, Native, ThreadPeers, Wait, bytes_at
from ._errors import Error
from ._optimizer import Stepper
from ._problem import Entry, handle_of, tensors_of
from ._values import Floats

__all__ = ["Edge", "Peers", "Problem", "Recorder", "Round", "State", "Worker"]

Edge = tuple[int, int, int, float]  # round, two workers, weight


class Peers(ABC):
    """Messages between two ranks by any means; truestep.h has the rules (truestep_messages). Both sides
    know kind, number and size of a message. A start returns at once, with a function that waits; the
    memory belongs to the message until then."""

    rank: int
    size: int

    @abstractmethod
    def start_send(self, traffic: int, peer: int, number: int, data: Bytes) -> Wait:
        """Starts a send. This rank has already asked for the peer's message of this number, if there is one."""

    @abstractmethod
    def start_receive(self, traffic: int, peer: int, number: int, into: Bytes) -> Wait:
        """Starts a receive. Messages of one peer arrive in the order in which they were sent."""

    def _native(self) -> Native:
        bridge = _MessageBridge(self)
        native = Native(_library.Handle("peers", ctypes.byref(bridge.messages)), bridge)
        bridge.native = native
        return native


class _MessageBridge(Calls):
    """Peers in Python as the functions that libtruestep calls."""

    def __init__(self, peers: Peers) -> None:
        super().__init__()
        rank, size = _library.whole(peers.rank, "the rank of peers"), _library.whole(peers.size, "their size")
        self._peers = peers
        self.messages = _library.Messages(ctypes.sizeof(_library.Messages), None, rank, size, _library.START_MESSAGE(self._send),
                                          _library.START_MESSAGE(self._receive), _library.WAIT(self._wait), None)

    def _send(self, _self: Any, traffic: int, peer: int, number: int, data: int | None, size: int, message: Any) -> int:
        return self._kept(lambda: self._keep(self._peers.start_send(traffic, peer, number, bytes_at(data, size)), message))

    def _receive(self, _self: Any, traffic: int, peer: int, number: int, data: int | None, size: int, message: Any) -> int:
        return self._kept(lambda: self._keep(self._peers.start_receive(traffic, peer, number, bytes_at(data, size)), message))


class Problem:
    """A model, a number of workers, and the settings of truestep.h: inner, beta1, beta2, epsilon, weight_decay, bias_correction, eta,
    alpha, gamma, momentum, law, seed, edges (of law="explicit"), allow_unstable, threads. What diverges is refused.

        Problem([("embed", 4096), ("norm", 64)], workers=4, law="ring", inner="adamw")
    """

    def __init__(self, tensors: Iterable[Entry], workers: int = 1, *,
                 edges: Sequence[Edge] = (), allow_unstable: bool = False, **settings: object) -> None:
        self.tensors = tensors_of(tensors)
        self.workers = _library.whole(workers, "workers")
        if not isinstance(allow_unstable, bool):
            raise Error(f"settings: allow_unstable is {allow_unstable!r}; give True or False")
        self.settings = settings | {"allow_unstable": "yes" if allow_unstable else "no"}
        try:
            if edges:
                self.settings["edges"] = ",".join(":".join(str(part) for part in edge) for edge in edges)
        except TypeError:
            raise Error(f"settings: edges is {edges!r}; give a list of (round, a, b, weight)") from None
        self._handle = handle_of("gasloc_problem", self.tensors, self.workers, self.settings)
        self.size = _library.ask("gasloc_problem_size", self._handle.pointer)


@dataclass(frozen=True)
class Round:
    """The outcome of a round."""

    number: int
    inner_steps: int  # 0 if it was skipped
    skipped: bool  # a gradient was not finite
    neighbours: int  # that it met
    sent: int  # bytes


@dataclass(frozen=True)
class State:
    """Copies of the state from which a worker continues. Parts that the inner optimizer lacks are empty."""

    rounds: int
    inner_steps: int  # of its life
    parameters: Floats
    before: Floats  # the last y, or z of momentum="gossiped"
    first_moment: Floats
    second_moment: Floats


class Worker(Stepper):
    """One worker of GASLoC, over peers (None: a single worker). All ranks make theirs together; apart from restore() and load(), no other call is collective.

        with truestep.gasloc.Worker(problem, parameters, peers) as worker:
            worker.step(gradient, 0.01)      # as often as this worker likes
            worker.round()                   # waits only for its neighbours of this round
            worker.parameters
    """

    _kind, _called = "gasloc_worker", "worker"

    def __init__(self, problem: Problem, parameters: Any, peers: Peers | ThreadPeers | None = None) -> None:
        super().__init__(problem, parameters, peers, "peers")

    def step(self, gradient: Any, learning_rate: float) -> bool:
        """An inner step. The gradient, in one array or in pieces (fp32 or bf16), is read in place. False
        if it is not finite: then this round is skipped, and theta and moments stay as they were when it
        began."""
        given, count = _values.pieces(gradient, "gradient")
        counted = ctypes.c_int32()
        self._call("step", given, count, _values.rate(learning_rate), ctypes.byref(counted))
        return counted.value != 0

    def round(self) -> Round:
        """Drift, gossip, momentum. Raises Aborted or Halted, after which there is no further round."""
        entry = _library.RoundEntry(struct_size=ctypes.sizeof(_library.RoundEntry))
        self._call("round", ctypes.byref(entry))
        return Round(entry.number, entry.inner_steps, bool(entry.skipped), entry.neighbours, entry.sent)

    @property
    def rounds(self) -> int:
        """Rounds that were made."""
        return _library.ask("gasloc_worker_rounds", self._open_handle.pointer)

    @property
    def parameters(self) -> Floats:
        """A copy of the parameters at which the next gradient is taken: x, and theta between rounds."""
        return self._look().copy()

    def _look(self) -> Floats:
        """The parameters in place, until the next call."""
        view = _library.Values()
        self._call("parameters", ctypes.byref(view))
        return _floats(self._open_handle, view)

    @property
    def state(self) -> State:
        """The state between two rounds."""
        entry = _library.GaslocState(struct_size=ctypes.sizeof(_library.GaslocState))
        self._call("state", ctypes.byref(entry))
        parts = (entry.parameters, entry.before, entry.first_moment, entry.second_moment)
        return State(entry.rounds, entry.inner_steps, *(_floats(self._open_handle, part).copy() for part in parts))

    def restore(self, state: State) -> None:
        """Continues from a state. On all ranks, each with its own, of the same round; a refused state
        changes nothing."""
        with self.or_refuse_restore():
            parts = [_values.one(getattr(state, name), name) for name in ("parameters", "before", "first_moment", "second_moment")]
            entry = _library.GaslocState(ctypes.sizeof(_library.GaslocState), _library.whole(state.rounds, "rounds", 64),
                                         _library.whole(state.inner_steps, "inner_steps", 64), *parts)
        self._restore(entry)

    @contextmanager
    def or_refuse_restore(self) -> Iterator[None]:
        """Wraps the preparation of a restore: if that fails here, it fails on all ranks, which would otherwise wait for this one."""
        try:
            yield
        except Exception:
            with suppress(Error):  # what has failed here is the error to report
                self._call("restore", None)
            raise

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves this worker's file in `folder`/round-... without waiting; the checkpoint is complete with
        the last worker's."""
        self._call("save", _library.text(folder, "folder"))

    def close(self) -> None:
        """Takes no further part; neighbours that wait for this worker are informed. A ThreadGroup's rank
        closes in its own thread."""
        super().close()
        self._native = None

    _leave = close


def _floats(owner: object, view: _library.Values) -> Floats:
    return _values.look(owner, view) if view.count else _values.empty()


class Recorder:
    """Keeps rounds in memory and writes them as a trace that `truestep verify` takes: a few rounds of a small model, of anybody's GASLoC.

        recorder = truestep.gasloc.Recorder(problem, parameters, source="my optimizer")
        recorder.round([0.01, 0.01], [[g11, g12], [g21]], drifted=[y1, y2], gossiped=[z1, z2], parameters=[theta1, theta2])
        recorder.write("run.safetensors")
    """

    def __init__(self, problem: Problem, parameters: Any, source: str = "truestep.gasloc.Recorder") -> None:
        self.problem = problem
        given, count = _values.pieces(parameters, "parameters")
        self._handle = _library.Handle("gasloc_recorder", problem._handle.pointer, _library.text(source, "source"), given, count)

    def round(self, learning_rates: Sequence[float], gradients: Sequence[Sequence[Any]], **results: Sequence[Any]) -> None:
        """Of each worker the gradients of its inner steps, and what the round left: any of inner (x), first_moment, second_moment,
        drifted (y), gossiped (z), parameters, a list with each worker's. One learning rate for each inner step of the worker that
        takes most."""
        rates = (ctypes.c_double * len(learning_rates))(*(_values.rate(rate) for rate in learning_rates))
        _values.check_given(gradients, self.problem.workers, "gradients")
        _library.call("gasloc_recorder_begin_round", self._handle.pointer, rates, len(learning_rates))
        for rank, of_rank in enumerate(gradients):
            for h, gradient in enumerate(of_rank):
                self._add(f"gradient.{h + 1}", rank, gradient)
        for name, of_ranks in results.items():
            for rank, vector in enumerate(of_ranks):
                self._add(name, rank, vector)

    def _add(self, name: str, rank: int, array: Any) -> None:
        given, count = _values.pieces(array, f"{name} of rank {rank}")
        _library.call("gasloc_recorder_add", self._handle.pointer, _library.text(name, "name"), rank, given, count)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace. Raises Error that names what is missing."""
        _library.call("gasloc_recorder_write", self._handle.pointer, _library.text(path, "path"))
