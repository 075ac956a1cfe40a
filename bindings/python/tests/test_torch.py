"""truestep.torch.Scape in one process: what PyTorch expects of an optimizer, and the same bits as the reference."""

import concurrent.futures
import copy
import io
import os
import tempfile
import threading
import unittest
from collections.abc import Callable
from unittest import mock

import needs

needs.torch()
import numpy as np  # noqa: E402
import torch  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from plain_adams import PlainAdamS  # noqa: E402
from truestep._c10d import ProcessGroup  # noqa: E402
from small_model import backward, ends_of_none_and_zeros, flat, make_model  # noqa: E402


class AsPyTorchExpects(unittest.TestCase):
    def setUp(self) -> None:
        self.model = make_model()
        self.optimizer = truestep.torch.Scape(self.model.named_parameters(), lr=0.03, density=0.2, clip_norm=0.7)

    def train(self, steps: range) -> None:
        for step in steps:
            backward(self.model, step)
            self.optimizer.step()

    def test_the_bits_of_the_reference(self) -> None:
        reference = truestep.reference.Reference(self.optimizer.problem, flat(self.model.parameters()).numpy())
        schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        for step in range(6):
            backward(self.model, step)
            reference.step([flat(p.grad for p in self.model.parameters()).numpy()], self.optimizer.param_groups[0]["lr"])
            self.optimizer.step()
            schedule.step()
            self.assertEqual(flat(self.model.parameters()).numpy().tobytes(), reference.parameters.tobytes())
        self.assertLess(self.optimizer.param_groups[0]["lr"], 0.03)

    def test_what_is_dense_by_default(self) -> None:
        dense = {tensor.name: tensor.always_dense for tensor in self.optimizer.problem.tensors}
        self.assertEqual(dense, {"0.weight": False, "0.bias": True, "1.weight": True, "1.bias": True, "3.weight": False,
                                 "3.bias": True})

    def test_closure_and_its_loss(self) -> None:
        def closure() -> torch.Tensor:
            backward(self.model, 1)
            return torch.tensor(4.5)
        before = flat(self.model.parameters())
        self.assertEqual(float(self.optimizer.step(closure)), 4.5)
        self.assertFalse(torch.equal(before, flat(self.model.parameters())))

    def test_a_state_dict_goes_on_where_it_was_saved(self) -> None:
        self.train(range(4))
        file = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        self.train(range(4, 8))
        right = flat(self.model.parameters())
        file.seek(0)
        saved = torch.load(file)
        self.setUp()
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.train(range(4, 8))
        self.assertTrue(torch.equal(right.view(torch.int32), flat(self.model.parameters()).view(torch.int32)))

    def test_the_scale_of_e5m2_is_part_of_a_state(self) -> None:
        for payload in ("e5m2", "e5m2_both"):
            with self.subTest(payload):
                self.the_scale_is_part_of_a_state(payload)

    def the_scale_is_part_of_a_state(self, payload: str) -> None:
        settings = {"lr": 0.01, "payload": payload, "density": 0.5}
        self.model = make_model()
        self.optimizer = truestep.torch.Scape(self.model.parameters(), **settings)
        self.train(range(3))
        saved = self.optimizer.state_dict()
        first = next(iter(saved["state"].values()))
        self.assertEqual(first["exponent"], self.optimizer.native.exponent)
        self.assertGreater(first["exponent"], -126)
        weights = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.train(range(3, 5))
        right = flat(self.model.parameters())
        self.model = make_model()
        self.optimizer = truestep.torch.Scape(self.model.parameters(), **settings)
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(saved)
        self.train(range(3, 5))
        self.assertTrue(torch.equal(right.view(torch.int32), flat(self.model.parameters()).view(torch.int32)))

    def test_a_state_that_is_not_its_own_is_refused_and_changes_nothing(self) -> None:
        self.train(range(3))
        saved = self.optimizer.state_dict()
        other = copy.deepcopy(saved)
        other["param_groups"][0]["clip_norm"] = 0.1
        lost = copy.deepcopy(saved)
        del lost["state"][2]["residual"]
        mixed = copy.deepcopy(saved)
        mixed["state"][1]["step"] += 1
        for wrong, text in ((other, "other settings"), (lost, "parameter 2 has no state"), (mixed, "at the steps")):
            with self.assertRaisesRegex(truestep.Error, text):
                self.optimizer.load_state_dict(wrong)
        self.assertEqual(self.optimizer.native.steps, 3)
        self.train(range(3, 5))

    def test_a_state_of_another_optimizer_is_refused(self) -> None:
        adam = torch.optim.Adam(self.model.parameters())
        backward(self.model, 1)
        adam.step()
        with self.assertRaisesRegex(truestep.Error, "no clip_norm, so they are another optimizer's; give a state_dict"):
            self.optimizer.load_state_dict(adam.state_dict())
        for whole in ({}, {"model": {}, "optimizer": self.optimizer.state_dict()}):
            with self.assertRaisesRegex(truestep.Error, "no entry, so they are another optimizer's"):
                self.optimizer.load_state_dict(whole)
        parts = truestep.torch.Scape([{"params": list(part.parameters())} for part in self.model], lr=0.03, density=0.2, clip_norm=0.7)
        with self.assertRaisesRegex(truestep.Error, r"have \[6\] parameters, and this optimizer's \[2, 2, 0, 2\]"):
            parts.load_state_dict(self.optimizer.state_dict())

    def test_what_the_library_refuses_has_not_changed_the_groups_either(self) -> None:
        self.train(range(3))
        saved = copy.deepcopy(self.optimizer.state_dict())
        saved["param_groups"][0]["lr"] = 0.5
        saved["state"][0]["first_moment"][1, 2] = float("nan")
        with self.assertRaisesRegex(truestep.Error, "first moment|finite"):
            self.optimizer.load_state_dict(saved)
        self.assertEqual(self.optimizer.param_groups[0]["lr"], 0.03)
        self.train(range(3, 5))

    def test_a_state_of_another_rank_or_number_of_ranks_is_refused(self) -> None:
        models, group = [make_model() for _ in range(2)], truestep.ThreadGroup(2)
        saved: list[dict[str, object]] = [{}, {}]
        both = threading.Barrier(2, timeout=300)

        def run(rank: int) -> None:
            optimizer = truestep.torch.Scape(models[rank].parameters(), lr=0.03, density=0.2, clip_norm=0.7,
                                          communicator=group.communicator(rank))
            optimizer.step()
            saved[rank] = optimizer.state_dict()
            both.wait()
            with self.assertRaisesRegex(truestep.Error, f"of rank {1 - rank} of 2, and this is rank {rank} of 2; each rank loads what it"):
                optimizer.load_state_dict(saved[1 - rank])
            optimizer.load_state_dict(saved[rank])
            optimizer.native.close()
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(run, rank) for rank in range(2)]:
                done.result()
        with self.assertRaisesRegex(truestep.Error, r"of rank 0 of 2, and this is rank 0 of 1; .* optimizer.native.save\(folder\)"):
            self.optimizer.load_state_dict(saved[0])
        for part in saved[0]["state"].values():  # as they once were
            del part["workers"], part["rank"]
        self.optimizer.load_state_dict(saved[0])

    def test_parameters_are_one_memory(self) -> None:
        self.model[0].weight.data.fill_(0.25)
        self.assertEqual(float(self.optimizer.native.parameters[3]), 0.25)

    def test_parameters_that_have_left_it_are_refused(self) -> None:
        def replaced(model: torch.nn.Sequential) -> None:
            model[3].weight.data = model[3].weight.data.clone()

        def reshaped(model: torch.nn.Sequential) -> None:
            model[3].weight.data = model[3].weight.data.view(12, 3)

        def as_vector(model: torch.nn.Sequential) -> None:
            vector = torch.nn.utils.parameters_to_vector(model.parameters())
            torch.nn.utils.vector_to_parameters(vector, model.parameters())

        for leave, name in ((replaced, "3.weight"), (reshaped, "3.weight"), (as_vector, "0.weight"),
                            (lambda model: model.to(torch.float64).to(torch.float32), "0.weight"),
                            (lambda model: model.to(torch.float64), "0.weight"), (lambda model: model.share_memory(), "0.weight")):
            self.setUp()
            self.train(range(2))
            before, saved = self.optimizer.native.parameters.copy(), self.optimizer.state_dict()
            leave(self.model)
            with self.assertRaisesRegex(truestep.Error, f"^{name} has left the optimizer's memory: .*copy_.*, or make a new optimizer"):
                self.optimizer.step()
            with self.assertRaisesRegex(truestep.Error, f"^{name} has left the optimizer's memory"):
                self.optimizer.load_state_dict(saved)
            self.assertEqual((self.optimizer.native.steps, self.optimizer.native.parameters.tobytes()), (2, before.tobytes()))

    def test_what_has_no_gradient_only_decays(self) -> None:
        before = flat(self.model.parameters())
        self.optimizer.zero_grad()
        self.optimizer.step()
        decay = torch.tensor(1.0 - 0.03 * 0.1, dtype=torch.float64).to(torch.float32)
        self.assertTrue(torch.equal(flat(self.model.parameters()), before * decay))

    def test_a_gradient_that_is_none_is_zeros_and_not_the_last_one(self) -> None:
        self.assertEqual(*ends_of_none_and_zeros(self))

    def test_a_refused_step_can_be_left_out(self) -> None:
        self.train(range(2))
        before = flat(self.model.parameters())
        backward(self.model, 2)
        self.model[3].weight.grad[1, 4] = float("inf")
        with self.assertRaisesRegex(truestep.RefusedStep, "tensor 3.weight, index 16"):
            self.optimizer.step()
        self.assertTrue(torch.equal(before, flat(self.model.parameters())))
        self.train(range(3, 4))

    def test_groups(self) -> None:
        groups = [{"params": list(self.model[:2].parameters()), "always_dense": True}, {"params": list(self.model[3].parameters())}]
        optimizer = truestep.torch.Scape(groups, lr=0.01)
        self.assertEqual([tensor.always_dense for tensor in optimizer.problem.tensors], [True] * 4 + [False, True])
        with self.assertRaisesRegex(truestep.Error, "make a new optimizer with all parameters"):
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
        optimizer.param_groups[1]["lr"] = 0.02
        with self.assertRaisesRegex(truestep.Error, r"learning rates \[0.01, 0.02\]"):
            optimizer.step()
        optimizer.param_groups[1]["lr"] = 0.01
        optimizer.param_groups[0]["eps"] = optimizer.param_groups[1]["eps"] = 1.0
        with self.assertRaisesRegex(truestep.Error, "settings have changed"):
            optimizer.step()

    def test_what_it_cannot_step_is_told(self) -> None:
        with self.assertRaisesRegex(truestep.Error, "0.weight is torch.float64"):
            truestep.torch.Scape(make_model().double().named_parameters())
        with self.assertRaisesRegex(truestep.Error, "parameter0: it is on the meta device"):
            truestep.torch.Scape([torch.nn.Parameter(torch.zeros(3, device="meta"))])
        with self.assertRaisesRegex(truestep.Error, "density is 0.1, and every tensor is always dense"):
            truestep.torch.Scape([torch.nn.Parameter(torch.zeros(1000))], density=0.1)
        with self.assertRaisesRegex(truestep.Error, "has not been initialized"):
            truestep.torch.Scape(make_model().parameters(), process_group=object())


class Gradients(unittest.TestCase):
    @unittest.skipUnless(hasattr(torch.Tensor, "grad_dtype"), "this PyTorch has no grad_dtype: a gradient has its parameter's dtype")
    def test_bf16_is_what_it_stands_for(self) -> None:
        wide, narrow = torch.nn.Parameter(torch.arange(60.0) / 7), torch.nn.Parameter(torch.arange(60.0) / 7)
        optimizers = [truestep.torch.Scape([p], lr=0.1, always_dense=False, density=0.5) for p in (wide, narrow)]
        narrow.grad_dtype = torch.bfloat16
        for step in range(4):
            torch.manual_seed(step)
            narrow.grad = torch.randn(60).to(torch.bfloat16)
            wide.grad = narrow.grad.to(torch.float32)
            for optimizer in optimizers:
                optimizer.step()
            self.assertTrue(torch.equal(wide, narrow))


    def test_bf16_parameters_are_their_masters_rounded(self) -> None:
        start = torch.linspace(-1.0, 1.0, 90).to(torch.bfloat16)
        wide, narrow = torch.nn.Parameter(start.to(torch.float32)), torch.nn.Parameter(start.clone())
        make = lambda p: truestep.torch.Scape([p], lr=0.01, always_dense=False, density=0.5)  # noqa: E731
        (exact, rounded), saved = (make(wide), make(narrow)), None
        for step in range(8):
            torch.manual_seed(step)
            narrow.grad = torch.randn(90).to(torch.bfloat16)
            wide.grad = narrow.grad.to(torch.float32)
            exact.step()
            rounded.step()
            self.assertEqual(rounded.native.parameters.tobytes(), exact.native.parameters.tobytes())
            self.assertTrue(torch.equal(narrow, wide.to(torch.bfloat16)))
            if step == 3:  # a new one goes on with the masters, not with what they were rounded to
                saved, narrow = rounded.state_dict(), torch.nn.Parameter(torch.zeros(90, dtype=torch.bfloat16))
                rounded = make(narrow)
                rounded.load_state_dict(saved)
        self.assertFalse(torch.equal(narrow.to(torch.float32), wide))

    def test_bf16_parameters_that_were_written_without_their_masters_are_refused(self) -> None:
        def step(model: torch.nn.Module, optimizer: truestep.torch.Scape) -> None:
            model.zero_grad()
            model(torch.ones(3, 7, dtype=torch.bfloat16)).sum().backward()
            optimizer.step()
        model = make_model().to(torch.bfloat16)
        optimizer = truestep.torch.Scape(model.named_parameters(), lr=0.05)
        step(model, optimizer)
        of_model, of_optimizer = copy.deepcopy(model.state_dict()), optimizer.state_dict()
        step(model, optimizer)
        model.load_state_dict(model.state_dict())  # the same values
        model.to(torch.float32).to(torch.bfloat16)
        step(model, optimizer)
        model.load_state_dict(of_model)
        for _ in range(2):
            with self.assertRaisesRegex(truestep.Error, "0.weight was changed outside the optimizer, whose fp32 master was not"):
                optimizer.step()
        optimizer.load_state_dict(of_optimizer)
        step(model, optimizer)
        optimizer.load_state_dict(of_optimizer)
        model.load_state_dict(of_model)  # the other way round
        step(model, optimizer)
        model[3].bias.data = model[3].bias.data + 1.0
        with self.assertRaisesRegex(truestep.Error, "3.bias was changed outside the optimizer"):
            optimizer.step()
        optimizer = truestep.torch.Scape(model.named_parameters(), lr=0.05)
        step(model, optimizer)
        model.to(torch.float32)
        with self.assertRaisesRegex(truestep.Error, "0.weight was changed outside the optimizer"):
            optimizer.step()


class Recording(unittest.TestCase):
    def verdict(self, recorder: truestep.torch.Recorder, level: str) -> truestep.Result:
        with tempfile.TemporaryDirectory() as folder:
            recorder.write(f"{folder}/run.safetensors")
            return truestep.verify(f"{folder}/run.safetensors", level)

    def test_an_optimizer_of_somebody_else(self) -> None:
        """AdamS as somebody may write it: right, it passes (at REL: PyTorch's root is not always IEEE's); with the new moment in the
        denominator it does not."""
        for mistake in (False, True):
            model = make_model()
            mine = PlainAdamS(model.parameters(), mistake)
            problem = truestep.Problem([(name, p.numel()) for name, p in model.named_parameters()], algorithm="adams",
                                    bias_correction="none", weight_decay=0.0)
            recorder = truestep.torch.Recorder(mine, problem, state={"exp_avg": "first_moment"})
            for step in range(4):
                backward(model, step)
                mine.step()
            result = self.verdict(recorder, "rel")
            self.assertEqual(result.passed, not mistake, result.text)
            self.assertEqual(result.phases.exchange.passed, True)  # the moment is right in both

    def test_a_closure_is_refused(self) -> None:
        optimizer = truestep.torch.Scape(make_model().parameters())
        truestep.torch.Recorder(optimizer)
        with self.assertRaisesRegex(truestep.Error, r"step\(closure\) makes the gradients inside"):
            optimizer.step(lambda: None)

    def test_a_problem_of_named_parameters_is_cut_as_the_optimizer_cuts_them(self) -> None:
        model = make_model()
        named = truestep.Problem(model.named_parameters(), density=0.3)
        self.assertEqual(named.tensors, truestep.torch.Scape(model.named_parameters(), density=0.3).problem.tensors)
        self.assertEqual(truestep.gasloc.Problem(model.named_parameters()).tensors, named.tensors)
        self.assertEqual(truestep.Problem([("w", model[0].weight, True), ("b", 3)]).tensors,
                         [truestep.Tensor("w", model[0].weight.numel(), True), truestep.Tensor("b", 3)])

    def test_a_foreign_optimizer_needs_a_problem(self) -> None:
        with self.assertRaisesRegex(truestep.Error, "RMSprop is none of .*, or a truestep.Problem"):
            truestep.torch.Recorder(torch.optim.RMSprop(make_model().parameters(), lr=0.1))

    def test_a_problem_of_other_tensors_is_told(self) -> None:
        """Where weights decay and biases do not, param groups have another order than the model's names."""
        model = make_model()
        groups = [{"params": [p for p in model.parameters() if (p.dim() < 2) == flat]} for flat in (False, True)]
        optimizer = torch.optim.AdamW(groups)
        with self.assertRaisesRegex(truestep.Error, "0.bias has 12 parameters in the problem, and in its place the optimizer has a tensor of 36"):
            truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters()))
        with self.assertRaisesRegex(truestep.Error, "the problem has 84 parameters, and the optimizer 159"):
            truestep.torch.Recorder(optimizer, truestep.Problem([("w", model[0].weight)]))
        truestep.torch.Recorder(optimizer, truestep.Problem([("all", 159)]))  # somebody's one vector

    def test_a_name_that_the_optimizer_does_not_keep_is_told(self) -> None:
        """Not taken for zeros."""
        model = make_model()
        for watch in (lambda optimizer: truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters(), algorithm="adams"),
                                                             state={"exp_avgs": "first_moment"}),
                      lambda optimizer: truestep.torch.Fingerprints(optimizer, os.devnull, state=["exp_avgs"])):
            optimizer = torch.optim.AdamW(model.parameters())
            watch(optimizer)
            backward(model, 0)
            with self.assertRaisesRegex(truestep.Error, "state names 'exp_avgs', which AdamW does not keep; there are exp_avg, exp_avg_sq, step"):
                optimizer.step()


class Messages(unittest.TestCase):
    """What fails among the messages of an exchange: none is on its way any more when libtruestep takes the memory back."""

    def start(self, receives: list[object], sends: list[object]) -> Callable[[], None]:
        """An exchange of rank 0 with two others. A message's wait raises what is given; what is no message cannot be started."""
        group = ProcessGroup.__new__(ProcessGroup)
        group.rank, group.size, group._global, group._group, group._number = 0, 3, [0, 1, 2], None, iter(range(9))
        self.works: list[mock.Mock] = [work for work in (*receives, *sends) if isinstance(work, mock.Mock)]
        with mock.patch("torch.distributed.irecv", side_effect=receives), mock.patch("torch.distributed.isend", side_effect=sends):
            return group.start_all_gather(0, np.ones(2, np.uint8), [np.zeros(2, np.uint8) for _ in range(3)])

    def check_all_were_waited_for(self) -> None:
        self.assertEqual([work.wait.call_count for work in self.works], [1] * len(self.works))

    def test_the_first_error_of_a_wait_comes_after_all(self) -> None:
        first, second = mock.Mock(**{"wait.side_effect": OSError("first")}), mock.Mock(**{"wait.side_effect": OSError("second")})
        wait = self.start([mock.Mock(), first], [second, mock.Mock()])
        with self.assertRaisesRegex(OSError, "first"):
            wait()
        self.check_all_were_waited_for()

    def test_what_was_started_before_an_error_is_waited_for(self) -> None:
        for receives, sends in (([mock.Mock(), OSError("third")], []),
                                ([mock.Mock(**{"wait.side_effect": OSError("hidden")}), mock.Mock()], [mock.Mock(), OSError("third")])):
            with self.assertRaisesRegex(OSError, "third"):
                self.start(receives, sends)
            self.check_all_were_waited_for()


if __name__ == "__main__":
    unittest.main()
