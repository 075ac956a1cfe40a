"""The package over NumPy: verify, record, reference, optimizer; ranks as threads, and over a communicator written in Python."""

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402
from truestep._background import Background  # noqa: E402

FIXTURES = Path(__file__).parents[3] / "fixtures"
SIZE, STEPS = 100, 5
TENSORS = [("embed", 40), ("norm", 5, True), ("mlp", 55)]


def made_up(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)


def gradients(ranks: int, step: int) -> list[np.ndarray]:
    return [made_up(100 * step + rank) for rank in range(ranks)]


def make_problem(ranks: int, **settings: object) -> truestep.Problem:
    return truestep.Problem(TENSORS, ranks, **({"density": 0.3} | settings))


def step_and_record(recorder: truestep.Recorder, reference: truestep.reference.Reference, step: int, **instead: object) -> None:
    ranks = reference.problem.workers
    reference.step(gradients(ranks, step), 0.01)
    results = {"parameters": reference.parameters, "first_moment": reference.first_moment, "mask": reference.mask,
               "next_mask": reference.next_mask, "residual": [reference.residual(rank) for rank in range(ranks)],
               "local": [reference.local(rank) for rank in range(ranks)], "exchanged": reference.exchanged,
               "reconstructed": reference.reconstructed}
    recorder.step(0.01, gradients(ranks, step), **(results | instead))


def in_threads(ranks: int, function: Callable[[int], None]) -> None:
    """Runs it for each rank; what any raised is raised here."""
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            function(rank)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Queues(truestep.Communicator):
    """Bytes through a queue for each pair of ranks."""

    def __init__(self, rank: int, queues: list[list["queue.Queue[bytes]"]], failure: Exception | None = None) -> None:
        self.rank, self.size = rank, len(queues)
        self._queues, self._failure = queues, failure

    def start_all_to_all(self, traffic: int, send: list[np.ndarray], receive: list[np.ndarray]) -> Callable[[], None]:
        for to, part in enumerate(send):
            self._queues[self.rank][to].put(part.tobytes())
        # Taken in order at once, so that exchanges may be waited for in any order.
        taken = [self._queues[start][self.rank].get(timeout=60) for start in range(self.size)]

        def wait() -> None:
            if self._failure is not None:
                raise self._failure
            for part, data in zip(receive, taken):
                part[:] = np.frombuffer(data, np.uint8)
        return wait

    def start_all_gather(self, traffic: int, send: np.ndarray, receive: list[np.ndarray]) -> Callable[[], None]:
        return self.start_all_to_all(traffic, [send] * self.size, receive)


class Mute(Exception):
    """Cannot tell what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Verify(unittest.TestCase):
    def test_traces_of_all_systems_pass(self) -> None:
        for trace in ("scape/golden/p3_density_01", "scape/golden/adams_adam", "gasloc/golden/ring_sgd"):
            result = truestep.verify(FIXTURES / f"{trace}.safetensors")
            self.assertTrue(result.passed, result.text)
            self.assertEqual((result.status, result.first_divergence), ("PASSED", None))

    def test_the_level_of_bf16_is_taken_where_it_can_be_had(self) -> None:
        result = truestep.verify(FIXTURES / "scape/golden/p3_density_01.safetensors", level="bf16")
        self.assertTrue(result.passed, result.text)
        self.assertEqual(result.level, "BF16")
        with self.assertRaisesRegex(truestep.Error, "level BF16 is not available for GASLoC"):
            truestep.verify(FIXTURES / "gasloc/golden/ring_sgd.safetensors", level="bf16")

    def test_a_wrong_run_is_a_result_that_says_where(self) -> None:
        result = truestep.verify(FIXTURES / "scape/artifact/disagree/scape_v2_p3_default_residual_twice.safetensors", level="rel")
        self.assertFalse(result.passed)
        self.assertFalse(result.phases.residual.passed)
        self.assertEqual((result.first_divergence["phase"], result.first_divergence["step"]), ("residual", 1))
        self.assertIn("first divergence: step 1, phase residual", str(result))
        with self.assertRaisesRegex(AttributeError, "there is no phase 'residue'; there are check, "):
            _ = result.phases.residue

    def test_bad_input_raises(self) -> None:
        trace = FIXTURES / "scape/golden/p3_density_01.safetensors"
        for arguments, text in (((FIXTURES / "README.md",), "README.md"), (("/there/is/none",), "/there/is/none"),
                                ((trace, "about"), "about"), ((trace, "exact", "middle"), "middle"), (("a\0b",), "zero bytes")):
            with self.assertRaisesRegex(truestep.Error, text):
                truestep.verify(*arguments)


class InTheBackground(unittest.TestCase):
    def test_what_waits_is_bounded_and_nothing_is_dropped(self) -> None:
        background, gate, done = Background(10), threading.Event(), []
        background.put(6, lambda: (gate.wait(), done.append(0)))
        background.put(4, lambda: done.append(1))
        waits = threading.Thread(target=lambda: background.put(1, lambda: done.append(2)))
        waits.start()
        waits.join(0.1)
        self.assertTrue(waits.is_alive(), "more than the budget was taken")
        gate.set()
        waits.join()
        background.put(1000, lambda: done.append(3))  # goes alone
        background.close()
        self.assertEqual(done, [0, 1, 2, 3])
        with self.assertRaisesRegex(truestep.Error, "has been closed"):
            background.put(1, lambda: None)

    def test_a_failure_is_told_and_ends_the_rest(self) -> None:
        background, done = Background(1), []

        def fail() -> None:
            raise truestep.Error("the disk is full")
        background.put(5, fail)
        with self.assertRaisesRegex(truestep.Error, "the disk is full"):
            for _ in range(1000):
                background.put(5, lambda: done.append(1))
        with self.assertRaisesRegex(truestep.Error, "the disk is full"):
            background.close()
        self.assertEqual(done, [])


class Recorder(unittest.TestCase):
    def record(self, **instead: object) -> truestep.Result:
        recorder = truestep.Recorder(make_problem(3), made_up(1), source="test_scape")
        reference = truestep.reference.Reference(make_problem(3), made_up(1))
        for step in range(1, STEPS + 1):
            step_and_record(recorder, reference, step, **(instead if step == 4 else {}))
        with tempfile.TemporaryDirectory() as folder:
            recorder.write(f"{folder}/run.safetensors")
            return truestep.verify(f"{folder}/run.safetensors")

    def test_what_the_reference_does_passes(self) -> None:
        result = self.record()
        self.assertTrue(result.passed, result.text)
        self.assertNotIn("UNTESTED", result.text)

    def test_one_wrong_bit_does_not(self) -> None:
        wrong = np.zeros(SIZE, np.bool_)
        self.assertEqual(self.record(mask=wrong).first_divergence["result"], "mask")
        self.assertEqual(self.record(parameters=made_up(2)).first_divergence["step"], 4)

    def test_each_rank_by_itself(self) -> None:
        for drifts in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                paths = [f"{folder}/run.rank{rank}.safetensors" for rank in range(3)]
                for rank, path in enumerate(paths):
                    recorder = truestep.Recorder(make_problem(3), made_up(1), rank=rank, spool=f"{path}.spool")
                    reference = truestep.reference.Reference(make_problem(3), made_up(1))
                    for step in range(1, STEPS + 1):
                        reference.step(gradients(3, step), 0.01)
                        held = reference.parameters * np.float32(1.5 if drifts and rank == 1 and step == 2 else 1.0)
                        recorder.step(0.01, [gradients(3, step)[rank]], parameters=held, first_moment=reference.first_moment,
                                      residual=[reference.residual(rank)], mask=reference.mask, next_mask=reference.next_mask)
                    recorder.write(path)
                for result in (truestep.verify(paths), truestep.verify(f"{folder}/run.rank*.safetensors")):
                    self.assertEqual(result.passed, not drifts, result.text)
                truestep.join(paths, f"{folder}/run.safetensors")
                joined = truestep.verify(f"{folder}/run.safetensors")
                self.assertEqual(joined.phases, result.phases)
                if drifts:
                    self.assertEqual((joined.first_divergence["step"], joined.first_divergence["rank"]), (2, 1))
                with self.assertRaisesRegex(truestep.Error, "rank 2 of 3 is missing"):
                    truestep.verify(paths[:2])
                with self.assertRaisesRegex(truestep.Error, "holds a whole run"):
                    truestep.join(f"{folder}/run.safetensors", f"{folder}/again.safetensors")

    def test_a_recorder_that_is_killed_leaves_nothing(self) -> None:
        program = """if True:
            import os, signal, sys
            import numpy as np, truestep
            problem = truestep.Problem([("a", 1000)], workers=2, density=0.1)
            recorder = truestep.Recorder(problem, np.zeros(1000, np.float32), rank=0, spool=sys.argv[1] + ".spool")
            recorder.step(0.01, [np.ones(1000, np.float32)], parameters=np.ones(1000, np.float32))
            os.kill(os.getpid(), signal.SIGKILL)"""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", program, f"{folder}/run.rank0.safetensors"], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_a_variable_by_its_old_name_is_named(self) -> None:
        done = subprocess.run([sys.executable, "-c", "import truestep"], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "SCAPE_LIBRARY": "/nowhere"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("SCAPE_LIBRARY is not read any more; its name is TRUESTEP_LIBRARY", done.stderr)

    def test_what_is_missing_or_no_vector_is_told(self) -> None:
        recorder = truestep.Recorder(make_problem(3), made_up(1))
        with self.assertRaisesRegex(truestep.Error, "no step has been recorded"):
            recorder.write("/nowhere.safetensors")
        with self.assertRaisesRegex(truestep.Error, "float64"):
            recorder.step(0.01, [made_up(1).astype(np.float64)] * 3)
        recorder = truestep.Recorder(make_problem(3), made_up(1))
        recorder.begin(0.01)
        for rank, gradient in enumerate(gradients(2, 1)):
            recorder.add("gradient", rank, gradient)
        recorder.add("parameters", 0, made_up(1))
        with self.assertRaisesRegex(truestep.Error, "gradient is given for 2 ranks of 3"):
            recorder.write("/nowhere.safetensors")
        with self.assertRaisesRegex(truestep.Error, "give a vector of bool"):
            recorder.add("mask", 0, made_up(1))


class Optimizer(unittest.TestCase):
    def check(self, ranks: int, communicator: Callable[[int], object], **settings: object) -> None:
        problem = make_problem(ranks, **settings)

        def run(rank: int) -> None:
            reference = truestep.reference.Reference(problem, made_up(1))
            with truestep.Optimizer(problem, made_up(1), communicator(rank)) as optimizer:
                parameters = optimizer.parameters  # the memory itself
                for step in range(1, STEPS + 1):
                    mine = gradients(ranks, step)[rank]
                    optimizer.step([mine[:40], mine[40:45], mine[45:]], 0.01)
                    reference.step(gradients(ranks, step), 0.01)
                    for name in ("parameters", "first_moment", "mask", "next_mask"):
                        self.assertEqual(getattr(optimizer, name).tobytes(), getattr(reference, name).tobytes(), name)
                    self.assertEqual(optimizer.residual.tobytes(), reference.residual(rank).tobytes())
                    self.assertEqual((optimizer.steps, optimizer.statistics.step), (step, step))
                    optimizer.progress()
            self.assertEqual(parameters.tobytes(), reference.parameters.tobytes())  # also after it was closed
            with self.assertRaisesRegex(truestep.Error, "has been closed"):
                optimizer.step(made_up(1), 0.01)
        in_threads(ranks, run)

    def test_alone(self) -> None:
        self.check(1, lambda rank: None, clip_norm=0.5)

    def test_threads(self) -> None:
        for ranks in (2, 3, 5):
            self.check(ranks, truestep.ThreadGroup(ranks).communicator, partition="by_tensor", threads=2)

    def test_a_communicator_in_python(self) -> None:
        for ranks in (2, 3):
            queues = [[queue.Queue() for _ in range(ranks)] for _ in range(ranks)]
            self.check(ranks, lambda rank, queues=queues: Queues(rank, queues), density=("linear", 1.0, 0.1, 3))

    def test_ranks_in_groups(self) -> None:
        for groups in ([2, 2], [3, 2, 1], [1, 5]):
            ranks = sum(groups)
            self.check(ranks, truestep.ThreadGroup(ranks).communicator, groups=groups, payload="bf16")
            queues = [[queue.Queue() for _ in range(ranks)] for _ in range(ranks)]
            self.check(ranks, lambda rank, queues=queues: Queues(rank, queues), groups=groups, clip_norm=0.5)
        with self.assertRaisesRegex(truestep.Error, "groups is 3,2, which is 5 ranks together; the problem has 4 workers"):
            make_problem(4, groups=[3, 2])

    def test_what_a_communicator_raises_is_the_cause(self) -> None:
        for failure, text in ((OSError("the cable is out"), "OSError: the cable is out"),
                              (OSError("half a letter: \ud800"), r"OSError: half a letter: \?"),
                              (Mute(), r"Mute, whose text cannot be made \(RuntimeError\)")):
            with self.assertRaisesRegex(truestep.Aborted, text) as raised:
                truestep.Optimizer(make_problem(1), made_up(1), Queues(0, [[queue.Queue()]], failure))
            self.assertIs(raised.exception.__cause__, failure)

    def test_a_refused_step_changes_nothing_on_any_rank(self) -> None:
        group, problem = truestep.ThreadGroup(2), make_problem(2)

        def run(rank: int) -> None:
            with truestep.Optimizer(problem, made_up(1), group.communicator(rank)) as optimizer:
                bad = made_up(5)
                bad[42] = np.nan if rank == 1 else 0.0
                with self.assertRaisesRegex(truestep.RefusedStep, "rank 1, tensor norm, index 2"):
                    optimizer.step(bad, 0.01)
                self.assertEqual((optimizer.steps, optimizer.parameters.tobytes()), (0, made_up(1).tobytes()))
                optimizer.step(made_up(5), 0.01)
        in_threads(2, run)

    def test_a_checkpoint_of_an_earlier_version_goes_on(self) -> None:
        old, new = (truestep.Optimizer(make_problem(1), made_up(1)) for _ in range(2))
        old.load(FIXTURES / "held/scape/step-0000000003")
        for step in range(1, 7):
            new.step(made_up(step), 0.01)
            if step > 3:
                old.step(made_up(step), 0.01)
        self.assertEqual(old.parameters.tobytes(), new.parameters.tobytes())

    def test_restore_and_checkpoints_go_on(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            one, two, three = (truestep.Optimizer(make_problem(1), made_up(1)) for _ in range(3))
            for step in range(1, 4):
                one.step(made_up(step), 0.01)
            two.restore(step=3, parameters=one.parameters, first_moment=one.first_moment, residual=one.residual, mask=one.mask,
                        next_mask=one.next_mask)
            one.save(folder)
            three.load(f"{folder}/step-0000000003")
            for step in range(4, 7):
                for optimizer in (one, two, three):
                    optimizer.step(made_up(step), 0.01)
            self.assertEqual(one.parameters.tobytes(), two.parameters.tobytes())
            self.assertEqual(one.parameters.tobytes(), three.parameters.tobytes())
            with self.assertRaisesRegex(truestep.Error, "float64"):
                two.restore(step=3, parameters=one.parameters.astype(np.float64), first_moment=one.first_moment,
                            residual=one.residual, mask=one.mask, next_mask=one.next_mask)

    def test_bad_input_is_told(self) -> None:
        with self.assertRaisesRegex(truestep.Error, "'beta3=1' is not a setting"):
            truestep.Problem(TENSORS, beta3=1)
        with self.assertRaisesRegex(truestep.Error, "2 workers"):
            truestep.Optimizer(make_problem(2), made_up(1))
        with self.assertRaisesRegex(truestep.Error, "strides"):
            truestep.Optimizer(make_problem(1), np.zeros((SIZE, 2), np.float32)[:, 0])
        communicator = truestep.ThreadGroup(1).communicator(0)
        truestep.Optimizer(make_problem(1), made_up(1), communicator)
        with self.assertRaisesRegex(truestep.Error, "serves an optimizer already"):
            truestep.Optimizer(make_problem(1), made_up(1), communicator)
        self.assertEqual(make_problem(1, density=("geometric", 1.0, 0.01, 2)).density(2), 0.1)

    def test_no_number_is_cut_off(self) -> None:
        """By ctypes, which gives C the lower bits."""
        problem, recorder = make_problem(2), truestep.Recorder(make_problem(2), made_up(1))
        reference, alone = truestep.reference.Reference(problem, made_up(1)), truestep.Optimizer(make_problem(1), made_up(1))
        recorder.begin(0.01)
        state = {"parameters": made_up(1), "first_moment": made_up(1), "residual": made_up(1), "mask": np.ones(SIZE, np.bool_),
                 "next_mask": np.ones(SIZE, np.bool_)}
        far = Queues(0, [[queue.Queue()]])
        far.size = 2**32 + 1
        for call, text in ((lambda: make_problem(2**32 + 1), "workers is 0x100000001, which 32 bits do not hold"),
                           (lambda: make_problem(-2**32 + 1), "workers is -0xffffffff"),
                           (lambda: make_problem(1.5), "workers is 1.5; give a whole number"),
                           (lambda: truestep.Problem([("norm", 2**64 + 5)]), "the size of norm is 0x10000000000000005, which 64 bits"),
                           (lambda: problem.density(2**64 + 1), "step is 0x1"),
                           (lambda: reference.residual(2**32), "rank is 0x100000000"),
                           (lambda: recorder.add("gradient", 2**32, made_up(1)), "rank is 0x100000000"),
                           (lambda: alone.restore(step=2**64, **state), "step is 0x1"),
                           (lambda: truestep.Optimizer(make_problem(1), made_up(1), far), "its size is 0x100000001"),
                           (lambda: truestep.ThreadGroup(2**32 + 1), "the size of a ThreadGroup is 0x100000001"),
                           (lambda: truestep.ThreadGroup(2).communicator(2**32), "the rank of a ThreadGroup's communicator is 0x100000000")):
            with self.assertRaisesRegex(truestep.Error, text):
                call()
        for timeout in (float("inf"), float("nan"), 0.0, -1.0, 1e10):
            with self.assertRaisesRegex(truestep.Error, f"timeout of a ThreadGroup is {timeout}; give seconds".replace("+", r"\+")):
                truestep.ThreadGroup(2, timeout=timeout)
        self.assertEqual(truestep.ThreadGroup(np.int64(2), timeout=1e-4).size, 2)
        self.check(2, truestep.ThreadGroup(2, timeout=1e9).communicator)

    def test_text_that_is_none_is_told(self) -> None:
        with self.assertRaisesRegex(truestep.Error, "settings"):
            make_problem(1, partition="\ud800")
        with self.assertRaisesRegex(truestep.Error, "a tensor's name"):
            truestep.Problem([("\ud800", 5)])


class Needs(unittest.TestCase):
    def test_an_old_pytorch_skips(self) -> None:
        for version, status in (("1.4.0", 77), ("1.12.1+cpu", 77), ("1.13.0a0", 0), ("2.6.0", 0), ("2.15.0+cpu", 0), ("3.0.0a0", 0)):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "torch.py").write_text(f"__version__ = {version!r}\n", encoding="utf-8")
                code = f"import sys; sys.path[:0] = [{folder!r}, {str(Path(__file__).parent)!r}]; import needs; needs.torch()"
                ran = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=300)
            self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
            self.assertEqual(ran.stdout.startswith("SKIPPED") and f"has torch {version}, older than 1.13" in ran.stdout, status == 77)

    def test_it_is_the_one_that_is_installed(self) -> None:
        text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
        self.assertIn(f'"torch>={needs.TORCH[0]}.{needs.TORCH[1]}"', text)


if __name__ == "__main__":
    unittest.main()
