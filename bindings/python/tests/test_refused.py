"""What comes in and is refused, in one line that says what it is: tensors whose values are elsewhere, what fp32 does not hold, masks of another
size, rates that are none. What one rank alone is given ends the step on all."""

import concurrent.futures
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any

import needs

needs.torch()
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from plain_adams import PlainAdamS  # noqa: E402
from small_model import backward, make_model  # noqa: E402
from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: E402

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor
except ImportError:
    fully_shard = None
NO_DTENSOR = "this PyTorch has no DTensor or no fully_shard"

ELSEWHERE = "of DTensor, whose values are in other tensors; give its .to_local"


class WrappingOptimizer(torch.optim.Optimizer):
    """Keeps its state in the optimizer that it wraps."""

    def __init__(self, parameters: Any) -> None:
        parameters = list(parameters)
        super().__init__(parameters, {"lr": 0.01})
        self.optim = torch.optim.AdamW(parameters, lr=0.01)

    def step(self) -> None:  # type: ignore[override]
        self.optim.step()


class Wrapper(torch.Tensor):
    """A tensor without memory of its own, as DTensor is one."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())  # type: ignore[attr-defined]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        return NotImplemented


class Plain(torch.Tensor):
    """One that has."""


def freed() -> torch.Tensor:
    tensor = torch.ones(4)
    (tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()).resize_(0)
    return tensor


def strange() -> dict[str, torch.Tensor]:
    """By what the error says."""
    ones = torch.ones(4)
    return {"of Wrapper, whose values are in other tensors": Wrapper(ones), "on the meta device": torch.ones(4, device="meta"),
            "sparse coo; give it dense": ones.to_sparse(), "quantized": torch.quantize_per_tensor(ones, 1.0, 0, torch.quint8),
            "without memory": freed(), "conjugates or negates": torch.imag(torch.ones(4, dtype=torch.complex64).conj()),
            "UninitializedParameter, whose memory cannot be read": torch.nn.parameter.UninitializedParameter()}


class OneProcess(unittest.TestCase):
    def refused(self, text: str, call: Callable[[], object]) -> None:
        with self.assertRaisesRegex(truestep.Error, text) as raised:
            call()
        self.assertNotIn("\n", str(raised.exception))

    def test_tensors_whose_values_are_elsewhere(self) -> None:
        problem, start = truestep.Problem([("w", 4)]), np.zeros(4, np.float32)
        optimizer, worker = truestep.Optimizer(problem, start), truestep.gasloc.Worker(truestep.gasloc.Problem([("w", 4)]), start)
        boundary = truestep.mapl.Boundary(2, 1)
        recorder, rounds = truestep.Recorder(problem, start), truestep.gasloc.Recorder(truestep.gasloc.Problem([("w", 4)]), start)
        for text, tensor in strange().items():
            for entrance in (lambda t: truestep.Optimizer(problem, t), lambda t: truestep.reference.Reference(problem, [t]),
                             lambda t: optimizer.step(t, 0.01), lambda t: worker.step(t, 0.01), truestep.torch.fingerprint,
                             lambda t: recorder.step(0.01, [start], parameters=t), lambda t: recorder.step(0.01, [start], mask=t),
                             lambda t: rounds.round([0.01], [[t]]), lambda t: boundary.compress(t, [0, 0]),
                             lambda t: truestep.mapl.Recorder({"width": 2, "rank": 2}, t)):
                with self.subTest(text):
                    self.refused(text, lambda: entrance(tensor))
        self.assertEqual(optimizer.steps, 0)
        self.assertEqual(truestep.torch.fingerprint(torch.ones(4).as_subclass(Plain)), truestep.torch.fingerprint(torch.ones(4)))
        self.assertEqual(truestep.torch.fingerprint(torch.nn.Parameter(torch.ones(4))), truestep.torch.fingerprint(torch.ones(4)))

    def test_gradients_and_parameters_of_optimizers(self) -> None:
        for make in (truestep.torch.Scape, truestep.torch.GASLoC):
            with self.assertRaisesRegex(truestep.Error, "parameter0: it is of Wrapper"):
                make([Wrapper(torch.ones(4))])
            embedding = torch.nn.Embedding(5, 3, sparse=True)
            optimizer = make(embedding.named_parameters())
            embedding(torch.tensor([1, 2])).sum().backward()
            self.refused(r"the gradient of weight: it is sparse coo; .*sparse=False", optimizer.step)

    def test_recorders_of_another_optimizer(self) -> None:
        embedding = torch.nn.Embedding(5, 3, sparse=True)
        for sees in (lambda o: truestep.torch.Recorder(o, truestep.Problem([("w", 15)], algorithm="adams")),
                     lambda o: truestep.torch.Fingerprints(o, "/dev/null")):
            optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
            sees(optimizer)
            embedding.zero_grad()
            embedding(torch.tensor([1, 2])).sum().backward()
            self.refused("sparse coo; give it dense", optimizer.step)
            optimizer = torch.optim.SGD(make_model().double().parameters(), lr=0.1)
            self.refused("its dtype is torch.float64, and fp32 does not hold", lambda: sees(optimizer))
            optimizer = torch.optim.SGD(make_model().parameters(), lr=0.1)
        model = make_model()
        optimizer = torch.optim.AdamW(model.parameters())
        self.refused("state is .'exp_avg'.; give a name", lambda: truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters()), state=["exp_avg"]))
        self.refused("budget is -1; it must be at least 1", lambda: truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters()), budget=-1))
        self.refused("on_error is 'ignore'", lambda: truestep.torch.Fingerprints(optimizer, "/dev/null", on_error="ignore"))
        truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters(), algorithm="adams"), state={"step": "first_moment"})
        backward(model, 0)
        self.refused("of a parameter of 84 values there is 1", optimizer.step)
        for sees in (lambda o: truestep.torch.Recorder(o, truestep.Problem(model.named_parameters(), algorithm="adams")),
                     lambda o: truestep.torch.Fingerprints(o, "/dev/null")):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            sees(optimizer)
            optimizer.param_groups[0]["lr"] = float("nan")
            self.refused("learning rate is nan", optimizer.step)
        self.refused("learning rate is nan", lambda: truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters(), algorithm="adams")))

    def test_what_fp32_does_not_hold(self) -> None:
        halves, boundary = torch.tensor([0.5, 65504.0, 6e-8], dtype=torch.float16), truestep.torch.mapl.Boundary(3, 1)
        self.assertEqual(truestep.torch.fingerprint(halves), truestep.torch.fingerprint(halves.float()))
        for dtype in (torch.complex64, torch.float64, torch.int64):
            tensor = torch.ones(3).to(dtype)
            for entrance in (truestep.torch.fingerprint, lambda t: boundary.send(t.reshape(1, 3), torch.tensor([0])),
                             lambda t: truestep.mapl.Recorder({"width": 3, "rank": 1}, t)):
                self.refused(f"its dtype is {dtype}, and fp32 does not hold all of its values", lambda: entrance(tensor))
        for array in (np.ones(3), np.ones(3, np.complex64)):
            self.refused("fp32 does not hold all", lambda: truestep.mapl.Recorder({"width": 3, "rank": 1}, array))

    def test_masks_of_another_size(self) -> None:
        problem, zeros = truestep.Problem([("w", 10), ("v", 6)]), np.zeros(16, np.float32)
        recorder = truestep.Recorder(problem, zeros, sample=["w"])
        for mask in (np.ones(9, bool), np.ones(15, bool), torch.ones(9, dtype=torch.bool)):
            self.refused(f"mask of rank 0: it has {mask.size if isinstance(mask, np.ndarray) else 9} values; there are 16, or 10 that are held",
                         lambda: recorder.step(0.01, [zeros], mask=mask))
        for size in (10, 16):
            recorder.step(0.01, [zeros], mask=np.ones(size, bool))
        with truestep.Optimizer(problem, zeros) as optimizer:
            self.refused("next_mask: it has 15 values; there are 16",
                         lambda: optimizer.restore(step=1, parameters=zeros, first_moment=zeros, residual=zeros, mask=np.ones(16, bool),
                                                   next_mask=np.ones(15, bool)))

    def test_before_anything_is_recorded(self) -> None:
        problem, zeros = truestep.Problem([("w", 10)], 2), np.zeros(10, np.float32)
        recorder, rounds = truestep.Recorder(problem, zeros), truestep.gasloc.Recorder(truestep.gasloc.Problem([("w", 10)], 2), zeros)
        for gradients, text in (([zeros], "there are 1; give a list with each rank's, 2 in all"), ([zeros, None], "of rank 1 there is None")):
            self.refused(text, lambda: recorder.step(0.01, gradients, parameters=zeros))
            self.refused(text, lambda: rounds.round([0.01], [None if g is None else [g] for g in gradients]))
        for rate in (float("nan"), -1, "fast", float("inf")):
            self.refused(f"the learning rate is {rate!r}; it is a finite number, 0 or more", lambda: recorder.step(rate, [zeros, zeros]))
            self.refused("the learning rate is", lambda: rounds.round([rate], [[zeros], [zeros]]))
            for make in (truestep.torch.Scape, truestep.torch.GASLoC):
                self.refused("the learning rate is", lambda: make(make_model().parameters(), lr=rate))
            reference = truestep.reference.Reference(truestep.Problem([("w", 10)]), zeros)
            self.refused("the learning rate is", lambda: reference.step([zeros], rate))
            reference.step([zeros], 0.01)
        of_groups = truestep.Recorder(truestep.Problem([("w", 5), ("v", 5, False, 1)], algorithm="adams"), zeros)
        self.refused("the learning rate is nan", lambda: of_groups.step([0.01, float("nan")], [zeros]))
        with tempfile.TemporaryDirectory() as folder:  # none of it has begun a step
            for nothing in recorder, of_groups:
                self.refused("no step has been recorded", lambda: nothing.write(f"{folder}/x"))

    def test_what_is_no_problem_and_no_trace(self) -> None:
        for entries in ("abc", None, 5, [("w",)], [("w", 3, True, 1, 1)], [{"name": "w"}], [torch.ones(2, 3)]):
            self.refused("where tensors belong there is", lambda: truestep.Problem(entries, workers=1))  # type: ignore[arg-type]
        for path in (None, 5):
            self.refused(f"path is {path}; give a name, or a list of names", lambda: truestep.verify(path))  # type: ignore[arg-type]
        self.refused("^level is 'fast'; it must be exact, rel or bf16", lambda: truestep.verify("x", level="fast"))

    def test_options_are_named_as_arguments(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            worker = truestep.gasloc.Recorder(truestep.gasloc.Problem([("w", 3)]), np.zeros(3, np.float32))
            worker.round([0.01], [[np.zeros(3, np.float32)]], parameters=[np.zeros(3, np.float32)])
            worker.write(f"{folder}/x")
            self.refused('use level="rel"$', lambda: truestep.verify(f"{folder}/x", level="bf16"))
            self.refused('start="recorded" is not available: .*use start="start"', lambda: truestep.verify(f"{folder}/x", start="recorded"))


class Group(unittest.TestCase):
    """A process group of this process alone."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        dist.init_process_group("gloo", init_method=f"file://{folder.name}/store", rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)

    @unittest.skipIf(fully_shard is None, NO_DTENSOR)
    def test_dtensors(self) -> None:
        mesh, start = init_device_mesh("cpu", (1,)), np.zeros(8, np.float32)
        whole = distribute_tensor(torch.randn(8), mesh, [Shard(0)])
        optimizer = truestep.Optimizer(truestep.Problem([("w", 8)]), start)
        for tensor in (whole, whole[4:], torch.nn.Parameter(whole)):
            for entrance in (truestep.torch.fingerprint, lambda t: optimizer.step(t, 0.1), lambda t: truestep.torch.Scape([t]), lambda t: truestep.torch.GASLoC([t])):
                with self.assertRaisesRegex(truestep.Error, ELSEWHERE):
                    entrance(tensor)
        self.assertEqual(truestep.torch.fingerprint(whole.to_local()), truestep.torch.fingerprint(whole.full_tensor()))

    @unittest.skipIf(fully_shard is None, NO_DTENSOR)
    def test_fsdp2(self) -> None:
        model = make_model()
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        for make in (truestep.torch.Scape, truestep.torch.GASLoC):
            with self.assertRaisesRegex(truestep.Error, f"0.weight: it is {ELSEWHERE}"):
                make(model.named_parameters())

    def test_an_optimizer_whose_state_is_elsewhere(self) -> None:
        """Its zeros would be recorded, and a right run would be wrong."""
        for sees in (lambda o, m: truestep.torch.Recorder(o, truestep.Problem(m.named_parameters(), algorithm="adams"), state={"exp_avg": "first_moment"}),
                     lambda o, _: truestep.torch.Fingerprints(o, "/dev/null", state=["exp_avg"])):
            model = make_model()
            optimizer = WrappingOptimizer(model.parameters())
            sees(optimizer, model)
            backward(model, 0)
            with self.assertRaisesRegex(truestep.Error, "WrappingOptimizer keeps no state of the parameters itself"):
                optimizer.step()

    def test_a_state_that_no_rank_keeps(self) -> None:
        model = make_model()
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
        truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters(), algorithm="adams"), state={"exp_av": "first_moment"})
        backward(model, 0)
        with self.assertRaisesRegex(truestep.Error, "state names 'exp_av', which AdamW keeps on no rank; there are exp_avg, exp_avg_sq, step"):
            optimizer.step()


class OneRank(unittest.TestCase):
    def test_what_one_rank_is_given_ends_the_step_on_all(self) -> None:
        for settings in ({}, {"payload": "bf16"}, {"payload": "e5m2", "groups": [2, 1]}):
            self.check(lambda optimizer, *given: optimizer.step(*given), **settings)
        self.check(lambda optimizer, *given: optimizer.step_using_up(*given))

    def check(self, step: Callable[..., None], **settings: object) -> None:
        problem = truestep.Problem([("w", 40), ("v", 9, True)], 3, density=0.3, **settings)
        group, start, good = truestep.ThreadGroup(3), np.zeros(49, np.float32), np.linspace(-1.0, 1.0, 49, dtype=np.float32)

        def run(rank: int) -> bytes:
            with truestep.Optimizer(problem, start, group.communicator(rank)) as optimizer:
                for steps in (0, 1, 2):
                    for wrong, rate, text in ((good[1:].copy(), 0.01, "it has 48 values"), (None, 0.01, "NoneType"), (good, float("nan"), "rate is nan")):
                        begun, mine = time.monotonic(), rank == 1
                        expected = text if mine else f"step {steps + 1}: rank 1 refused the step, and its own error says why"
                        with self.assertRaisesRegex(truestep.Error, expected):
                            step(optimizer, wrong if mine else good, rate if mine else 0.01)
                        self.assertLess(time.monotonic() - begun, 30)  # of 60 that a rank waits for another
                    self.assertEqual(optimizer.steps, steps)
                    step(optimizer, good, 0.01)
                return optimizer.parameters.tobytes()
        reference = truestep.reference.Reference(problem, start)
        for _ in range(3):
            reference.step([good] * 3, 0.01)
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            for done in [threads.submit(run, rank) for rank in range(3)]:
                self.assertEqual(done.result(), reference.parameters.tobytes())


if __name__ == "__main__":
    unittest.main()
