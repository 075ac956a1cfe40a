"""truestep.torch.GASLoC over gloo, workers as processes: its recorded runs are the reference's in every bit, and mistakes are found."""

import tempfile
import unittest
from pathlib import Path

import needs

needs.torch()
import truestep  # noqa: E402
from ranks import run  # noqa: E402

TRAINING = Path(__file__).parent / "training_gasloc.py"


class Ranks(unittest.TestCase):
    def traces(self, ranks: int, mistake: str = "") -> list[truestep.Result]:
        with tempfile.TemporaryDirectory() as folder:
            for rank, (status, text) in enumerate(run(TRAINING, ranks, folder, mistake)):
                self.assertEqual(status, 0, f"rank {rank}:\n{text}")
            return [truestep.verify(path, level="exact") for path in sorted(Path(folder).glob("run*.safetensors"))]

    def check_exact(self, ranks: int) -> None:
        results = self.traces(ranks)
        self.assertEqual(len(results), 6)
        for result in results:
            self.assertTrue(result.passed, result.text)
            self.assertTrue(result.phases.momentum.rows[0].compared > 0 and result.phases.inner.rows[0].compared > 0, result.text)

    def test_two_workers_are_exact(self) -> None:
        self.check_exact(2)

    def test_three_workers_are_exact(self) -> None:
        self.check_exact(3)

    def first_divergence(self, ranks: int, mistake: str) -> tuple[int, str]:
        [result] = self.traces(ranks, mistake)
        self.assertFalse(result.passed)
        return result.first_divergence["step"], result.first_divergence["phase"]

    def test_averaged_gradients_are_found(self) -> None:
        self.assertEqual(self.first_divergence(3, "average"), (1, "inner"))

    def test_a_stale_message_is_found(self) -> None:
        self.assertEqual(self.first_divergence(2, "stale"), (2, "momentum"))

    def test_a_momentum_that_is_lost_is_found(self) -> None:
        self.assertEqual(self.first_divergence(3, "before"), (3, "momentum"))

    def test_a_worker_that_leaves_ends_those_that_need_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (first, text), (second, _) = run(TRAINING, 2, folder, "leaves")
            self.assertEqual((first, second), (1, 7), text)
            self.assertRegex(text, "truestep._errors.Aborted: rank 0: message 3 (to|from) rank 1")
            self.assertFalse(Path(folder, "run0.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
