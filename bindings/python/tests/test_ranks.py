"""truestep.torch.Scape over gloo, ranks as processes: its recorded runs are the reference's in every bit, and mistakes are found."""

import json
import tempfile
import unittest
from pathlib import Path

import needs

needs.torch()
import truestep  # noqa: E402
from ranks import run  # noqa: E402

TRAINING = Path(__file__).parent / "training.py"


class Ranks(unittest.TestCase):
    def trace(self, ranks: int, mistake: str = "") -> truestep.Result:
        with tempfile.TemporaryDirectory() as folder:
            for rank, (status, text) in enumerate(run(TRAINING, ranks, folder, mistake)):
                self.assertEqual(status, 0, f"rank {rank}:\n{text}")
            timeline = Path(folder, "timeline.json")
            self.spans = [event for event in json.loads(timeline.read_text(encoding="utf-8")) if event["ph"] == "X"] if timeline.exists() else []
            return truestep.verify(f"{folder}/run.safetensors", level="exact")

    def test_two_ranks_are_exact(self) -> None:
        result = self.trace(2)
        self.assertTrue(result.passed, result.text)
        self.assertNotIn("not recorded", result.text)  # every rank's copy was compared
        for rank in range(2):
            names = {span["name"] for span in self.spans if span["pid"] == rank}
            self.assertLessEqual({"step", "local pass", "exchange", "update", "payload", "mask"}, names)

    def test_three_ranks_are_exact(self) -> None:
        result = self.trace(3)
        self.assertTrue(result.passed, result.text)
        self.assertEqual({row.status for phase in result.phases for row in phase.rows} - {"UNTESTED"}, {"PASSED"})

    def test_gradients_in_parts_are_exact(self) -> None:
        for ranks in (2, 3):
            result = self.trace(ranks, "parts")
            self.assertTrue(result.passed, result.text)
            self.assertEqual({row.status for phase in result.phases for row in phase.rows} - {"UNTESTED"}, {"PASSED"})

    def test_a_bucket_without_its_values_is_found(self) -> None:
        result = self.trace(3, "zeroed")
        self.assertFalse(result.passed)
        self.assertEqual(result.first_divergence["step"], 3)

    def test_a_rank_that_drifts_is_found(self) -> None:
        found = self.trace(2, "drift").first_divergence
        self.assertEqual((found["step"], found["result"], found["rank"]), (3, "parameters", 1))

    def test_a_lost_residual_is_found(self) -> None:
        result = self.trace(3, "residual")
        self.assertFalse(result.passed)
        self.assertEqual(result.first_divergence["step"], 3)

    def test_averaged_gradients_are_found(self) -> None:
        self.assertFalse(self.trace(3, "average").passed)

    def test_a_rank_that_leaves_ends_the_others(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (first, text), (second, _) = run(TRAINING, 2, folder, "leaves")
        self.assertEqual(second, 7)
        self.assertEqual(first, 1, text)
        self.assertFalse(Path(folder, "run.safetensors").exists())

    def test_what_is_wrong_on_one_rank_ends_the_step_on_all_and_names_it(self) -> None:
        for mistake, ranks, text in (("rate", 2, "the learning rate is nan"), ("closure", 3, "ZeroDivisionError")):
            with tempfile.TemporaryDirectory() as folder:
                for rank, (status, said) in enumerate(run(TRAINING, ranks, folder, mistake)):
                    self.assertEqual(status, 1, said)
                    self.assertRegex(said, text if rank == 1 else r"truestep._errors.Error: step \d: rank 1 refused the step, and its own error says why")


if __name__ == "__main__":
    unittest.main()
