"""truestep.gasloc over NumPy: workers as threads, over peers written in Python, and recorded; what is wrong is told."""

import dataclasses
import queue
import tempfile
import threading
import unittest
from collections.abc import Callable

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402
from test_scape import FIXTURES, SIZE, TENSORS, Mute, in_threads, made_up  # noqa: E402

ROUNDS = 4


class Queues(truestep.gasloc.Peers):
    """A queue for each pair of ranks. `failure`: raised by the wait for what comes."""

    def __init__(self, rank: int, queues: list[list["queue.Queue[tuple[int, int, bytes]]"]], failure: Exception | None = None) -> None:
        self.rank, self.size = rank, len(queues)
        self._queues, self._failure = queues, failure

    def start_send(self, traffic: int, peer: int, number: int, data: np.ndarray) -> Callable[[], None]:
        self._queues[self.rank][peer].put((traffic, number, data.tobytes()))
        return lambda: None

    def start_receive(self, traffic: int, peer: int, number: int, into: np.ndarray) -> Callable[[], None]:
        def wait() -> None:
            if self._failure is not None:
                raise self._failure
            came = self._queues[peer][self.rank].get(timeout=60)
            assert came[:2] == (traffic, number), (came[:2], traffic, number)
            into[:] = np.frombuffer(came[2], np.uint8)
        return wait


def queues_of(ranks: int) -> Callable[[int], Queues]:
    queues = [[queue.Queue() for _ in range(ranks)] for _ in range(ranks)]
    return lambda rank: Queues(rank, queues)


class Worker(unittest.TestCase):
    def run_of(self, ranks: int, peers: Callable[[int], object], wrong: str = "", **settings: object) -> truestep.Result:
        """Workers take different numbers of inner steps; what they make, recorded and verified."""
        problem = truestep.gasloc.Problem(TENSORS, ranks, **settings)
        steps = [[(rank + number) % 3 for rank in range(ranks)] for number in range(ROUNDS)]
        gradients = [[[made_up(1000 * number + 100 * rank + h) for h in range(steps[number][rank])] for rank in range(ranks)]
                     for number in range(ROUNDS)]
        seen: list[list[dict[str, np.ndarray]]] = [[] for _ in range(ranks)]

        def run(rank: int) -> None:
            with truestep.gasloc.Worker(problem, made_up(1), peers(rank)) as worker:
                for number in range(ROUNDS):
                    for h, gradient in enumerate(gradients[number][rank]):
                        self.assertTrue(worker.step([gradient[:40], gradient[40:]], 0.01 * (h + 1)))
                    results = {"inner": worker.parameters}
                    went = worker.round()
                    self.assertEqual((went.number, went.inner_steps, went.skipped), (number + 1, steps[number][rank], False))
                    self.assertEqual(went.sent, 4 * SIZE * went.neighbours)
                    state = worker.state
                    self.assertEqual((worker.rounds, state.rounds), (number + 1, number + 1))
                    results |= {"drifted": state.before, "first_moment": state.first_moment, "second_moment": state.second_moment,
                                "parameters": worker.parameters}
                    seen[rank].append({name: vector for name, vector in results.items() if vector.size})
                    if number == 1:  # on all ranks; the moment is the same, but where something is wrong
                        worker.restore(dataclasses.replace(state, **({wrong: state.parameters} if wrong else {})))
        in_threads(ranks, run)
        recorder = truestep.gasloc.Recorder(problem, made_up(1), source="test_gasloc")
        for number in range(ROUNDS):
            rates = [0.01 * (h + 1) for h in range(max(steps[number]))]
            recorder.round(rates, gradients[number], **{name: [seen[rank][number][name] for rank in range(ranks)]
                                                        for name in seen[0][number]})
        with tempfile.TemporaryDirectory() as folder:
            recorder.write(f"{folder}/run.safetensors")
            return truestep.verify(f"{folder}/run.safetensors", level="exact")

    def check(self, ranks: int, peers: Callable[[int], object], **settings: object) -> None:
        result = self.run_of(ranks, peers, **settings)
        self.assertTrue(result.passed, result.text)

    def test_alone(self) -> None:
        self.check(1, lambda rank: None)

    def test_threads(self) -> None:
        self.check(2, truestep.ThreadGroup(2).peers, inner="adams", bias_correction="momentum")
        self.check(3, truestep.ThreadGroup(3).peers, law="explicit", edges=[(1, 0, 1, 0.5), (2, 1, 2, 0.25), (2, 0, 2, 0.5)], threads=2)
        self.check(5, truestep.ThreadGroup(5).peers, law="ring", inner="sgd", eta=0.7)

    def test_peers_in_python(self) -> None:
        self.check(2, queues_of(2))
        self.check(4, queues_of(4), law="complete", alpha=0.5)

    def test_a_state_that_is_wrong_is_found(self) -> None:
        found = self.run_of(3, truestep.ThreadGroup(3).peers, "before", law="ring").first_divergence
        self.assertEqual((found["step"], found["phase"]), (3, "momentum"))

    def test_what_peers_raise_is_the_cause(self) -> None:
        for failure, text in ((OSError("the cable is out"), "from rank 1 has failed: OSError: the cable is out"),
                              (Mute(), r"Mute, whose text cannot be made \(RuntimeError\)")):
            queues = [[queue.Queue() for _ in range(2)] for _ in range(2)]
            with self.assertRaisesRegex(truestep.Aborted, text) as raised:
                truestep.gasloc.Worker(truestep.gasloc.Problem(TENSORS, 2), made_up(1), Queues(0, queues, failure))
            self.assertIs(raised.exception.__cause__, failure)

    def test_a_checkpoint_is_of_any_number_of_workers(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            def save(rank: int) -> None:
                with truestep.gasloc.Worker(truestep.gasloc.Problem(TENSORS, 2), made_up(1), two(rank)) as worker:
                    worker.step(made_up(rank), 0.01)
                    worker.round()
                    worker.save(folder)
            two = truestep.ThreadGroup(2).peers
            in_threads(2, save)
            with truestep.gasloc.Worker(truestep.gasloc.Problem(TENSORS), made_up(1)) as worker:
                worker.load(f"{folder}/round-0000000001")
                self.assertEqual((worker.rounds, worker.state.inner_steps), (1, 1))

    def test_a_checkpoint_of_an_earlier_version_goes_on(self) -> None:
        peers = [truestep.ThreadGroup(2).peers for _ in range(2)]

        def run(rank: int) -> None:
            problem = truestep.gasloc.Problem(TENSORS, 2)
            with truestep.gasloc.Worker(problem, made_up(1), peers[0](rank)) as old, \
                    truestep.gasloc.Worker(problem, made_up(1), peers[1](rank)) as new:
                old.load(FIXTURES / "held/gasloc/round-0000000002")
                for worker, first in ((new, 1), (old, 3)):
                    for number in range(first, 4):
                        worker.step(made_up(10 * number + rank), 0.01)
                        worker.round()
                self.assertEqual(old.parameters.tobytes(), new.parameters.tobytes())
        in_threads(2, run)

    def test_a_gradient_that_is_not_finite_skips_the_round(self) -> None:
        with truestep.gasloc.Worker(truestep.gasloc.Problem(TENSORS), made_up(1)) as worker:
            bad = made_up(2)
            bad[7] = np.inf
            self.assertTrue(worker.step(made_up(2), 0.01))
            self.assertFalse(worker.step(bad, 0.01))
            with self.assertRaisesRegex(truestep.Error, "between two rounds"):
                _ = worker.state
            went = worker.round()
            self.assertEqual((went.skipped, went.inner_steps), (True, 0))
            self.assertEqual(worker.parameters.tobytes(), made_up(1).tobytes())

    def test_a_worker_that_goes_ends_those_that_wait(self) -> None:
        peers = truestep.ThreadGroup(2).peers

        def run(rank: int) -> None:
            with truestep.gasloc.Worker(truestep.gasloc.Problem(TENSORS, 2), made_up(1), peers(rank)) as worker:
                if rank == 0:
                    with self.assertRaisesRegex(truestep.Aborted, "rank 1"):
                        worker.round()
                    with self.assertRaisesRegex(truestep.Halted, "round 1 was interrupted"):
                        worker.round()
                    with self.assertRaisesRegex(truestep.Error, "make another, over other peers"):
                        worker.load("/anywhere")
        in_threads(2, run)

    def test_what_one_worker_cannot_load_is_told_to_all(self) -> None:
        peers, saved = truestep.ThreadGroup(2).peers, threading.Barrier(2)
        with tempfile.TemporaryDirectory() as folder:
            def run(rank: int) -> None:
                worker = truestep.gasloc.Worker(truestep.gasloc.Problem(TENSORS, 2), made_up(1), peers(rank))
                state = worker.state
                worker.save(folder)
                saved.wait()
                path = f"{folder}/round-0000000000" if rank == 0 else "/there/is/none"
                with self.assertRaisesRegex(truestep.Error, "^rank 1: /there/is/none" if rank == 0 else "^/there/is/none"):
                    worker.load(path)
                with self.assertRaisesRegex(truestep.Error, "^(rank 1: )?restore: parameters"):
                    worker.restore(state if rank == 0 else dataclasses.replace(state, parameters=state.parameters[1:].copy()))
                worker.restore(state)
                worker.step(made_up(2), 0.01)
                self.assertEqual(worker.round().neighbours, 1)
            in_threads(2, run)

    def test_bad_input_is_told(self) -> None:
        for settings, text in (({"law": "star"}, "star"), ({"gamma": 0.9}, "gamma"), ({"density": 0.1}, "'density=0.1' is not a setting"),
                               ({"edges": [(1, 0, 0, 1.0)], "law": "explicit"}, "edges of round 1")):
            with self.assertRaisesRegex(truestep.Error, text):
                truestep.gasloc.Problem(TENSORS, 8, **settings)
        problem, group = truestep.gasloc.Problem(TENSORS, 1), truestep.ThreadGroup(1)
        with self.assertRaisesRegex(truestep.Error, "given communicator, and takes peers"):
            truestep.gasloc.Worker(problem, made_up(1), group.communicator(0))
        with self.assertRaisesRegex(truestep.Error, "given peers, and takes communicator"):
            truestep.Optimizer(truestep.Problem(TENSORS), made_up(1), group.peers(0))
        with self.assertRaisesRegex(truestep.Error, "of GASLoC there is truestep.gasloc.Recorder"):
            truestep.Recorder(problem, made_up(1))
        worker = truestep.gasloc.Worker(problem, made_up(1))
        worker.close()
        with self.assertRaisesRegex(truestep.Error, "has been closed"):
            worker.round()
        recorder = truestep.gasloc.Recorder(problem, made_up(1))
        recorder.round([0.01], [[]], parameters=[made_up(1)])
        with self.assertRaisesRegex(truestep.Error, "round 1 has 1 learning rates, and at most 0 inner steps"):
            recorder.write("/nowhere.safetensors")


if __name__ == "__main__":
    unittest.main()
