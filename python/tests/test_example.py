"""The examples that are shown, docs/examples/train_*.py, run: their traces are EXACT, for the package and the tool."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import needs

needs.torch()
import scape  # noqa: E402

ROOT = Path(__file__).parents[2]
EXAMPLES = {"train_scape.py": "README.md", "train_gasloc.py": "python/README.md"}  # and who shows them


class Example(unittest.TestCase):
    def test_they_are_what_is_shown(self) -> None:
        for name, shown in EXAMPLES.items():
            text = (ROOT / "docs/examples" / name).read_text(encoding="utf-8")
            self.assertLess(len(text.splitlines()), 15)
            self.assertIn(textwrap.indent(text, "    ", lambda line: bool(line.strip())), (ROOT / shown).read_text(encoding="utf-8"))

    def test_they_run_and_are_exact(self) -> None:
        for name in EXAMPLES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "3",
                           str(ROOT / "docs/examples" / name)]
                ran = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=300,
                                     env=os.environ | {"OMP_NUM_THREADS": "1"})
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                result = scape.verify(f"{folder}/run.safetensors")
                self.assertTrue(result.passed, result.text)
                tool = os.environ.get("SCAPE_TOOL", "")
                if os.path.exists(tool):
                    verified = subprocess.run([tool, "verify", f"{folder}/run.safetensors"], text=True, capture_output=True, timeout=300)
                    self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)


if __name__ == "__main__":
    unittest.main()
