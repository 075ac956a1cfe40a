"""Silent bugs of others, of 2025 and 2026: each is found by a documented command, with step, tensor and rank, and the mended version passes.

TRUESTEP_FRAMEWORKS=FOLDER: what ci/frameworks has installed there; without it, the tests that need a release of another framework are skipped."""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import needs  # noqa: E402

needs.torch()
import torch  # noqa: E402
import truestep  # noqa: E402

TOOL, FRAMEWORKS = os.environ.get("TRUESTEP_TOOL", ""), os.environ.get("TRUESTEP_FRAMEWORKS", "")
if not TOOL or not hasattr(os, "fork"):
    needs.skip("no TRUESTEP_TOOL, or no fork")


class Strangers(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder, self.began = kept.name, time.monotonic()
        self.addCleanup(lambda: print(f"{self.id().rpartition('.')[2]}: {time.monotonic() - self.began:.0f} s", flush=True))

    def train(self, module: str, function: str, world: int, release: str = "", several: list[dict[str, Any]] | None = None, **options: Any) -> None:
        """``release``: a folder of TRUESTEP_FRAMEWORKS, which PYTHONPATH finds; ``several``: the options of so many trainings, which load it once."""
        environment = dict(os.environ)
        if release:
            place = Path(FRAMEWORKS, release)
            if not FRAMEWORKS or not place.exists():
                self.skipTest(f"no {release}: ci/frameworks installs it")
            environment["TORCH_EXTENSIONS_DIR"] = f"{self.folder}/extensions"  # a killed compiler leaves a lock, for which the next one would wait
            environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), str(place), f"{place}-torch", str(Path(FRAMEWORKS, "shared")), f"{place}-needs"])
        done = subprocess.run([sys.executable, str(HERE / "run.py"), module, function, str(world), self.folder, json.dumps(several or options)],
                              env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])

    def verdict(self, name: str = "run.safetensors") -> truestep.Result:
        return truestep.verify(f"{self.folder}/{name}", level="rel")

    def first(self, result: truestep.Result) -> tuple[Any, ...]:
        self.assertFalse(result.passed, result.text)
        found = result.first_divergence or {}
        return found["step"], found["result"], found["tensor"]

    def collectives(self, files: list[str], status: int) -> str:
        done = subprocess.run([TOOL, "collectives", *files], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def muon(self, release: str, *several: dict[str, Any]) -> list[truestep.Result]:
        self.train("deepspeed_zero", "train", 2, f"deepspeed-{release}", [{"optimizer": "Muon"} | options for options in several])
        return [self.verdict(f"{number}/run.safetensors") for number in range(len(several))]

    def test_01_muon_that_is_plain_sgd(self) -> None:  # deepspeed#8441
        wrong, = self.muon("0.19.3", {"stage": 0})
        self.assertEqual(self.first(wrong), (1, "first_moment", "0.weight"))
        self.assertIn("every value agrees with SGD with coupled weight decay in group 0, lr 0.02: this optimizer is not the Muon and AdamW that it claims to be",
                      "".join(wrong.what_may_be_wrong))
        mended, = self.muon("0.19.8", {"stage": 0})
        self.assertTrue(mended.passed, mended.text)

    # Known bug 11 fits none of its values: there the matrix's owner orthogonalizes it once, here both ranks do so, each from what it has reduced.
    def test_02_muon_from_a_partly_reduced_gradient(self) -> None:  # deepspeed#7807: the border of the two ranks is in the second of three matrices
        for wrong in self.muon("0.19.2", {"stage": 1}, {"stage": 2}):
            self.assertEqual(self.first(wrong), (1, "parameters", "2.weight"))
        for mended in self.muon("0.19.3", {"stage": 1}, {"stage": 2}):
            self.assertTrue(mended.passed, mended.text)

    # Known bug 12 fits none of its values: there Muon takes the step's mean several times, here each micro-batch's own mean.
    def test_03_muon_once_a_micro_batch(self) -> None:  # deepspeed#8443
        right, wrong = self.muon("0.19.3", {"stage": 3}, {"stage": 3, "parts": 2})
        self.assertTrue(right.passed, right.text)
        self.assertEqual(self.first(wrong), (1, "first_moment", "0.weight"))
        mended, = self.muon("0.19.8", {"stage": 3, "parts": 2})
        self.assertTrue(mended.passed, mended.text)

    def test_04_a_model_that_a_framework_has_flattened(self) -> None:  # deepspeed#8438: each parameter is flat, so none is a matrix
        flat = [(f"layer{i}", torch.empty(64)) for i in range(14)]
        with self.assertRaisesRegex(truestep.Error, "density is 0.1, and every tensor is always dense"):
            truestep.Problem(flat, workers=2, density=0.1)
        truestep.Problem([(name, tensor.numel(), False) for name, tensor in flat], workers=2, density=0.1)

    @unittest.skipIf(not needs.fsdp2(), "no FSDP2")
    def test_05_an_average_that_is_the_sum(self) -> None:  # pytorch#162338: what a reduce-scatter under FSDP2 gives is the sum
        self.train("sharded_runs", "sharded", 2)
        self.assertTrue(self.verdict("run.rank*.safetensors").passed)
        self.train("sharded_runs", "sharded", 2, mistake="sum")
        self.assertEqual(self.first(self.verdict("run.rank*.safetensors")), (1, "first_moment", "0.weight"))

    @unittest.skipIf(not hasattr(torch.distributed.distributed_c10d, "_register_process_group"), "watch() needs PyTorch 2.1")
    def test_06_an_average_by_the_number_of_values(self) -> None:  # torchcomms#287, its arithmetic in a process group of our own
        import watched_ranks
        from watched_runs import wrong_backend
        for mistake, status, text in (("numel", 1, "it was divided by 4096, the number of values"), ("", 0, "hold: all of")):
            watched_ranks.run(functools.partial(wrong_backend, mistake=mistake), 2, self.folder)
            self.assertIn(text, self.collectives([f"{self.folder}/run.rank{rank}.collectives" for rank in range(2)], status))

    def test_07_an_outer_step_that_goes_uphill(self) -> None:  # torchft#233
        self.train("torchft_diloco", "train", 2, "torchft-nightly-2025.6.20")
        result = self.verdict()
        self.assertEqual(self.first(result), (1, "parameters", "0.weight"))
        self.assertIn("the outer step goes uphill: the averaged drift has the wrong sign", "".join(result.what_may_be_wrong))
        self.train("torchft_diloco", "train", 2, "torchft-0.2.0")
        self.assertTrue(self.verdict().passed, self.verdict().text)

    def scape(self, mistake: str) -> tuple[truestep.Result, str]:
        """The library's verdict, and what the tool prints, which also knows the gate's known bugs."""
        from ranks import run
        folder = Path(self.folder, mistake)
        folder.mkdir()
        for rank, (status, text) in enumerate(run(HERE.parent / "real_run.py", 3, str(folder), mistake)):
            self.assertEqual(status, 0, f"rank {rank}:\n{text}")
        told = subprocess.run([TOOL, "verify", *map(str, sorted(folder.glob("run.rank*.safetensors")))], capture_output=True, text=True)
        self.assertEqual(told.returncode, 1, told.stdout + told.stderr)
        return truestep.verify(str(folder / "run.rank*.safetensors"), level="exact"), told.stdout

    def test_08_a_selection_of_values_in_place_of_magnitudes(self) -> None:  # pfl-research#65; real_run.py is right without it
        result, told = self.scape("signed")
        self.assertEqual(self.first(result)[:2], (1, "mask"))
        self.assertIn("matches known bug 14: score without magnitude", told)

    def test_09_a_residual_that_forgets_the_old_one(self) -> None:  # AiDotNet#911
        result, told = self.scape("fresh")
        self.assertEqual(self.first(result)[:2], (2, "residual"))
        self.assertIn("matches known bug 5: residual never added", told)

    def test_11_a_contribution_that_is_lost(self) -> None:  # deepspeed#8224, its mistake in a comm hook
        self.train("lost_contribution", "train", 3)
        self.assertTrue(self.verdict("run.rank*.safetensors").passed)
        self.train("lost_contribution", "train", 3, loses=True)
        self.assertEqual(self.first(self.verdict("run.rank*.safetensors")), (1, "first_moment", "module.encoder.weight"))

    def clean(self, module: str, release: str, several: list[dict[str, Any]]) -> None:
        self.train(module, "train", 2, release, several)
        for number, options in enumerate(several):
            result = self.verdict(f"{number}/run.safetensors")
            self.assertTrue(result.passed, f"{options}\n{result.text}")

    def test_clean_runs_of_deepspeed_are_true(self) -> None:
        runs = [{"optimizer": name, "stage": stage, "parts": parts} for name in ("SGD", "AdamW", "Muon") for stage, parts in ((0, 1), (1, 2), (2, 1), (3, 2))]
        self.clean("deepspeed_zero", "deepspeed-0.19.8", runs)
        self.clean("deepspeed_zero", "deepspeed-0.19.3", [run for run in runs if run["optimizer"] != "Muon"])

    def test_megatron(self) -> None:
        self.clean("megatron_distributed", "megatron-core-0.19.2", [{}, {"distributed": False}, {"parts": 2, "overlap": True}, {"clip": 0.5}])
        self.train("megatron_distributed", "train", 2, "megatron-core-0.19.2", loses=True)
        self.assertEqual(self.first(self.verdict()), (1, "first_moment", "0.weight"))

    def test_torchtitan(self) -> None:
        self.clean("torchtitan_llama", "torchtitan-0.3.0", [{}, {"parts": 2}, {"replicas": 2, "max_norm": 0.01}])
        self.train("torchtitan_llama", "train", 2, "torchtitan-0.3.0", averages=True, max_norm=100.0)
        wrong = self.verdict()
        self.assertEqual(self.first(wrong), (1, "first_moment", "tok_embeddings.weight"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
