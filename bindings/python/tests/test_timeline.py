"""A timeline of ranks that are threads, over the library's exchanges and over Python's own."""

import json
import queue
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

import needs

needs.numpy()
import numpy as np  # noqa: E402

import truestep  # noqa: E402

TENSORS = [("a", 70), ("b", 9, True)]
STEPS, RANKS = 3, 2


class Queues(truestep.Communicator):
    """Exchanges between threads over a queue for each pair."""

    def __init__(self, rank: int, queues: dict[tuple[int, int], "queue.Queue[bytes]"]) -> None:
        self.rank, self.size, self.queues = rank, RANKS, queues

    def start_all_to_all(self, traffic: int, send: list[Any], receive: list[Any]) -> Any:
        for to, data in enumerate(send):
            self.queues[self.rank, to].put(data.tobytes())

        for source, room in enumerate(receive):  # now, since waits may come in another order than starts
            room[:] = np.frombuffer(self.queues[source, self.rank].get(timeout=60), np.uint8)
        return lambda: None

    def start_all_gather(self, traffic: int, send: Any, receive: list[Any]) -> Any:
        return self.start_all_to_all(traffic, [send] * self.size, receive)


class Timelines(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "run.json"

    def spans(self, communicator: Any) -> list[dict[str, Any]]:
        failures: list[BaseException] = []

        def run(rank: int) -> None:
            try:
                parameters = np.linspace(-1, 1, 79, dtype=np.float32)
                with truestep.Optimizer(truestep.Problem(TENSORS, RANKS, density=0.1), parameters, communicator(rank)) as optimizer:
                    for step in range(STEPS):
                        optimizer.step(np.linspace(rank - 1, step, 79, dtype=np.float32), 0.01)
            except BaseException as error:  # noqa: BLE001  (of a thread)
                failures.append(error)

        with truestep.timeline(self.file):
            threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        return [event for event in json.loads(self.file.read_text(encoding="utf-8")) if event["ph"] == "X"]

    def test_has_the_phases_of_each_rank_and_what_it_waited_for(self) -> None:
        queues: dict[tuple[int, int], queue.Queue[bytes]] = {(a, b): queue.Queue() for a in range(RANKS) for b in range(RANKS)}
        group = truestep.ThreadGroup(RANKS)
        for communicator in (group.communicator, lambda rank: Queues(rank, queues)):
            spans = self.spans(communicator)
            for rank in range(RANKS):
                names = [span["name"] for span in spans if span["pid"] == rank]
                self.assertEqual(names.count("step"), STEPS)
                self.assertLessEqual({"local pass", "select", "exchange", "update", "payload", "mask", "moment"}, set(names))
            self.assertTrue(all(span["args"]["bytes"] > 0 for span in spans if span["name"] == "moment"))

    def test_ends_with_its_block(self) -> None:
        with truestep.timeline(self.file):
            pass
        self.assertEqual(self.file.read_text(encoding="utf-8"), "")
        group = truestep.ThreadGroup(1)
        with truestep.Optimizer(truestep.Problem(TENSORS, 1), np.zeros(79, np.float32), group.communicator(0)) as optimizer:
            optimizer.step(np.ones(79, np.float32), 0.01)
        self.assertEqual(self.file.read_text(encoding="utf-8"), "")

    def test_a_file_that_cannot_be_written_is_named(self) -> None:
        for wrong in ("/nowhere/at/all.json", "", None):
            with self.assertRaises(truestep.Error) as refused, truestep.timeline(wrong):  # type: ignore[arg-type]
                pass
            self.assertNotIn("\n", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
