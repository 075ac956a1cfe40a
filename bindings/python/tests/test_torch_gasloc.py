"""truestep.torch.GASLoC in one process: what PyTorch expects of an optimizer, its model's parameters, its recorder."""

import copy
import io
import tempfile
import unittest

import needs

needs.torch()
import torch  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from truestep._torch_gasloc_recorder import _common_rates, _Round  # noqa: E402
from small_model import backward, ends_of_none_and_zeros, flat, make_model  # noqa: E402


class AsPyTorchExpects(unittest.TestCase):
    def setUp(self) -> None:
        self.model = make_model()
        self.optimizer = self.make(self.model)

    def make(self, model: torch.nn.Module, **settings: object) -> truestep.torch.GASLoC:
        return truestep.torch.GASLoC(model.named_parameters(), lr=0.03, **({"inner_steps": 2} | settings))

    def train(self, steps: range) -> None:
        for step in steps:
            backward(self.model, step)
            self.optimizer.step()

    def test_the_model_holds_what_the_worker_does(self) -> None:
        """Beside a worker that is told what to do by hand: x after an inner step, theta after a round."""
        worker = truestep.gasloc.Worker(self.optimizer.problem, flat(self.model.parameters()).numpy())
        schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        for step in range(6):
            backward(self.model, step)
            worker.step(flat(p.grad for p in self.model.parameters()).numpy(), self.optimizer.param_groups[0]["lr"])
            if step % 2 == 1:
                worker.round()
            self.optimizer.step()
            schedule.step()
            self.assertEqual(flat(self.model.parameters()).numpy().tobytes(), worker.parameters.tobytes())
        self.assertEqual((worker.rounds, self.optimizer.native.rounds), (3, 3))

    def test_rounds_of_the_caller(self) -> None:
        optimizer = self.make(self.model, inner_steps=None)
        for steps in (3, 0, 1):
            for step in range(steps):
                backward(self.model, step)
                optimizer.step()
            self.assertEqual(optimizer.round().inner_steps, steps)
        with self.assertRaisesRegex(truestep.Error, "inner_steps is 0"):
            self.make(self.model, inner_steps=0)

    def test_closure_and_its_loss(self) -> None:
        def closure() -> torch.Tensor:
            backward(self.model, 1)
            return torch.tensor(4.5)
        before = flat(self.model.parameters())
        self.assertEqual(float(self.optimizer.step(closure)), 4.5)
        self.assertFalse(torch.equal(before, flat(self.model.parameters())))

    def test_a_gradient_that_is_not_finite_leaves_the_model_as_the_round_began(self) -> None:
        self.train(range(2))
        before = flat(self.model.parameters())
        self.train(range(2, 3))
        backward(self.model, 3)
        self.model[0].weight.grad[0, 0] = float("nan")
        self.optimizer.step()
        # The momentum of the round before goes on: y is theta, but what came before is another y.
        state = self.optimizer.native.state
        self.assertEqual(state.inner_steps, 2)
        self.assertEqual(state.before.tobytes(), before.numpy().tobytes())

    def test_a_state_dict_goes_on_where_it_was_saved(self) -> None:
        self.train(range(4))
        file = io.BytesIO()
        torch.save(self.optimizer.state_dict(), file)
        self.train(range(4, 8))
        right = flat(self.model.parameters())
        file.seek(0)
        saved = torch.load(file)
        self.setUp()
        self.optimizer.load_state_dict(saved)  # with the parameters
        self.train(range(4, 8))
        self.assertTrue(torch.equal(right.view(torch.int32), flat(self.model.parameters()).view(torch.int32)))

    def test_a_state_that_is_loaded_in_a_round_begins_one(self) -> None:
        """The inner step that was taken before it counts no more."""
        self.train(range(2))
        saved = self.optimizer.state_dict()
        self.train(range(2, 4))
        right = flat(self.model.parameters())
        self.train(range(4, 5))
        self.optimizer.load_state_dict(saved)
        self.train(range(2, 3))
        self.assertEqual(self.optimizer.native.rounds, 1)
        self.train(range(3, 4))
        self.assertEqual(self.optimizer.native.rounds, 2)
        self.assertTrue(torch.equal(right.view(torch.int32), flat(self.model.parameters()).view(torch.int32)))

    def test_a_gradient_that_is_none_is_zeros_and_not_the_last_one(self) -> None:
        self.assertEqual(*ends_of_none_and_zeros(self))

    def test_a_state_that_is_not_its_own_is_refused_and_changes_nothing(self) -> None:
        self.train(range(2))
        saved = self.optimizer.state_dict()
        other, lost, mixed, ranked, short = (copy.deepcopy(saved) for _ in range(5))
        other["param_groups"][0]["alpha"] = 0.5
        del lost["state"][2]["before"]
        mixed["state"][1]["rounds"] += 1
        for part in ranked["state"].values():
            part["workers"] = 2
        del short["state"][1]["second_moment"]
        self.train(range(2, 4))
        before = flat(self.model.parameters())
        for wrong, text in ((other, "other settings"), (lost, "parameter 2 has no state"), (mixed, "at the rounds"),
                            (ranked, "of rank 0 of 2, and this is rank 0 of 1"), (short, "second_moment"), ({}, "another optimizer's")):
            with self.assertRaisesRegex(truestep.Error, text):
                self.optimizer.load_state_dict(wrong)
        self.assertTrue(torch.equal(before, flat(self.model.parameters())))
        self.train(range(4, 5))
        with self.assertRaisesRegex(truestep.Error, "between two rounds"):
            self.optimizer.state_dict()

    def test_parameters_that_were_written_to_are_refused(self) -> None:
        self.train(range(2))
        of_model, of_optimizer = copy.deepcopy(self.model.state_dict()), self.optimizer.state_dict()
        self.train(range(2, 4))
        self.model.load_state_dict(of_model)
        with self.assertRaisesRegex(truestep.Error, "0.weight was changed outside the optimizer, whose state no longer fits"):
            self.train(range(4, 5))
        self.optimizer.load_state_dict(of_optimizer)
        self.train(range(2, 4))
        self.model[0].weight.data = self.model[0].weight.data.clone()
        with self.assertRaisesRegex(truestep.Error, "0.weight was changed outside the optimizer, whose state no longer fits"):
            self.train(range(4, 5))

    def test_a_write_to_bf16_ones_is_seen_by_their_values(self) -> None:
        model = make_model().to(torch.bfloat16)
        optimizer = self.make(model)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        model.load_state_dict(copy.deepcopy(model.state_dict()))  # the same values
        optimizer.step()
        with torch.no_grad():
            model[0].weight += 1.0
        with self.assertRaisesRegex(truestep.Error, "0.weight was changed outside the optimizer, whose own copy was not"):
            optimizer.step()

    def test_parameters_are_the_workers_memory(self) -> None:
        """No step copies them, and a state that is loaded leaves them where they are: whoever holds a view of one goes on seeing it."""
        weight = self.model[0].weight
        places = []
        for step in range(4):
            self.train(range(step, step + 1))
            self.assertEqual(weight.data_ptr(), self.optimizer.native._look().ctypes.data)
            places.append(weight.data_ptr())
        self.assertEqual(places[1], places[3])  # theta; x is elsewhere
        self.assertNotEqual(places[0], places[1])
        held, state, values = weight.detach(), self.optimizer.state_dict(), weight.detach().clone()
        self.train(range(4, 6))
        self.assertFalse(torch.equal(held, values))
        self.optimizer.load_state_dict(state)
        self.assertTrue(torch.equal(held, values))
        self.assertEqual(weight.data_ptr(), places[3])

    def test_groups(self) -> None:
        groups = [{"params": list(self.model[:2].parameters())}, {"params": list(self.model[3].parameters())}]
        optimizer = truestep.torch.GASLoC(groups, lr=0.01)
        with self.assertRaisesRegex(truestep.Error, "whose length is agreed on when the optimizer is made"):
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
        optimizer.param_groups[1]["lr"] = 0.02
        with self.assertRaisesRegex(truestep.Error, r"learning rates \[0.01, 0.02\]"):
            optimizer.step()
        optimizer.param_groups[0]["eta"] = optimizer.param_groups[1]["eta"] = 0.5
        with self.assertRaisesRegex(truestep.Error, "settings have changed"):
            optimizer.step()
        with self.assertRaisesRegex(truestep.Error, "0.weight is torch.float64"):
            self.make(make_model().double())

    def test_bf16_parameters_are_the_workers_rounded(self) -> None:
        narrow = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 90).to(torch.bfloat16))
        optimizer = truestep.torch.GASLoC([narrow], lr=1e-3)
        for step in range(4):
            torch.manual_seed(step)
            narrow.grad = torch.randn(90).to(torch.bfloat16)
            optimizer.step()
            exact = torch.from_numpy(optimizer.native.parameters)
            self.assertTrue(torch.equal(narrow, exact.to(torch.bfloat16)))
        self.assertFalse(torch.equal(narrow.to(torch.float32), exact))


class Recording(unittest.TestCase):
    def verdict(self, mistake: bool = False, **settings: object) -> truestep.Result:
        model = make_model()
        optimizer = truestep.torch.GASLoC(model.named_parameters(), lr=0.03, inner_steps=2, **settings)
        recorder = truestep.torch.RoundRecorder(optimizer)
        for step in range(6):
            backward(model, step)
            if mistake and step == 3:
                recorder._now.gradients[0][5] += 1.0
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            recorder.write(f"{folder}/run.safetensors")
            return truestep.verify(f"{folder}/run.safetensors")

    def test_what_is_recorded_is_exact(self) -> None:
        for settings in ({}, {"inner": "adams", "momentum": "gossiped"}, {"inner": "sgd", "eta": 0.5, "gamma": 0.0}):
            result = self.verdict(**settings)
            self.assertTrue(result.passed, result.text)
        result = self.verdict(mistake=True)
        self.assertEqual((result.first_divergence["step"], result.first_divergence["phase"]), (2, "inner"))

    def test_it_begins_with_what_the_first_step_begins_with(self) -> None:
        """Not with what was there when the recorder was made."""
        model, other = make_model(), make_model()
        with torch.no_grad():
            other[0].weight.mul_(2.0)
        saved = truestep.torch.GASLoC(other.named_parameters(), inner_steps=2).state_dict()
        optimizer = truestep.torch.GASLoC(model.named_parameters(), inner_steps=2)
        recorder = truestep.torch.RoundRecorder(optimizer)
        optimizer.load_state_dict(saved)
        for step in range(4):
            backward(model, step)
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            recorder.write(f"{folder}/run.safetensors")
            self.assertTrue(truestep.verify(f"{folder}/run.safetensors").passed)
        late = truestep.torch.RoundRecorder(truestep.torch.GASLoC(model.named_parameters(), inner_steps=2))
        late._optimizer.load_state_dict(optimizer.state_dict())
        with self.assertRaisesRegex(truestep.Error, "here or before a state was loaded"):
            late._optimizer.step()

    def test_a_step_that_raises_is_not_recorded(self) -> None:
        model = make_model()
        groups = [{"params": list(model[:2].parameters())}, {"params": list(model[3].parameters())}]
        optimizer = truestep.torch.GASLoC(groups, lr=0.03, inner_steps=2)
        recorder = truestep.torch.RoundRecorder(optimizer)
        for step in range(4):
            backward(model, step)
            if step == 1:
                optimizer.param_groups[1]["lr"] = 0.02
                with self.assertRaisesRegex(truestep.Error, "learning rates"):
                    optimizer.step()
                optimizer.param_groups[1]["lr"] = 0.03
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            recorder.write(f"{folder}/run.safetensors")
            self.assertTrue(truestep.verify(f"{folder}/run.safetensors").passed)

    def test_no_hook_stays_after_an_exception(self) -> None:
        model = make_model()
        optimizer = truestep.torch.GASLoC(model.named_parameters(), inner_steps=2)
        with self.assertRaises(ZeroDivisionError), truestep.torch.checking(optimizer):
            backward(model, 0)
            optimizer.step()
            1 / 0
        self.assertFalse(optimizer._before_round or optimizer._after_round or getattr(optimizer, "_optimizer_step_pre_hooks", None))

    def test_what_cannot_be_recorded_is_told(self) -> None:
        model = make_model()
        optimizer = truestep.torch.GASLoC(model.named_parameters())
        with self.assertRaisesRegex(truestep.Error, "given SGD, and takes truestep.torch.GASLoC"):
            truestep.torch.RoundRecorder(torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(truestep.Error, "of GASLoC there is truestep.gasloc.Recorder"):
            truestep.torch.Recorder(optimizer)
        recorder = truestep.torch.RoundRecorder(optimizer)
        with self.assertRaisesRegex(truestep.Error, r"step\(closure\) makes the gradients inside"):
            optimizer.step(lambda: None)
        backward(model, 1)
        optimizer.step()
        with self.assertRaisesRegex(truestep.Error, "begin before the first step"):
            truestep.torch.RoundRecorder(optimizer)
        with self.assertRaisesRegex(truestep.Error, "rank 1 took inner step 2 of round 3 with the learning rate 0.3, another rank with 0.2"):
            _common_rates(3, [_Round([0.1, 0.2, 0.4]), _Round([0.1, 0.3])])
        del recorder


if __name__ == "__main__":
    unittest.main()
