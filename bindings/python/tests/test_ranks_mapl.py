"""A pipeline of two processes over gloo with a boundary of MAPL between them is the run in one process, bit for bit; mistakes are not."""

import tempfile
import unittest
from pathlib import Path
from typing import Any

import needs

needs.torch()
import truestep  # noqa: E402
import torch  # noqa: E402
from ranks import run  # noqa: E402

TRAINING = Path(__file__).parent / "training_mapl.py"
REPLICAS = Path(__file__).parent / "training_mapl_replicas.py"
CASES = 5


def bits(path: Path) -> list[tuple[str, bytes]]:
    saved: dict[str, Any] = torch.load(path)
    flat = [(name, saved[name]) for name in ("subspace", "codebooks")] + [(f"{name} {i}", t) for name in ("layers", "tables") for i, t in enumerate(saved[name])]
    return [(name, tensor.numpy().tobytes()) for name, tensor in flat]


class Pipeline(unittest.TestCase):
    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def start(self, ranks: int, mistake: str = "") -> None:
        for rank, (status, text) in enumerate(run(TRAINING, ranks, str(self.folder), mistake)):
            self.assertEqual(status, 0, f"rank {rank}:\n{text}")

    def differing(self, number: int) -> list[str]:
        """What the two runs of this case have not alike."""
        names = []
        for stage in range(2):
            one, two = (bits(self.folder / f"{size}-{number}-{stage}.pt") for size in (1, 2))
            self.assertEqual([name for name, _ in one], [name for name, _ in two])
            names += [f"{stage} {name}" for (name, a), (_, b) in zip(one, two) if a != b]
        return names

    def told(self) -> str:
        """The phase that the trace with a mistake first differs in."""
        verdict = truestep.verify(self.folder / "2-2.safetensors", level="rel")
        self.assertFalse(verdict.passed)
        phase: str = verdict.first_divergence["phase"]
        return phase

    def test_two_processes_are_one(self) -> None:
        self.start(1)
        self.start(2)
        for number in range(CASES):
            self.assertEqual(self.differing(number), [], f"case {number}")
            verdict = truestep.verify(self.folder / f"2-{number}.safetensors", level="rel")
            self.assertTrue(verdict.passed, str(verdict))
            if (self.folder / f"1-{number}.safetensors").exists():
                one, two = ((self.folder / f"{size}-{number}.safetensors").read_bytes() for size in (1, 2))
                self.assertEqual(one, two, f"case {number}: the traces")
                self.assertGreater(len(one), 10000)
        self.assertEqual(len(list(self.folder.glob("1-*.safetensors"))), CASES - 1)  # of a shared anchor in_one has two boundaries
        ends = [dict(bits(self.folder / f"2-{number}-0.pt"))["subspace"] for number in range(CASES)]
        self.assertEqual(len(set(ends)), CASES)  # the kinds of anchors matter
        self.assertEqual(dict(bits(self.folder / "2-3-0.pt"))["tables 0"], dict(bits(self.folder / "2-3-1.pt"))["tables 0"])

    def test_a_mistake_is_another_run(self) -> None:
        self.start(1)
        for mistake in ("part", "micro", "ids"):
            (self.folder / "store").unlink(missing_ok=True)
            self.start(2, mistake)
            self.assertIn("0 subspace", self.differing(2), mistake)
            self.assertEqual(self.told(), {"part": "gradient", "micro": "compress_gradient", "ids": "decompress"}[mistake], mistake)

    def test_another_subspace_of_the_receiver_is_in_the_trace(self) -> None:
        self.start(2, "another")
        self.assertEqual(self.told(), "subspace")

    def test_recorders_of_other_steps_are_told_on_both(self) -> None:
        for rank, (status, text) in enumerate(run(TRAINING, 2, str(self.folder), "late")):
            self.assertEqual(status, 1, text)
            self.assertIn("truestep._errors.Error: Recorder: the sender's side has recorded 5 steps behind step 0, and the receiver's 4 behind step 1", text)

    def test_messages_in_another_order_are_told_on_both(self) -> None:
        for rank, (status, text) in enumerate(run(TRAINING, 2, str(self.folder), "order")):
            self.assertEqual(status, 1, text)
            self.assertRegex(text, rf"truestep._errors.Error: the boundary's (sender|receiver), rank {1 - rank}, has .* other codewords than this side")

    def test_sides_that_differ_are_told_on_both(self) -> None:
        for rank, (status, text) in enumerate(run(TRAINING, 2, str(self.folder), "seed")):
            self.assertEqual(status, 1, text)
            self.assertRegex(text, rf"truestep._errors.Error: the boundary's (sender|receiver), rank {1 - rank}, has other settings, another subspace")

    def test_what_is_wrong_on_one_side_ends_the_step_on_both(self) -> None:
        (first, text), (second, other) = run(TRAINING, 2, str(self.folder), "rate")
        self.assertEqual((first, second), (1, 1), text + other)
        self.assertIn("the rate of the subspace is nan", text)
        self.assertIn("truestep._errors.Error: the boundary's sender, rank 0, refused this step, and its own error says why", other)

    def test_a_side_that_leaves_ends_the_other(self) -> None:
        (first, text), (second, _) = run(TRAINING, 2, str(self.folder), "leaves")
        self.assertEqual((first, second), (1, 7), text)


class Replicas(unittest.TestCase):
    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def subspaces(self, ranks: int, mistake: str = "") -> list[bytes]:
        for rank, (status, text) in enumerate(run(REPLICAS, ranks, str(self.folder), mistake)):
            self.assertEqual(status, 0, f"rank {rank}:\n{text}")
        return [torch.load(self.folder / f"{ranks}-{replica}.pt").numpy().tobytes() for replica in range(2)]

    def test_all_follow_one_mean(self) -> None:
        by_hand, over_gloo = self.subspaces(1), self.subspaces(4)
        self.assertEqual(by_hand[0], by_hand[1])
        self.assertEqual(over_gloo, by_hand)
        (self.folder / "store").unlink(missing_ok=True)
        self.assertEqual(self.subspaces(2), by_hand)

    def test_without_it_they_part(self) -> None:
        alone = self.subspaces(4, "alone")
        self.assertNotEqual(alone[0], alone[1])

    def test_another_start_is_told_on_all_senders(self) -> None:
        ended = run(REPLICAS, 4, str(self.folder), "start")
        for rank in (0, 2):
            status, text = ended[rank]
            self.assertEqual(status, 1, text)
            self.assertIn("the replicas of the boundary have other settings, rates or steps, or another A or P", text)
        for rank in (1, 3):
            self.assertIn(f"the boundary's sender, rank {rank - 1}, refused this step, and its own error says why", ended[rank][1])

    def test_what_one_replica_cannot_take_ends_the_step_on_all(self) -> None:
        by_hand = self.subspaces(1)
        for ranks in (2, 4):
            self.assertEqual(self.subspaces(ranks, "rate"), by_hand)
            (self.folder / "store").unlink(missing_ok=True)
        for rank, (status, text) in enumerate(run(REPLICAS, 4, str(self.folder), "sides")):
            self.assertEqual(status, 1, text)
            self.assertIn(("another replica of the boundary, rank 2, refused this step", "the boundary's sender, rank 0, refused this step",
                           "the boundary's receiver, rank 3, has other settings", "the boundary's sender, rank 2, has other settings")[rank], text)


if __name__ == "__main__":
    unittest.main()
