"""Fingerprints that an optimizer of PyTorch leaves while it trains, and what the tool says of them."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs

needs.torch()
import torch  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from truestep import _fingerprints  # noqa: E402

TOOL = os.environ.get("TRUESTEP_TOOL", "")


class OfOneTensor(unittest.TestCase):
    def test_values_that_do_not_lie_side_by_side(self) -> None:
        values = torch.arange(50.0)[::3]
        self.assertEqual(truestep.torch.fingerprint(values), truestep.torch.fingerprint(values.contiguous()))

    def test_the_figures_of_the_specification(self) -> None:
        self.assertEqual(truestep.torch.fingerprint(torch.tensor([1.0])), 0x2A5CF130132EA644)
        self.assertEqual(truestep.torch.fingerprint(torch.tensor([1.0, 2.0, 3.0])), 0x376C94FF622ABD95)
        self.assertEqual(truestep.torch.fingerprint(torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.bfloat16)), 0x376C94FF622ABD95)
        self.assertEqual(truestep.torch.fingerprint(torch.tensor([])), 0)

    def test_parts_add_up(self) -> None:
        values = torch.randn(1000)
        parts = truestep.torch.fingerprint(values[:300]) + truestep.torch.fingerprint(values[300:], 300)
        self.assertEqual(parts & ((1 << 64) - 1), truestep.torch.fingerprint(values))

    def test_on_a_device_it_is_the_same(self) -> None:
        values = torch.cat([torch.randn(5000), torch.tensor([0.0, -0.0, float("inf"), float("nan"), 1e-42])])
        for tensor in (values, values.to(torch.bfloat16)):
            self.assertEqual(_fingerprints._on_its_device(tensor, 17), truestep.torch.fingerprint(tensor, 17))

    def test_views_and_other_types(self) -> None:
        values = torch.randn(30, 20)
        self.assertEqual(truestep.torch.fingerprint(values.t()), truestep.torch.fingerprint(values.t().contiguous()))
        self.assertEqual(truestep.torch.fingerprint(torch.tensor([True, False])), truestep.torch.fingerprint(torch.tensor([1.0, 0.0])))
        with self.assertRaisesRegex(truestep.Error, "float64"):
            truestep.torch.fingerprint(torch.tensor([1.0], dtype=torch.float64))


class OfAScape(unittest.TestCase):
    def test_all_of_its_state_is_written(self) -> None:
        model = torch.nn.Linear(7, 5)
        optimizer = truestep.torch.Scape(model.named_parameters(), lr=0.1, density=0.3)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.prints"
            with truestep.torch.Fingerprints(optimizer, path, every=2):
                for step in range(4):
                    optimizer.zero_grad()
                    model(torch.randn(3, 7)).square().sum().backward()
                    optimizer.step()
            lines = path.read_text().splitlines()
            self.assertEqual(len(lines), 3)
            for name in ("gradient", "parameters", "first_moment", "residual", "mask"):
                self.assertIn(f'"{name}":"', lines[-1])
            last = truestep.torch.fingerprint(model.weight)
            self.assertIn(f'"parameters":"{last:016x}', lines[-1])

    def test_a_gasloc_is_as_any_optimizer_whose_ranks_differ(self) -> None:
        model = torch.nn.Linear(7, 5)
        optimizer = truestep.torch.GASLoC(model.named_parameters(), lr=0.1, inner_steps=2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.prints"
            with truestep.torch.Fingerprints(optimizer, path):
                for step in range(3):
                    optimizer.zero_grad()
                    model(torch.randn(3, 7)).square().sum().backward()
                    optimizer.step()
            first, *steps = path.read_text().splitlines()
            self.assertIn('"results":["gradient","parameters"],"replicated":[]', first)
            self.assertEqual(len(steps), 3)
            self.assertIn(f'"parameters":"{truestep.torch.fingerprint(model.weight):016x}', steps[-1])
            if TOOL:
                said = subprocess.run([TOOL, "fingerprints", path, "--with", path], capture_output=True, text=True)
                self.assertEqual(said.returncode, 0, said)

    def test_what_cannot_be_is_told(self) -> None:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(truestep.Error, "replicated names 'weights'; there are gradient, parameters"):
                truestep.torch.Fingerprints(optimizer, Path(folder) / "x", replicated=["weights"])
            prints = truestep.torch.Fingerprints(optimizer, Path(folder) / "x")
            with self.assertRaisesRegex(truestep.Error, "closure"):
                optimizer.step(lambda: 0.0)
            prints.close()
            optimizer.step()


@unittest.skipIf(not TOOL, "no TRUESTEP_TOOL")
class OfRanks(unittest.TestCase):
    """Real processes over gloo."""

    def setUp(self) -> None:
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.folder = Path(self.kept.name)

    def train(self, name: str, mistake: str = "", size: int = 3, recorded: tuple[str, ...] = ()) -> list[str]:
        script = Path(__file__).parent / "prints_training.py"
        ranks = [subprocess.Popen([sys.executable, str(script), str(rank), str(size), str(self.folder), name, mistake, *recorded])
                 for rank in range(size)]
        for process in ranks:
            process.wait(timeout=300)
        return [str(self.folder / f"{name}.rank{rank}.prints") for rank in range(size)]

    def told(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run([TOOL, "fingerprints", *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_runs_and_what_is_wrong_with_them(self) -> None:
        good = self.train("good")
        status, text = self.told(*good, "--with", *self.train("again"))
        self.assertEqual(status, 0, text)
        self.assertIn("the same on all of them: gradient, parameters, exp_avg, exp_avg_sq", text)
        self.assertIn("the same through step 6", text)

        status, text = self.told(*self.train("drift", "drift"))
        self.assertEqual(status, 1)
        self.assertIn("DIFFER, first at step 4, parameters of rank 1, tensor 0.weight", text)
        self.assertIn("gradient: 0 of 4 tensors", text)

        # Other data makes other gradients of all, from that step on.
        status, text = self.told(*good, "--with", *self.train("data", "data"))
        self.assertEqual(status, 1)
        self.assertIn("the same through step 2; DIFFER first at step 3, gradient of ranks 0, 1, 2, tensor 0.weight", text)

        # Sums in another order differ in some last bits at once; the ranks stay alike.
        order = self.train("order", "order")
        self.assertEqual(self.told(*order)[0], 0)
        status, text = self.told(*good, "--with", *order)
        self.assertEqual(status, 1)
        self.assertIn("DIFFER first at step 1, gradient", text)

        status, text = self.told(*self.train("dead", "dies"), "--with", *good)
        self.assertEqual(status, 0, text)
        self.assertIn("the same through step 4", text)

    def test_the_first_step_that_differs_is_recorded_in_full_and_explained(self) -> None:
        good, drift = self.train("good", size=2), self.train("drift", "drift", size=2)
        _, text = self.told(*good, "--with", *drift)
        self.assertIn("the same through step 3; DIFFER first at step 4, parameters of rank 1, tensor 0.weight", text)
        [recorded] = re.findall(r"truestep\.torch\.Recorder\(.*start=(\d+), steps=(\d+)\)", text)  # as the tool advises
        for name, mistake in (("right", ""), ("wrong", "drift")):
            again = self.train(name, mistake, 2, recorded)
            _, text = self.told(*(drift if mistake else good), "--with", *again)
            self.assertIn("the same through step 6\n", text)  # the rerun is that run
            result = truestep.verify(f"{self.folder}/{name}.rank*.safetensors", level="rel")
            self.assertIn("1 step after step 3", result.text)
            self.assertEqual(result.passed, not mistake, result.text)
        found = result.first_divergence
        self.assertEqual((found["phase"], found["result"], found["rank"], found["tensor"]), ("update", "parameters", 1, "0.weight"))
        self.assertTrue(result.phases.exchange.passed, result.text)

    def test_a_file_of_prints_is_no_trace(self) -> None:
        path = self.train("one", size=1)[0]
        done = subprocess.run([TOOL, "verify", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("give it to truestep fingerprints", done.stderr)


if __name__ == "__main__":
    unittest.main()
