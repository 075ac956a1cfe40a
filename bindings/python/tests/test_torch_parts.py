"""Gradients in parts, in one process: micro-batches, and buckets while the backward pass goes on."""

import concurrent.futures
import contextlib
import copy
import gc
import tempfile
import unittest
from collections.abc import Callable
from unittest import mock

import needs

needs.torch()
import torch  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from small_model import flat, make_model  # noqa: E402

HOOKS = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")  # of PyTorch 2.1


class InParts(unittest.TestCase):
    """Section 20: several backward(), buckets while they run, and the bits of the sum at once."""

    def setUp(self) -> None:
        self.model = make_model()

    def make(self, model: torch.nn.Sequential, **settings: object) -> truestep.torch.Scape:
        return truestep.torch.Scape([{"params": list(model[i].named_parameters(f"{i}"))} for i in (0, 1, 3)], lr=0.03, density=0.2,
                                 clip_norm=0.7, **settings)

    def backward(self, model: torch.nn.Module, batch: int) -> None:
        torch.manual_seed(batch)
        torch.nn.functional.mse_loss(model(torch.randn(16, 7)), torch.randn(16, 3)).backward()

    def test_the_bits_of_the_reference(self) -> None:
        for overlap in (False, True):
            model = make_model()
            optimizer = self.make(model, overlap=overlap)
            reference = truestep.reference.Reference(optimizer.problem, flat(model.parameters()).numpy())
            for step in range(5):
                optimizer.zero_grad()
                twin, total = copy.deepcopy(model), torch.zeros(optimizer.problem.size)
                for batch in range(3):
                    with optimizer.no_sync() if batch < 2 else contextlib.nullcontext():
                        self.backward(model, 3 * step + batch)
                    twin.zero_grad()
                    self.backward(twin, 3 * step + batch)
                    part = flat(p.grad for p in twin.parameters())
                    total = part if batch == 0 else total + part
                optimizer.step()
                reference.step([total.numpy()], 0.03)
                self.assertEqual(optimizer.native.parameters.tobytes(), reference.parameters.tobytes())

    @unittest.skipUnless(HOOKS, "this PyTorch has no hooks that see a gradient when it is there")
    def test_buckets_go_as_the_backward_pass_makes_them(self) -> None:
        optimizer, order = self.make(self.model, overlap=True), []
        give = optimizer.native.bucket
        with mock.patch.object(optimizer.native, "bucket", side_effect=lambda tensors, values: (order.append(list(tensors)), give(tensors, values))):
            for _ in range(2):
                self.backward(self.model, 1)
                self.assertEqual(order, [[4, 5], [2, 3], [0, 1]])  # before the step
                optimizer.step()
                self.assertEqual(order, [[4, 5], [2, 3], [0, 1]])
                optimizer.zero_grad()
                order.clear()
            self.model[1].weight.requires_grad_(False)  # whatever does not come
            self.backward(self.model, 2)
            self.assertEqual(order, [[4, 5]])
            optimizer.step()
            self.assertEqual(order, [[4, 5], [2, 3], [0, 1]])

    @unittest.skipUnless(HOOKS, "this PyTorch has no hooks that see a gradient when it is there")
    def test_what_comes_too_late_is_told(self) -> None:
        optimizer = self.make(self.model, overlap=True)
        self.backward(self.model, 1)
        with self.assertRaisesRegex(truestep.Error, r"3.bias has another gradient.*optimizer.no_sync\(\).*forget_parts"):
            self.backward(self.model, 2)
        with self.assertRaisesRegex(truestep.Error, "within a step"):
            optimizer.state_dict()
        with self.assertRaisesRegex(truestep.Error, "are exchanged already"):
            optimizer.accumulate()
        optimizer.forget_parts()
        optimizer.zero_grad()
        self.backward(self.model, 3)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1e-3)
        with self.assertRaisesRegex(truestep.Error, "has been written to since it was exchanged.*clip_norm"):
            optimizer.step()
        optimizer.forget_parts()
        self.assertEqual(optimizer.native.steps, 0)
        optimizer.zero_grad()
        self.backward(self.model, 4)
        self.model[0].weight.grad = None
        with self.assertRaisesRegex(truestep.Error, "0.weight has been written to"):
            optimizer.step()

    def test_a_refused_step_forgets_its_parts(self) -> None:
        for overlap in (False, True):
            model = make_model()
            optimizer, twin = self.make(model, overlap=overlap), make_model()
            plain = self.make(twin)
            with optimizer.no_sync():
                self.backward(model, 1)
            model[0].weight.grad[0, 0] = float("nan")
            optimizer.accumulate()
            self.backward(model, 2)
            with self.assertRaisesRegex(truestep.RefusedStep, "tensor 0.weight, index 0"):
                optimizer.step()
            optimizer.state_dict()
            optimizer.zero_grad()
            for other, stepped in ((model, optimizer), (twin, plain)):
                self.backward(other, 3)
                stepped.step()
            self.assertEqual(optimizer.native.parameters.tobytes(), plain.native.parameters.tobytes())

    def test_what_cannot_be_made_ready_forgets_its_parts(self) -> None:
        """Whatever finds it, the step or a recorder before it."""
        for overlap, recorded in ((False, False), (True, False), (True, True)):
            model, twin = make_model(), make_model()
            optimizer, plain = self.make(model, overlap=overlap), self.make(twin)
            recorder = truestep.torch.Recorder(optimizer) if recorded else None
            with optimizer.no_sync():
                with optimizer.no_sync():
                    pass  # its end is not that of the outer one
                self.backward(model, 1)
            optimizer.accumulate()
            self.backward(model, 2)
            optimizer.param_groups[0]["lr"] = float("nan")
            with self.assertRaisesRegex(truestep.Error, "learning rate is nan"):
                optimizer.step()
            optimizer.state_dict()
            optimizer.param_groups[0]["lr"] = 0.03
            self.backward(twin, 2)
            for stepped in (optimizer, plain):  # with the gradients that there are
                stepped.step()
                stepped.zero_grad()
            for other, stepped in ((model, optimizer), (twin, plain)):
                self.backward(other, 3)
                stepped.step()
            self.assertEqual(optimizer.native.parameters.tobytes(), plain.native.parameters.tobytes())
            if recorder is not None:
                with tempfile.TemporaryDirectory() as folder:
                    recorder.write(f"{folder}/run")
                    self.assertTrue(truestep.verify(f"{folder}/run", level="exact").passed)

    @unittest.skipUnless(HOOKS, "this PyTorch has no hooks that see a gradient when it is there")
    def test_what_one_rank_cannot_give_ends_the_step_on_all(self) -> None:
        """A rate, a gradient that is sparse, one that was written to; then all go on."""
        group, ends = truestep.ThreadGroup(2), [b"", b""]

        def run(rank: int) -> None:
            embedding, head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 2)
            for parameter in (embedding.weight, *head.parameters()):
                torch.nn.init.constant_(parameter, 0.5)
            optimizer = truestep.torch.Scape([{"params": list(part.parameters())} for part in (embedding, head)], lr=0.1, density=0.3,
                                          payload="bf16", overlap=True, communicator=group.communicator(rank))

            def backward() -> None:
                optimizer.zero_grad()
                (head(embedding(torch.tensor([1, 2]))) * torch.tensor([0.25, rank + 1.0])).sum().backward()

            def fails(call: Callable[[], object], text: str) -> None:
                with self.assertRaisesRegex(truestep.Error, text if rank == 1 else r"step \d.*: rank 1 refused the step, and its own error says why"):
                    call()
            for _ in range(3):
                backward()
                optimizer.param_groups[0]["lr"] = float("nan") if rank == 1 else 0.1
                fails(optimizer.step, "rate is nan")
                optimizer.param_groups[0]["lr"] = 0.1
                optimizer.step()
                with optimizer.no_sync():
                    backward()
                optimizer.accumulate()
                embedding.sparse = rank == 1
                fails(backward, "sparse coo")
                embedding.sparse = False
                optimizer.state_dict()
                backward()
                if rank == 1:
                    head.weight.grad.mul_(2)
                fails(optimizer.step, "has been written to")
                backward()
                optimizer.step()
            self.assertEqual(optimizer.native.steps, 6)
            ends[rank] = optimizer.native.parameters.tobytes()
            optimizer.native.close()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(run, rank) for rank in range(2)]:
                future.result(timeout=50)  # of 60 that a rank waits for another
        self.assertEqual(*ends)

    def test_micro_batches_of_bf16_are_added_in_fp32(self) -> None:
        wide, narrow = torch.nn.Parameter(torch.zeros(60)), torch.nn.Parameter(torch.zeros(60, dtype=torch.bfloat16))
        one, other = (truestep.torch.Scape([p], lr=0.1, always_dense=False, density=0.5) for p in (wide, narrow))
        for step in range(4):
            torch.manual_seed(step)
            parts = [torch.randn(60).to(torch.bfloat16) for _ in range(3)]
            wide.grad = (parts[0].float() + parts[1].float()) + parts[2].float()
            for part in parts[:2]:
                narrow.grad = part
                other.accumulate()
                self.assertIsNone(narrow.grad)
            with self.assertRaisesRegex(truestep.Error, "within a step"):
                other.state_dict()
            narrow.grad = parts[2]
            for optimizer in (one, other):
                optimizer.step()
            self.assertEqual(one.native.parameters.tobytes(), other.native.parameters.tobytes())

    @unittest.skipUnless(HOOKS, "this PyTorch has no hooks that see a gradient when it is there")
    def test_an_optimizer_that_is_gone_hears_no_more(self) -> None:
        optimizer = self.make(self.model, overlap=True)
        del optimizer
        gc.collect()
        optimizer = self.make(self.model, overlap=True)
        self.backward(self.model, 1)
        optimizer.step()
        self.assertEqual(optimizer.native.steps, 1)


if __name__ == "__main__":
    unittest.main()
