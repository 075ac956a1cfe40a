"""truestep.torch.Scape(using_up_gradients=True): gradients that the step may write into."""

import concurrent.futures
import tempfile
import unittest

import needs

needs.torch()
import numpy as np  # noqa: E402
import torch  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from small_model import flat, make_model  # noqa: E402


class UsedUp(unittest.TestCase):
    """Gradients that the step may write into: the bits of those that it may not, wherever they stand."""

    def train(self, using_up: bool, ranks: int = 1, clear: str = "optimizer", narrow: bool = False) -> list[bytes]:
        """What each rank has in the end."""
        group, models = truestep.ThreadGroup(ranks), [make_model() for _ in range(ranks)]
        if narrow:
            for model in models:
                model[0].to(torch.bfloat16)
        gradients = [[[torch.randn(p.shape, generator=torch.Generator().manual_seed(100 * step + rank)) for p in models[0].parameters()]
                      for step in range(6)] for rank in range(ranks)]
        ends: list[bytes] = [b""] * ranks

        def run(rank: int) -> None:
            model = models[rank]
            optimizer = truestep.torch.Scape(model.parameters(), lr=0.03, density=0.2, using_up_gradients=using_up,
                                          communicator=group.communicator(rank))
            for step in range(6):
                if clear == "optimizer":
                    optimizer.zero_grad()
                for parameter, given in zip(model.parameters(), gradients[rank][step]):
                    sum((parameter * (given / 2).to(parameter.dtype)).sum() for _ in range(2)).backward()  # adds to what there is
                optimizer.step()
                if using_up:
                    self.assertEqual([p.grad for p in model.parameters()], [None] * 6)
                if clear == "model":
                    model.zero_grad()
            ends[rank] = flat(model.parameters()).numpy().tobytes() + optimizer.native.residual.tobytes()
            optimizer.native.close()
        with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
            for future in [pool.submit(run, rank) for rank in range(ranks)]:
                future.result(timeout=300)
        return ends

    def test_the_bits_of_a_step_that_only_reads(self) -> None:
        for ranks in (1, 3):
            for clear in ("optimizer", "model"):
                self.assertEqual(self.train(True, ranks, clear), self.train(False, ranks, clear))

    def test_bf16_parameters_have_gradients_of_their_own(self) -> None:
        self.assertEqual(self.train(True, 2, narrow=True), self.train(False, 2, narrow=True))

    def test_a_backward_pass_makes_them_in_their_place(self) -> None:
        model = make_model()
        optimizer = truestep.torch.Scape(model.parameters(), using_up_gradients=True)
        for step in range(4):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            places = [p.grad.data_ptr() for p in model.parameters()]
            self.assertEqual(places[0], optimizer.native.gradient.ctypes.data)
            torch.nn.functional.mse_loss(model(torch.ones(4, 7)), torch.ones(4, 3)).backward()
            self.assertEqual([p.grad.data_ptr() for p in model.parameters()], places)
            self.assertTrue(np.any(optimizer.native.gradient))
            optimizer.step()

    def test_a_refused_one_is_gone_and_has_changed_nothing(self) -> None:
        model = make_model()
        optimizer = truestep.torch.Scape(model.parameters(), using_up_gradients=True)
        for _ in range(3):
            optimizer.zero_grad()
            model[0].weight.grad[1, 1] = 2.0
            optimizer.step()
            state = optimizer.state_dict()["state"]
            before = [state[i][name].clone() for i in state for name in ("residual", "first_moment", "mask", "next_mask")]
            before.append(flat(model.parameters()))
            optimizer.zero_grad()
            model[0].weight.grad[0, 0] = float("inf")
            with self.assertRaises(truestep.RefusedStep):
                optimizer.step()
            self.assertIsNone(model[0].weight.grad)
            state = optimizer.state_dict()["state"]
            after = [state[i][name] for i in state for name in ("residual", "first_moment", "mask", "next_mask")]
            after.append(flat(model.parameters()))
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, after)))

    def test_one_that_is_refused_before_the_step_is_gone_as_well(self) -> None:
        model = make_model()
        optimizer = truestep.torch.Scape(model.parameters(), using_up_gradients=True)
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = float("nan")
        with self.assertRaisesRegex(truestep.Error, "learning rate is nan"):
            optimizer.step()
        self.assertEqual([p.grad for p in model.parameters()], [None] * 6)

    def test_micro_batches_before_it(self) -> None:
        ends = []
        for using_up in (False, True):
            model = make_model()
            optimizer = truestep.torch.Scape(model.parameters(), density=0.3, using_up_gradients=using_up)
            for step in range(4):
                for part in range(3):
                    optimizer.zero_grad()
                    torch.manual_seed(10 * step + part)
                    torch.nn.functional.mse_loss(model(torch.randn(4, 7)), torch.randn(4, 3)).backward()
                    if part < 2:
                        optimizer.accumulate()
                optimizer.step()
            ends.append(flat(model.parameters()).numpy().tobytes())
        self.assertEqual(*ends)

    def test_a_gradient_that_is_none_is_zeros_and_not_the_last_one(self) -> None:
        for settings in ({}, {"using_up_gradients": True}, {"overlap": True}):
            ends = []
            for zeros in (False, True):
                model = make_model()
                optimizer = truestep.torch.Scape(model.named_parameters(), lr=0.03, density=0.5, **settings)
                for step in range(4):
                    optimizer.zero_grad()
                    torch.manual_seed(step)
                    used = model if step % 2 == 0 else model[:3]  # else the last layer takes no part
                    used(torch.randn(4, 7)).square().mean().backward()
                    for p in model[3].parameters() if step % 2 else ():
                        p.grad = torch.zeros_like(p) if zeros else None
                    optimizer.step()
                ends.append(flat(model.parameters()).numpy().tobytes())
            with self.subTest(settings):
                self.assertEqual(*ends)

    def test_not_with_overlap(self) -> None:
        with self.assertRaisesRegex(truestep.Error, "overlap and using_up_gradients are both True"):
            truestep.torch.Scape(make_model().parameters(), overlap=True, using_up_gradients=True)

    def test_it_is_recorded_as_any(self) -> None:
        model = make_model()
        optimizer = truestep.torch.Scape(model.named_parameters(), density=0.3, using_up_gradients=True)
        with tempfile.TemporaryDirectory() as folder:
            with truestep.torch.Recorder(optimizer, path=f"{folder}/run.rank{{rank}}.safetensors"):
                for step in range(4):
                    optimizer.zero_grad()
                    torch.manual_seed(step)
                    torch.nn.functional.mse_loss(model(torch.randn(4, 7)), torch.randn(4, 3)).backward()
                    optimizer.step()
            self.assertTrue(truestep.verify([f"{folder}/run.rank0.safetensors"]).passed)


if __name__ == "__main__":
    unittest.main()
