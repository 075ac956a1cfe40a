"""States of truestep.torch.Scape and GASLoC as PyTorch's checkpoints and libtruestep's own bring them."""

import concurrent.futures
import copy
import importlib.util
import pickle
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

import needs

needs.torch()
import torch  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from small_model import backward, flat, make_model  # noqa: E402

STATE_DICTS = int(torch.__version__.split(".")[0]) >= 2 and importlib.util.find_spec("torch.distributed.checkpoint.state_dict") is not None


def scape(model: torch.nn.Module, **settings: object) -> truestep.torch.Scape:
    return truestep.torch.Scape(model.named_parameters(), lr=0.03, **({"density": 0.2} | settings))


def gasloc(model: torch.nn.Module, **settings: object) -> truestep.torch.GASLoC:
    return truestep.torch.GASLoC(model.named_parameters(), lr=0.03, **({"inner_steps": 2} | settings))


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> bytes:
    """The model that comes of it, in bits."""
    for step in steps:
        torch.manual_seed(step)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape).to(parameter.dtype)
        optimizer.step()
    return flat(model.parameters()).numpy().tobytes()


def bits_of(optimizer: torch.optim.Optimizer) -> list[bytes]:
    return [torch.as_tensor(value).numpy().tobytes() for state in optimizer.state_dict()["state"].values() for value in state.values()]


class States(unittest.TestCase):
    def of_both(self, test: Callable[[Callable[..., torch.optim.Optimizer]], None]) -> None:
        for make in scape, gasloc:
            with self.subTest(make.__name__):
                test(make)

    def test_copies_and_pickles_are_refused(self) -> None:
        def test(make: Callable[..., torch.optim.Optimizer]) -> None:
            for copied in copy.copy, copy.deepcopy, pickle.dumps:
                with self.assertRaisesRegex(truestep.Error, "neither copied nor pickled.*state_dict"):
                    copied(make(make_model()))
        self.of_both(test)

    def test_every_parameter_has_an_entry(self) -> None:
        """Where there is none, PyTorch's get_state_dict() takes a step, with zeros for gradients."""
        def test(make: Callable[..., torch.optim.Optimizer]) -> None:
            model = make_model()
            optimizer = make(model)
            for look in lambda: None, optimizer.state_dict, lambda: optimizer.load_state_dict(optimizer.state_dict()):
                look()
                self.assertEqual(set(optimizer.state), set(model.parameters()))
                self.assertFalse(any(optimizer.state.values()))
        self.of_both(test)

    @unittest.skipUnless(STATE_DICTS, f"PyTorch {torch.__version__} has no torch.distributed.checkpoint.state_dict")
    def test_pytorch_saves_and_loads_without_a_step(self) -> None:
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

        def test(make: Callable[..., torch.optim.Optimizer]) -> None:
            model = make_model()
            optimizer = make(model)
            train(model, optimizer, range(4))
            optimizer.zero_grad()
            before = bits_of(optimizer)
            saved = copy.deepcopy(get_state_dict(model, optimizer))
            self.assertEqual(bits_of(optimizer), before)
            right = train(model, optimizer, range(4, 8))
            model = make_model()
            optimizer = make(model)
            set_state_dict(model, optimizer, model_state_dict=saved[0], optim_state_dict=saved[1])
            self.assertEqual(train(model, optimizer, range(4, 8)), right)
        self.of_both(test)

    def test_a_checkpoint_of_the_library_reaches_the_model(self) -> None:
        def test(make: Callable[..., torch.optim.Optimizer]) -> None:
            for kind in torch.float32, torch.bfloat16:
                model = make_model().to(kind)
                optimizer = make(model)
                train(model, optimizer, range(4))
                with tempfile.TemporaryDirectory() as folder:
                    optimizer.native.save(folder)
                    (checkpoint,) = Path(folder).iterdir()
                    right = train(model, optimizer, range(4, 8))
                    model = make_model().to(kind)
                    optimizer = make(model)
                    train(model, optimizer, range(3))  # of two inner steps: in the midst of a round
                    optimizer.native.load(checkpoint)
                self.assertEqual(train(model, optimizer, range(4, 8)), right, kind)
        self.of_both(test)

    def test_what_was_accumulated_before_a_checkpoint_is_loaded_is_gone(self) -> None:
        model = make_model()
        optimizer = scape(model)
        train(model, optimizer, range(2))
        with tempfile.TemporaryDirectory() as folder:
            optimizer.native.save(folder)
            (checkpoint,) = Path(folder).iterdir()
            right = train(model, optimizer, range(2, 4))
            backward(model, 9)
            optimizer.accumulate()
            optimizer.native.load(checkpoint)
        optimizer.state_dict()
        self.assertEqual(train(model, optimizer, range(2, 4)), right)

    def test_another_number_of_threads_goes_on(self) -> None:
        def test(make: Callable[..., torch.optim.Optimizer]) -> None:
            model = make_model()
            optimizer = make(model, threads=2)
            train(model, optimizer, range(4))
            saved, weights = optimizer.state_dict(), copy.deepcopy(model.state_dict())
            right = train(model, optimizer, range(4, 8))
            model = make_model()
            optimizer = make(model)
            model.load_state_dict(weights)
            optimizer.load_state_dict(saved)
            self.assertEqual(train(model, optimizer, range(4, 8)), right)
        self.of_both(test)

    def test_a_state_with_other_tensors_always_dense_is_refused(self) -> None:
        model = make_model()
        with self.assertRaisesRegex(truestep.Error, r"^load_state_dict: its param groups have \[False\] always_dense, and this optimizer's \[None\]"):
            scape(model).load_state_dict(scape(make_model(), always_dense=False).state_dict())

    def test_a_frozen_parameter_is_refused(self) -> None:
        def test(make: Callable[..., torch.optim.Optimizer]) -> None:
            model = make_model()
            model[1].weight.requires_grad_(False)
            with self.assertRaisesRegex(truestep.Error, "^1.weight does not require a gradient, and would only decay; give the parameters that do"):
                make(model)
        self.of_both(test)

    def test_a_state_that_one_rank_refuses_is_told_to_all(self) -> None:
        group, saved, both = truestep.ThreadGroup(2), [None, None], threading.Barrier(2)
        models = [make_model() for _ in range(2)]  # here, since threads share PyTorch's generator

        def run(rank: int) -> None:
            optimizer = gasloc(models[rank], peers=group.peers(rank))
            saved[rank] = optimizer.state_dict()
            both.wait()
            with self.assertRaisesRegex(truestep.Error, "it is of rank 0 of 2" if rank == 1 else "^rank 1: it has no state to restore"):
                optimizer.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[rank])
            self.assertEqual(optimizer.round().neighbours, 1)
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(run, rank) for rank in range(2)]:
                done.result()


if __name__ == "__main__":
    unittest.main()
