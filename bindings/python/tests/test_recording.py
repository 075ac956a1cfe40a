"""Recorders of real ranks over gloo, each of which writes its own file, without talking to the others."""

import contextlib
import resource
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path

import needs

needs.torch()
import numpy as np  # noqa: E402
import truestep.torch  # noqa: E402
import torch  # noqa: E402
from plain_adams import PlainAdamS  # noqa: E402

RECORDING = Path(__file__).parent / "recording.py"
LIMIT = 300  # seconds, against a hang; nothing depends on it


def run(ranks: int, folder: str, what: str) -> list[tuple[int, str]]:
    """Each rank's exit status and what it said."""
    processes = [subprocess.Popen([sys.executable, str(RECORDING), str(rank), str(ranks), folder, what], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(ranks)]
    try:
        said = [process.communicate(timeout=LIMIT)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, said)]


@contextlib.contextmanager
def small_disk(kilobytes: int) -> Iterator[str]:
    """A folder in which the disk is soon full: a file system of its own, or, where none may be mounted, a limit on every file's size."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder]
        try:
            mounted = subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            mounted = False
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if not mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, limits[1]))
        try:
            yield folder
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            if mounted:
                subprocess.run(["umount", "-l", folder], check=True)  # a recorder that has failed may still hold its file


FULL = "No space left on device|File too large"


class OwnFiles(unittest.TestCase):
    def verdict(self, ranks: int, what: str, level: str) -> truestep.Result:
        with tempfile.TemporaryDirectory() as folder:
            for rank, (status, text) in enumerate(run(ranks, folder, what)):
                self.assertEqual(status, 0, f"rank {rank}:\n{text}")
            self.assertEqual(sorted(path.name for path in Path(folder).glob("run*")),
                             [f"run.rank{rank}.safetensors" for rank in range(ranks)])
            return truestep.verify(f"{folder}/run.rank*.safetensors", level)

    def test_scape_is_exact(self) -> None:
        result = self.verdict(3, "scape", "exact")
        self.assertTrue(result.passed, result.text)
        self.assertNotIn("not recorded", result.text)  # every rank's copy was compared

    def test_a_part_is_exact(self) -> None:
        result = self.verdict(2, "part", "exact")
        self.assertTrue(result.passed, result.text)
        self.assertIn("sampled: 138 of 252 coordinates", result.text)
        self.assertIn("begins after step 1", result.text)
        self.assertIn("the clip norm is taken from the trace", result.text)
        self.assertEqual(result.json["rows"][0]["compared"], 2)  # steps

    def test_a_part_whose_payload_is_scaled_is_exact_and_a_wrong_scale_is_found(self) -> None:
        result = self.verdict(3, "part-e5m2", "exact")
        self.assertTrue(result.passed, result.text)
        self.assertIn("the payload's scale is taken from the trace", result.text)
        found = self.verdict(3, "scale", "exact").first_divergence
        self.assertEqual((found["step"], found["phase"], found["result"]), (2, "exchange", "exponent"))

    def test_a_rank_that_drifts_is_found(self) -> None:
        found = self.verdict(2, "drift", "exact").first_divergence
        self.assertEqual((found["step"], found["result"], found["rank"]), (3, "parameters", 1))

    def test_behind_ddp_each_ranks_own_gradient_is_recorded(self) -> None:
        """Seen after the reduction, all ranks would have the same gradient, and a wrong mean of them would pass."""
        result = self.verdict(3, "ddp", "rel")
        self.assertTrue(result.passed, result.text)
        wrong = self.verdict(3, "first", "rel")
        self.assertFalse(wrong.passed, wrong.text)
        self.assertFalse(wrong.phases.exchange.passed)

    def test_behind_ddp_a_part_in_mid_run_is_right_and_what_goes_wrong_in_it_is_found(self) -> None:
        for what in ("ddp-part", "ddp-early"):  # what went wrong before is in the state that it begins with
            result = self.verdict(3, what, "rel")
            self.assertTrue(result.passed, result.text)
            self.assertIn("2 steps after step 2", result.text)
            self.assertIn("sampled: 138 of 252 coordinates", result.text)
        wrong = self.verdict(3, "ddp-late", "rel")
        self.assertFalse(wrong.passed, wrong.text)
        found = wrong.first_divergence
        self.assertEqual((found["step"], found["phase"], found["result"], found["tensor"]), (2, "exchange", "first_moment", "0.weight"))

    def test_two_reductions_before_a_step_are_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for status, text in run(2, folder, "twice"):
                self.assertEqual(status, 1)
                self.assertIn("has not seen every gradient once", text)

    def test_who_is_killed_leaves_no_trace_and_the_others_what_they_have(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (first, text), (second, _) = run(2, folder, "leaves")
            self.assertEqual((first, second), (1, 7), text)
            self.assertFalse(Path(folder, "run.rank1.safetensors").exists())
            with self.assertRaisesRegex(truestep.Error, "rank 1 of 2 is missing"):
                truestep.verify(f"{folder}/run.rank*.safetensors")
            with self.assertRaisesRegex(truestep.Error, "it is what rank 0 of 2 has written"):
                truestep.verify(f"{folder}/run.rank0.safetensors")


class FullDisk(unittest.TestCase):
    STEPS = 30

    def train(self, make: object) -> tuple[int, list[str]]:
        """With what `make` makes of an optimizer looking on: steps that were taken, and warnings."""
        model, taken = torch.nn.Linear(64, 32), 0
        optimizer = truestep.torch.Scape(model.named_parameters(), density=0.5)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with make(optimizer):  # type: ignore[operator]
                for _ in range(self.STEPS):
                    optimizer.zero_grad()
                    model(torch.randn(5, 64)).square().mean().backward()
                    optimizer.step()
                    taken += 1
            return taken, [str(warning.message) for warning in warned]

    def test_it_ends_the_training_or_the_recording(self) -> None:
        with small_disk(64) as folder:
            path = f"{folder}/run.rank{{rank}}.safetensors"
            with self.assertRaisesRegex(truestep.Error, FULL):
                self.train(lambda optimizer: truestep.torch.Recorder(optimizer, path=path, budget=1))
            taken, warned = self.train(lambda optimizer: truestep.torch.Recorder(optimizer, path=path, budget=1, on_error="warn"))
            self.assertEqual(taken, self.STEPS)
            self.assertEqual(len(warned), 1, warned)
            self.assertRegex(warned[0], f"^Recorder: this rank records no more, and there is no {folder}/run.rank0.safetensors: .*({FULL})")
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_it_is_full_when_the_trace_is_made(self) -> None:
        """The spool of three steps fits, and the trace beside it does not."""
        with small_disk(104) as folder:
            path = f"{folder}/run.rank{{rank}}.safetensors"
            taken, warned = self.train(lambda optimizer: truestep.torch.Recorder(optimizer, path=path, steps=3, on_error="warn"))
            self.assertEqual((taken, len(warned)), (self.STEPS, 1), warned)
            self.assertRegex(warned[0], FULL)
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_fingerprints_end_with_the_last_step_that_fits(self) -> None:
        with small_disk(4) as folder:
            with self.assertRaisesRegex(truestep.Error, FULL):
                self.train(lambda optimizer: truestep.torch.Fingerprints(optimizer, f"{folder}/run.prints"))
            taken, warned = self.train(lambda optimizer: truestep.torch.Fingerprints(optimizer, f"{folder}/run.prints", on_error="warn"))
            self.assertEqual((taken, len(warned)), (self.STEPS, 1), warned)
            self.assertRegex(warned[0], f"^Fingerprints: {folder}/run.prints ends before step [0-9]+, and nothing more is written to it: .*({FULL})")

    def test_without_a_path_ranks_cannot_part(self) -> None:
        optimizer = truestep.torch.Scape(torch.nn.Linear(4, 3).parameters())
        with self.assertRaisesRegex(truestep.Error, "on_error is 'warn', and without path"):
            truestep.torch.Recorder(optimizer, on_error="warn")


class OneProcess(unittest.TestCase):
    def record(self, path: str, **settings: object) -> truestep.torch.Recorder:
        self.model = torch.nn.Linear(4, 3)
        self.optimizer = truestep.torch.Scape(self.model.named_parameters(), density=0.5)
        return truestep.torch.Recorder(self.optimizer, path=path, **settings)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.randn(5, 4)).square().mean().backward()
        self.optimizer.step()

    def test_a_run_that_fails_is_recorded_up_to_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ZeroDivisionError, "mine"):
                with self.record(f"{folder}/run.rank{{rank}}.safetensors"):
                    self.step()
                    self.step()
                    raise ZeroDivisionError("mine")
            self.step()  # not recorded any more
            result = truestep.verify(f"{folder}/run.rank0.safetensors")
            self.assertTrue(result.passed, result.text)
            self.assertEqual(result.json["rows"][0]["compared"], 2)  # steps

    def test_a_recorder_that_comes_later_begins_with_what_is_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.model = torch.nn.Linear(4, 3)
            self.optimizer = truestep.torch.Scape(self.model.named_parameters(), density=0.5)
            self.step()
            self.step()
            with truestep.torch.Recorder(self.optimizer, path=f"{folder}/run.rank{{rank}}.safetensors"):
                self.step()
                self.step()
            result = truestep.verify(f"{folder}/run.rank0.safetensors")
            self.assertTrue(result.passed, result.text)
            self.assertIn("begins after step 2", result.text)

    def test_of_bf16_parameters_a_part_begins_with_the_masters(self) -> None:
        for late in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                self.model = torch.nn.Linear(40, 30).to(torch.bfloat16)
                self.optimizer = truestep.torch.Scape(self.model.named_parameters(), lr=0.01, density=0.5)
                settings = {"path": f"{folder}/run.rank{{rank}}.safetensors"} | ({} if late else {"start": 4})
                for step in range(6):
                    if step == (3 if late else 0):
                        recorder = truestep.torch.Recorder(self.optimizer, **settings)
                    self.optimizer.zero_grad()
                    self.model(torch.randn(5, 40).to(torch.bfloat16)).square().mean().backward()
                    self.optimizer.step()
                recorder.close()
                result = truestep.verify(f"{folder}/run.rank0.safetensors")
                self.assertTrue(result.passed, result.text)
                self.assertIn("begins after step 3", result.text)

    def test_parameters_without_a_master_are_their_own(self) -> None:
        weight, norm = torch.nn.Parameter(torch.ones(6).to(torch.bfloat16)), torch.nn.Parameter(torch.full((2,), 0.3))
        self.optimizer = torch.optim.SGD([weight, norm], lr=0.1)
        self.optimizer.state[weight].update(master=torch.full((6,), 1.001), step=0)
        recorder = truestep.torch.Recorder(self.optimizer, truestep.Problem([("all", 8)], algorithm="adams", weight_decay=0), state={"master": "parameters"})
        self.optimizer.step()  # without gradients AdamS, too, leaves all as it was
        with tempfile.TemporaryDirectory() as folder:
            recorder.write(f"{folder}/run")
            self.assertEqual(truestep.verify(f"{folder}/run", start="start").phases.update.rows[0].mismatched, 0)

    def test_a_state_that_is_loaded_after_the_recorder_was_made_is_what_it_begins_with(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            old = self.record(f"{folder}/old.rank{{rank}}.safetensors")
            for _ in range(3):
                self.step()
            old.close()
            saved = self.model.state_dict(), self.optimizer.state_dict()
            with self.record(f"{folder}/run.rank{{rank}}.safetensors"):
                self.model.load_state_dict(saved[0])
                self.optimizer.load_state_dict(saved[1])
                self.step()
                self.step()
            result = truestep.verify(f"{folder}/run.rank0.safetensors")
            self.assertTrue(result.passed, result.text)
            self.assertIn("begins after step 3", result.text)

    def adams(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)

    def adams_step(self, optimizer: torch.optim.Optimizer) -> None:
        """AdamW's, made AdamS's."""
        self.model.zero_grad()
        self.model(torch.randn(5, 4)).square().mean().backward()
        for state in optimizer.state.values():
            state["exp_avg_sq"] = state["exp_avg"].square()
        optimizer.step()

    def test_another_optimizer_that_goes_on_begins_where_its_state_says(self) -> None:
        self.model = torch.nn.Linear(4, 3)
        problem = truestep.Problem([("w", 12), ("b", 3)], algorithm="adams")
        optimizer = self.adams()
        for _ in range(3):
            self.adams_step(optimizer)
        saved, optimizer = optimizer.state_dict(), self.adams()
        with tempfile.TemporaryDirectory() as folder:
            with truestep.torch.Recorder(optimizer, problem, path=f"{folder}/run.rank{{rank}}.safetensors", state={"exp_avg": "first_moment"}):
                optimizer.load_state_dict(saved)
                self.adams_step(optimizer)
                self.adams_step(optimizer)
            result = truestep.verify(f"{folder}/run.rank0.safetensors", "rel")
            self.assertTrue(result.passed, result.text)
            self.assertIn("2 steps after step 3", result.text)

    def test_another_optimizer_that_goes_on_and_does_not_say_where_is_told(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.foreign(f"{folder}/run.rank{{rank}}.safetensors", 1.0)
            problem = truestep.Problem([("all", 23)], algorithm="adams", bias_correction="none", weight_decay=0.0)
            truestep.torch.Recorder(self.optimizer, problem, path=f"{folder}/again.rank{{rank}}.safetensors", state={"exp_avg": "first_moment"})
            with self.assertRaisesRegex(truestep.Error, "has a state already, and its number of steps is unknown without 'step'"):
                self.step()

    def test_a_part_whose_payload_is_scaled_needs_the_scale(self) -> None:
        problem = truestep.Problem([("w", 5), ("b", 3)], payload="e5m2")
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/run.safetensors"
            for exponent in (None, -126):
                recorder = truestep.Recorder(problem, np.zeros(8, np.float32), sample=["w"])
                recorder.step(0.01, [np.zeros(8, np.float32)], parameters=np.zeros(8, np.float32), exponent=exponent)
                if exponent is None:
                    with self.assertRaisesRegex(truestep.Error, "step 1 has no exponent"):
                        recorder.write(path)
                    continue
                recorder.write(path)
                with self.assertRaisesRegex(truestep.Error, "the exponent is 128"):
                    recorder.step(0.01, [np.zeros(8, np.float32)], exponent=128)

    def foreign(self, path: str, mistake: float, **settings: object) -> truestep.Result:
        """AdamS in plain PyTorch, whose first moment goes wrong by that factor in the third step."""
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        self.optimizer = PlainAdamS(self.model.parameters(), False)
        problem = truestep.Problem([(name, p.numel()) for name, p in self.model.named_parameters()], algorithm="adams",
                                bias_correction="none", weight_decay=0.0)
        recorder = truestep.torch.Recorder(self.optimizer, problem, path=path, state={"exp_avg": "first_moment"}, **settings)
        for step in range(1, 6):
            self.step()
            if step == 2:
                self.optimizer.state[self.model[0].weight]["exp_avg"] *= mistake
        recorder.close()
        return truestep.verify(path.replace("{rank}", "0"), "rel")

    def test_of_another_optimizer_the_steps_and_tensors_that_are_asked_for(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/run.rank{{rank}}.safetensors"
            result = self.foreign(path, 1.0, start=2, steps=3, sample=["0.weight", "1.bias"])
            self.assertTrue(result.passed, result.text)
            self.assertIn("3 steps after step 1", result.text)
            self.assertIn("sampled: 14 of 23 coordinates", result.text)
            found = self.foreign(path, 1.5, sample="0.weight").first_divergence
            self.assertEqual((found["step"], found["tensor"]), (3, "0.weight"))
            # Before the first step that is recorded it does not show.
            self.assertTrue(self.foreign(path, 1.5, start=3).passed)
            with self.assertRaisesRegex(truestep.Error, "so that no step has been recorded"):
                self.foreign(path, 1.0, start=9)

    def in_groups(self, mistake: str) -> PlainAdamS:
        """Weights decay and biases do not, which learn faster."""
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        weights, biases = ([p for p in self.model.parameters() if (p.dim() > 1) == decays] for decays in (True, False))
        return PlainAdamS([{"params": weights, "weight_decay": 0.1}, {"params": []}, {"params": biases, "lr": 0.03}], mistake)

    def test_each_param_group_has_its_learning_rate_and_its_decay(self) -> None:
        for mistake in ("", "lr", "weight_decay"):
            self.optimizer = self.in_groups(mistake)
            problem = truestep.Problem(self.optimizer.param_groups, algorithm="adams", bias_correction="none")
            self.assertEqual([(tensor.size, tensor.param_group) for tensor in problem.tensors], [(12, 0), (6, 0), (3, 1), (2, 1)])
            self.assertEqual(problem.settings["weight_decay"], [0.1, 0.0])
            with tempfile.TemporaryDirectory() as folder:
                with truestep.torch.Recorder(self.optimizer, problem, path=f"{folder}/run.rank{{rank}}.safetensors", state={"exp_avg": "first_moment"}):
                    for _ in range(5):
                        self.step()
                        self.optimizer.param_groups[0]["lr"] *= 0.5
                        self.optimizer.param_groups[2]["lr"] += 0.01
                result = truestep.verify(f"{folder}/run.rank*.safetensors", "rel")
            self.assertEqual(result.passed, not mistake, result.text)
            if mistake:
                self.assertEqual((result.first_divergence["step"], result.first_divergence["tensor"]), (1, "parameter2"))

    def test_a_problem_without_the_optimizers_groups_is_refused(self) -> None:
        """One learning rate for all would make a right run a wrong one."""
        optimizer = self.in_groups("")
        of_one = [("all", sum(p.numel() for p in self.model.parameters()))]
        for tensors in (of_one, [(f"t{i}", p.numel(), False, i % 2) for i, p in enumerate(p for g in optimizer.param_groups for p in g["params"])]):
            with self.assertRaisesRegex(truestep.Error, r"have the learning rates \[0.01, 0.01, 0.03\], and the problem's parameter groups are not"):
                truestep.torch.Recorder(optimizer, truestep.Problem(tensors, algorithm="adams"))
        optimizer.param_groups[2]["lr"] = 0.01
        with self.assertRaisesRegex(truestep.Error, r"have the weight decays \[0.1, 0.0\], and the problem has one for all"):
            truestep.torch.Recorder(optimizer, truestep.Problem(of_one, algorithm="adams"))
        optimizer.param_groups[2]["weight_decay"] = 0.1
        truestep.torch.Recorder(optimizer, truestep.Problem(of_one, algorithm="adams"))
        with self.assertRaisesRegex(truestep.Error, "1 learning rates are given, and the problem has 2 parameter groups"):
            truestep.Recorder(truestep.Problem(optimizer.param_groups), np.zeros(23, np.float32)).begin(0.01)
        groups = [{"params": (p for p in self.model.parameters() if p.dim() > 1), "always_dense": True}, {"params": [self.model[0].bias]}]
        self.assertEqual([tensor[1:] for tensor in truestep.Problem(groups, density=1).tensors], [(12, True, 0), (6, True, 0), (3, True, 1)])
        with self.assertRaisesRegex(truestep.Error, "2 parameter groups; the sharded implementation has one learning rate"):
            truestep.Optimizer(truestep.Problem(optimizer.param_groups), np.zeros(23, np.float32))

    def test_what_cannot_be_is_told(self) -> None:
        with self.assertRaisesRegex(truestep.Error, "give one with the rank in its name"):
            self.record("run.safetensors")
        with self.assertRaisesRegex(truestep.Error, "start is 0"):
            self.record("/tmp/run.rank{rank}.safetensors", start=0)
        with self.assertRaisesRegex(truestep.Error, "there is no tensor 'x'"):
            self.record("/tmp/run.rank{rank}.safetensors", sample="x")
        with self.assertRaisesRegex(truestep.Error, "/no/such/folder"):
            self.record("/no/such/folder/run.rank{rank}.safetensors")
        with tempfile.TemporaryDirectory() as folder:
            recorder = self.record(f"{folder}/run.rank{{rank}}.safetensors")
            with self.assertRaisesRegex(truestep.Error, r"close\(\) finishes it"):
                recorder.write("x")
            with self.assertRaisesRegex(truestep.Error, "no step has been recorded"):
                recorder.close()
            recorder.close()  # once is enough


if __name__ == "__main__":
    unittest.main()
