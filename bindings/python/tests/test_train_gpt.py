"""ci/templates/slurm-train.sbatch and docs/examples/train_gpt.py, at toy size, on CPUs over gloo: pairs begin alike, both learn, and what
cannot be begun or breaks off is told by the exit status. Nothing is said of GPUs here, nor of SLURM."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs

needs.torch()
import torch  # noqa: E402

if int(torch.__version__.split(".")[0]) < 2:
    print(f"SKIPPED: torchrun of torch {torch.__version__} does not start under Python 3.11; ci/torch makes an environment that will do")
    sys.exit(77)

ROOT = Path(__file__).parents[3]
TOY = "--bytes --vocabulary 256 --layers 1 --width 32 --heads 2 --context 32 --batch 4 --micro-batches 2 --steps 40 --measure-every 20 --rate 0.01"


class Template(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = Path(kept.name)
        chapters = sorted((ROOT / "docs/specification").glob("*.md"))
        (self.folder / "tokens").write_bytes(b"".join(chapter.read_bytes() for chapter in chapters)[:60000])

    def start(self, **more: str) -> subprocess.CompletedProcess[str]:
        settings = {"TRUESTEP_TOKENS": str(self.folder / "tokens"), "TRUESTEP_PYTHON": sys.executable, "TRUESTEP_RANKS": "2", "TRUESTEP_SEEDS": "1",
                    "TRUESTEP_OPTIMIZERS": "adamw scape:0.1", "TRUESTEP_LOGS": str(self.folder / "logs"), "TRUESTEP_OPTIONS": TOY,
                    "OMP_NUM_THREADS": "1"}
        return subprocess.run(["bash", "ci/templates/slurm-train.sbatch"], cwd=ROOT, env=os.environ | settings | more, text=True, capture_output=True,
                              timeout=600)

    def points(self, optimizer: str) -> "list[tuple[int, float]]":
        lines = (self.folder / "logs" / f"{optimizer}.seed-1.jsonl").read_text(encoding="utf-8").splitlines()
        return [(line["step"], line["loss"]) for line in map(json.loads, lines)]

    def test_pairs_begin_alike_and_learn(self) -> None:
        done = self.start()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        dense, sparse = self.points("adamw"), self.points("scape_0.1")
        self.assertEqual([step for step, _ in dense], [0, 20, 40])
        self.assertEqual(dense[0], sparse[0])
        for points in dense, sparse:
            self.assertLess(points[2][1], points[0][1] - 1.0)
        self.assertNotEqual(dense[2], sparse[2])

    def test_what_cannot_be_is_told(self) -> None:
        missing = self.start(TRUESTEP_TOKENS=str(self.folder / "none"))
        self.assertEqual(missing.returncode, 2)
        self.assertIn("which is not a file", missing.stderr)
        broken = self.start(TRUESTEP_OPTIMIZERS="scape:2")
        self.assertEqual(broken.returncode, 1, broken.stdout + broken.stderr)
        self.assertIn("scape:2, seed 1, did not come to its end", broken.stderr)

    def test_it_has_124_million_parameters(self) -> None:
        sys.path.insert(0, str(ROOT / "docs/examples"))
        import train_gpt  # type: ignore[import-not-found]
        sys.argv = ["train_gpt.py", "--tokens", "none"]
        asked = train_gpt.arguments()
        with torch.device("meta"):
            parameters = sum(p.numel() for p in train_gpt.GPT(asked).parameters())
        self.assertEqual(round(parameters / 1e6), 124)


if __name__ == "__main__":
    unittest.main()
