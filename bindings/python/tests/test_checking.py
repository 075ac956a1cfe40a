"""Optimizers of torch.optim, claimed, recorded and verified by truestep.torch.checking: right runs pass, wrong ones are named, and what cannot be
read is refused."""

import copy
import tempfile
import unittest
from pathlib import Path
from typing import Any

import needs

needs.torch()
import torch  # noqa: E402
from ranks import run  # noqa: E402
from small_model import backward, make_model  # noqa: E402

import truestep  # noqa: E402
import truestep.torch  # noqa: E402

if not hasattr(torch.optim, "Muon"):
    needs.skip(f"torch {torch.__version__} has no torch.optim.Muon")
RUNS = Path(__file__).parent / "checked_runs.py"
DRAWN = {1: 12, 2: 4, 3: 3}  # runs, by ranks


def three_lines(optimizer: Any, steps: int = 3, **options: Any) -> Any:
    """The training loop that the tests of one process share."""
    model = options.pop("model")
    with truestep.torch.checking(optimizer, **options) as checked:
        for step in range(steps):
            backward(model, step)
            optimizer.step()
    return checked


def setUpModule() -> None:
    kept = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(kept.cleanup)
    tempfile.tempdir = kept.name  # where the traces of runs stay that have not passed


class OneProcess(unittest.TestCase):
    def setUp(self) -> None:
        self.model = make_model()

    def test_a_right_run_passes_and_leaves_nothing(self) -> None:
        checked = three_lines(torch.optim.AdamW(self.model.named_parameters(), lr=0.01), model=self.model)
        self.assertTrue(checked.result.passed)
        self.assertEqual(checked.result.level, "REL")
        self.assertTrue(checked.result.phases.mean.passed)
        self.assertFalse(checked.path.parent.exists())

    def test_the_trace_stays_where_it_is_wanted(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # a second run takes the first one's place
                three_lines(torch.optim.SGD(self.model.parameters(), lr=0.01), model=self.model, folder=folder)
            self.assertTrue(truestep.verify(f"{folder}/run.rank*.safetensors", level="rel").passed)

    def test_ours(self) -> None:
        three_lines(truestep.torch.Scape(self.model.named_parameters(), lr=0.03, density=0.2), model=self.model, level="exact")
        model = make_model()
        three_lines(truestep.torch.GASLoC(model.parameters(), lr=0.03, inner_steps=1), model=model, level="exact")

    def test_a_run_that_goes_on(self) -> None:
        optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        for step in range(3):
            backward(self.model, step)
            optimizer.step()
        three_lines(optimizer, model=self.model, start=2)

    def test_a_wrong_optimizer_is_named(self) -> None:
        class Wrong(torch.optim.AdamW):
            @torch.no_grad()
            def step(self, closure: Any = None) -> None:
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-group["lr"])
        with self.assertRaisesRegex(AssertionError, r"(?s)First divergence: step 1, phase update, .*tensor 0\.weight.*"
                                    r"every value agrees with plain SGD, lr 0\.01: this optimizer is not the AdamW that it claims to be"):
            three_lines(Wrong(self.model.named_parameters(), lr=0.01), model=self.model)

    def test_a_step_that_calls_its_base_class(self) -> None:
        class Mine(torch.optim.AdamW):
            def step(self, closure: Any = None) -> None:
                super().step()
        claim = truestep.torch.claim(torch.optim.AdamW(self.model.parameters(), lr=0.01))  # PyTorch then calls hooks in both steps
        self.assertTrue(three_lines(Mine(self.model.parameters(), lr=0.01), model=self.model, claim=claim).result.passed)

    def test_an_exception_of_the_loop_is_the_loops(self) -> None:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        with self.assertRaisesRegex(ZeroDivisionError, "division"), truestep.torch.checking(optimizer):
            backward(self.model, 0)
            optimizer.step()
            1 / 0
        three_lines(optimizer, model=self.model)

    def test_a_step_twice(self) -> None:
        first, rest = torch.optim.SGD(self.model[0].parameters(), lr=0.1), torch.optim.SGD(self.model[3].parameters(), lr=0.1)
        with self.assertRaisesRegex(truestep.Error, "SGD takes a second step before all of SGD and SGD have"), truestep.torch.checking([first, rest]):
            backward(self.model, 0)
            first.step()
            first.step()


class Refused(unittest.TestCase):
    def setUp(self) -> None:
        self.model = make_model()

    def test_what_no_rule_has(self) -> None:
        parameters = list(self.model.parameters())
        other = torch.optim.SGD(parameters, lr=0.1)
        tensor = torch.optim.AdamW(parameters, lr=torch.tensor(0.1))
        for optimizer, text in (
                (torch.optim.AdamW(parameters, amsgrad=True), "AdamW has amsgrad=True, and no rule"), (torch.optim.SGD(parameters, maximize=True), "maximize=True"),
                (torch.optim.Adam(parameters, differentiable=True), "differentiable=True"), (tensor, "lr of AdamW is a tensor"),
                (torch.optim.NAdam(parameters), "NAdam is none of torch.optim's SGD, Adam, AdamW and Muon"),
                (torch.optim.Adam(parameters, eps=0.0), "epsilon of Adam is 0.0, outside"), (torch.optim.SGD(parameters, momentum=1.0), "momentum of SGD is 1.0"),
                ([other, torch.optim.Adagrad(parameters)], "Adagrad is none of"), ([], "nothing to train"),
                (torch.optim.SGD(copy.deepcopy(self.model).to(torch.bfloat16).named_parameters()), "0.weight is bfloat16; torch.optim then rounds"),
                (torch.optim.SGD(copy.deepcopy(self.model).double().parameters()), "parameter0 is float64"),
                (torch.optim.SGD(copy.deepcopy(self.model).requires_grad_(False).parameters()), "nothing to train")):
            with self.subTest(text), self.assertRaisesRegex(truestep.Error, text), truestep.torch.checking(optimizer):
                pass

    def test_what_changes_on_the_way(self) -> None:
        def decay(optimizer: torch.optim.Optimizer) -> None:
            optimizer.param_groups[0]["weight_decay"] = 0.3

        def more(optimizer: torch.optim.Optimizer) -> None:
            extra = torch.nn.Parameter(torch.ones(3))
            extra.grad = torch.ones(3)
            optimizer.add_param_group({"params": [("extra", extra)]})

        def none(_: torch.optim.Optimizer) -> None:
            self.model[0].bias.grad = None
        for change, text in ((decay, "weight_decay of param group 0 has changed from 0.01 to 0.3; only learning rates"), (more, "other parameters than"),
                             (none, "0.bias has no gradient in this step, and PyTorch leaves it out")):
            optimizer = torch.optim.AdamW(self.model.named_parameters())
            with self.subTest(text), self.assertRaisesRegex(truestep.Error, text), truestep.torch.checking(optimizer):
                backward(self.model, 0)
                change(optimizer)
                optimizer.step()

    def test_no_backward_and_a_closure(self) -> None:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        backward(self.model, 0)
        with self.assertRaisesRegex(truestep.Error, "no backward"), truestep.torch.checking(optimizer):
            optimizer.step()
        with self.assertRaisesRegex(truestep.Error, r"step\(closure\)"), truestep.torch.checking(optimizer):
            optimizer.step(lambda: backward(self.model, 0))

    def test_a_claim_of_other_parameters(self) -> None:
        claim = truestep.torch.claim(torch.optim.SGD(make_model().parameters()))
        with self.assertRaisesRegex(truestep.Error, "does not have all parameters of the claim"):
            three_lines(torch.optim.SGD(self.model.parameters()), model=self.model, claim=claim)

    def test_a_scale_that_rounds(self) -> None:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        with self.assertRaisesRegex(truestep.Error, "a scaler skips each of several"):
            truestep.torch.claim([optimizer, optimizer], scaler=torch.amp.GradScaler(needs.DEVICE))
        with self.assertRaisesRegex(truestep.Error, "the scaler's scale is 1000.0, and dividing by it rounds"):
            three_lines(optimizer, model=self.model, scaler=torch.amp.GradScaler(needs.DEVICE, init_scale=1000.0))


class Ranks(unittest.TestCase):
    def test_right_runs_pass(self) -> None:
        for size in (1, 2, 3):
            with self.subTest(size), tempfile.TemporaryDirectory() as folder:
                for status, text in run(RUNS, size, folder, f"{100 * size}:{DRAWN[size]}"):
                    self.assertEqual((status, text), (0, ""))

    def test_each_rank_is_judged_by_its_own_number_of_micro_batches(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(RUNS, 3, folder, "uneven"), [(0, "")] * 3)

    def test_bugs_are_named(self) -> None:
        for bug, text in {"sgd": r"step 1, phase momentum, .*every value agrees with plain SGD in group 0",
                          "micro": "step 1, phase momentum, .*tensor matrix.weight", "ndim": "step 1, phase update, .*tensor matrix.weight",
                          "lost": "step 1, phase mean, .*tensor matrix.weight", "drift": "step 3, phase update, parameters of rank 1, tensor last.bias",
                          "stale": "step 2, phase mean", "unclipped": "step 1, phase clip.*"}.items():
            with self.subTest(bug), tempfile.TemporaryDirectory() as folder:
                for status, told in run(RUNS, 2, folder, bug):
                    self.assertEqual(status, 1)
                    self.assertRegex(told, rf"(?s)not true at level REL!\s+First divergence: {text}")


if __name__ == "__main__":
    unittest.main()
