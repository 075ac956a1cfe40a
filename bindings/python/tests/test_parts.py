"""Recorders of a part of a run: chosen segments, and what comes after some step; of a right optimizer, and of one with a mistake. And where
recorders write."""

import os
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402

RANKS, STEPS, RATE, DENSITY, CLIP = 3, 7, 0.02, 0.25, 0.05
TENSORS = [truestep.Tensor("wq", 100), truestep.Tensor("norm", 6, True), truestep.Tensor("mlp", 94)]
f = np.float32

# What somebody gets wrong in these lines, and the planted mistake that it is.
MISTAKES = {"dropped": "residual never added", "twice": "residual counted twice", "sum": "sum in place of mean",
            "at once": "mask used in the step that made it", "kept": "residual not cleared where sent"}


class PlainScape:
    """All ranks of section 4 in NumPy, with one of the mistakes, or none."""

    def __init__(self, problem: truestep.Problem, clip: float, mistake: str = "") -> None:
        self.problem, self.clip, self.mistake, self.t = problem, clip, mistake, 0
        size = problem.size
        self.w = (np.arange(size) % 17 - 8).astype(f) / f(16)
        self.m, self.e = np.zeros(size, f), [np.zeros(size, f) for _ in range(RANKS)]
        self.next_mask: Any = None
        per_rank = -(-size // RANKS)
        borders = sorted({0, 100, 106, size} | {min(size, rank * per_rank) for rank in range(RANKS)})
        self.segments = [(a, b, a // per_rank, 100 <= a < 106) for a, b in zip(borders, borders[1:])]

    def select(self, c: list[Any]) -> Any:
        mask = np.zeros(self.problem.size, bool)
        for begin, end, owner, dense in self.segments:
            k = end - begin if dense else min(end - begin, max(1, int(DENSITY * (end - begin))))
            mask[begin + np.argsort(-np.abs(c[owner][begin:end]), kind="stable")[:k]] = True
        return mask

    def step(self, gradients: list[Any]) -> float:
        self.t += 1
        b1, a1, b2, a2 = f(0.9), f(1 - 0.9), f(0.95), f(1 - 0.95)
        c = [(b1 * self.m + a1 * g) + (np.zeros_like(e) if self.mistake == "dropped" else e) for g, e in zip(gradients, self.e)]
        coming = self.select(c)
        self.mask = coming if self.next_mask is None or self.mistake == "at once" else self.next_mask
        self.next_mask = coming
        total = c[0].copy()
        for other in c[1:]:
            total = total + other
        mean = np.where(self.mask, total if self.mistake == "sum" else total / f(RANKS), f(0))
        ghat = np.where(self.mask, (mean - b1 * self.m) / a1, f(0))
        norm = float(np.sqrt(np.sum(ghat.astype(np.float64) ** 2)))
        if self.clip > 0:
            ghat = ghat * f(min(1.0, self.clip / (norm + 1e-6)))
            mean = np.where(self.mask, b1 * self.m + a1 * ghat, f(0))
        for rank in range(RANKS):
            self.e[rank] = c[rank].copy() if self.mistake == "kept" else np.where(self.mask, f(0), c[rank])
            if self.mistake == "twice":
                self.e[rank] = np.where(self.mask, f(0), self.e[rank] + self.e[rank])
        v = (b2 * (self.m * self.m)) + (a2 * (ghat * ghat))
        u = (mean * f(1 / (1 - 0.9 ** self.t))) / ((np.sqrt(v) * f(1 / np.sqrt(1 - 0.95 ** self.t))) + f(1e-8))
        self.w = self.w * f(1 - RATE * 0.1)
        self.w = np.where(self.mask, self.w - (f(RATE) * u), self.w)
        self.m = mean
        return norm


def gradients_of(size: int) -> Iterator[list[Any]]:
    random = np.random.default_rng(5)
    while True:
        yield [random.standard_normal(size).astype(f) for _ in range(RANKS)]


class Parts(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = f"{folder.name}/run.safetensors"

    def record(self, mistake: str = "", sample: Any = None, begin: int = 0, clip: float = 0.0) -> truestep.Recorder:
        problem = truestep.Problem(TENSORS, RANKS, density=DENSITY, clip_norm=clip)
        run, gradients = PlainScape(problem, clip), gradients_of(problem.size)
        for _ in range(begin):
            run.step(next(gradients))
        state = {"first_moment": run.m, "residual": run.e, "mask": run.next_mask} if begin else None
        recorder = truestep.Recorder(problem, run.w, "PlainScape", sample=sample, begin=begin, state=state)
        run.mistake = mistake
        for _ in range(begin, STEPS):
            g = next(gradients)
            norm = run.step(g)
            recorder.step(RATE, g, norm=norm, parameters=run.w, first_moment=run.m, residual=run.e, mask=run.mask,
                          next_mask=run.next_mask)
        recorder.write(self.path)
        return recorder

    def test_what_is_right_passes(self) -> None:
        for sample in (None, 0.4, "0.5:7", ["mlp@0", "norm"], "wq"):
            for begin in (0, 4):
                for clip in (0.0, CLIP):
                    self.record("", sample, begin, clip)
                    for level in ("rel", "exact") if clip == 0.0 else ("rel",):  # the sum of the norm is NumPy's
                        result = truestep.verify(self.path, level)
                        self.assertTrue(result.passed, f"{sample} {begin} {clip}\n{result.text}")
                    self.assertEqual("sampled: " in result.text, sample is not None)
                    self.assertEqual("begins after step 4" in result.text, begin == 4)

    def test_what_is_held_is_told(self) -> None:
        self.assertEqual(self.record("", "norm,mlp@0").held, [(100, 106), (106, 134)])
        self.assertEqual(self.record().held, [(0, 200)])

    def test_five_mistakes_are_found_in_a_sample_and_after_some_step(self) -> None:
        for mistake in MISTAKES:
            for sample, begin in (("wq@0,mlp@90", 0), (None, 3), ("norm,wq@50", 3)):
                with self.subTest(mistake=mistake, sample=sample, begin=begin):
                    self.record(mistake, sample, begin)
                    result = truestep.verify(self.path)
                    self.assertFalse(result.passed, result.text)
                    self.assertIsNotNone(result.first_divergence)

    @unittest.skipUnless(os.environ.get("TRUESTEP_TOOL") and os.path.exists(os.environ["TRUESTEP_TOOL"]), "needs the tool")
    def test_they_are_explained_from_a_sample(self) -> None:
        for mistake, planted in MISTAKES.items():
            with self.subTest(mistake=mistake):
                self.record(mistake, "wq@0,mlp@90")
                told = subprocess.run([os.environ["TRUESTEP_TOOL"], "verify", self.path], capture_output=True, text=True)
                self.assertEqual(told.returncode, 1, told.stdout)
                self.assertIn(planted, told.stdout)

    def test_bad_input_is_told(self) -> None:
        problem = truestep.Problem(TENSORS, RANKS, density=DENSITY)
        start = np.zeros(200, f)
        for sample in (0.0, 2, "wv", "wq@100", []):
            with self.assertRaisesRegex(truestep.Error, "sample is"):
                truestep.Recorder(problem, start, sample=sample)
        with self.assertRaisesRegex(truestep.Error, "had been taken"):
            truestep.Recorder(problem, start, begin=-1)
        with self.assertRaisesRegex(truestep.Error, "no step has begun"):
            truestep.Recorder(problem, start, state={"first_moment": start})
        recorder = truestep.Recorder(problem, start, begin=2, state={"first_moment": start, "residual": [start] * 3})
        recorder.step(RATE, [start] * 3, parameters=start)
        with self.assertRaisesRegex(truestep.Error, "initial/mask has not been given"):
            recorder.write(self.path)
        clipped = truestep.Recorder(truestep.Problem(TENSORS, RANKS, clip_norm=1.0), start, sample="wq")
        clipped.step(RATE, [start] * 3, parameters=start)
        with self.assertRaisesRegex(truestep.Error, "step 1 has no norm"):
            clipped.write(self.path)


class Places(unittest.TestCase):
    def test_links_and_pipes_stay_what_they_are(self) -> None:
        problem, start = truestep.Problem(TENSORS, 1, density=DENSITY), np.zeros(200, f)
        recorder = truestep.Recorder(problem, start)
        recorder.step(RATE, [start], parameters=start)
        boundary = truestep.mapl.Recorder({"width": 4, "rank": 2}, np.eye(4, 2, dtype=f))
        boundary.micro_batch([0, 0], X=np.ones((2, 4), f), G=np.ones((2, 4), f))
        boundary.step(0.05)
        for written in (recorder, boundary):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                written.write(folder / "run")
                (folder / "link").symlink_to("later")  # dangles at first
                for _ in range(2):
                    written.write(folder / "link")
                    self.assertTrue((folder / "link").is_symlink())
                    self.assertEqual((folder / "later").read_bytes(), (folder / "run").read_bytes())
                os.mkfifo(folder / "pipe")
                reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # what is written fits into it
                written.write(folder / "pipe")
                self.assertEqual(os.read(reader, 1 << 20), (folder / "run").read_bytes())
                written.write(f"/dev/fd/{os.open(folder / 'run', os.O_RDWR)}")
                self.assertEqual(os.read(reader, 1), b"")
                os.close(reader)
                with self.assertRaisesRegex(truestep.Error, "needs a regular file"):
                    truestep.Recorder(problem, start, spool=folder / "pipe")
                self.assertTrue((folder / "pipe").is_fifo())
                self.assertEqual(sorted(os.listdir(folder)), ["later", "link", "pipe", "run"])


if __name__ == "__main__":
    unittest.main()
