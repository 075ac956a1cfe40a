"""The examples that are shown, docs/examples/train_*.py, run: traces are EXACT, for the package and the tool, and the pipeline learns."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import needs

needs.torch()
import torch  # noqa: E402

import scape  # noqa: E402

ROOT = Path(__file__).parents[2]
EXAMPLES = {"train_scape.py": "README.md", "train_gasloc.py": "python/README.md"}  # and who shows them
PIPELINE = {"train_mapl.py": "python/README.md"}  # two stages, and no trace


class Example(unittest.TestCase):
    def test_they_are_what_is_shown(self) -> None:
        for name, shown in (EXAMPLES | PIPELINE).items():
            text = (ROOT / "docs/examples" / name).read_text(encoding="utf-8")
            self.assertLess(len(text.splitlines()), 15 if name in EXAMPLES else 30)
            self.assertIn(textwrap.indent(text, "    ", lambda line: bool(line.strip())), (ROOT / shown).read_text(encoding="utf-8"))

    def test_they_run_and_are_exact(self) -> None:
        for name in EXAMPLES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.start(3, str(ROOT / "docs/examples" / name), folder)
                result = scape.verify(f"{folder}/run.safetensors")
                self.assertTrue(result.passed, result.text)
                tool = os.environ.get("SCAPE_TOOL", "")
                if os.path.exists(tool):
                    verified = subprocess.run([tool, "verify", f"{folder}/run.safetensors"], text=True, capture_output=True, timeout=300)
                    self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_the_pipeline_learns(self) -> None:
        for name in PIPELINE:
            with tempfile.TemporaryDirectory() as folder:
                [loss] = re.findall(r"^loss ([0-9.]+),", self.start(2, str(ROOT / "docs/examples" / name), folder), re.MULTILINE)
                self.assertLess(float(loss), 2.0)

    def start(self, ranks: int, program: str, folder: str) -> str:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        if int(torch.__version__.split(".")[0]) >= 2:
            commands = [([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks), program], environment)]
        else:  # whose torchrun does not start under Python 3.11; it would set these
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            commands = [([sys.executable, program], environment | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                                                                   "MASTER_PORT": str(port)}) for rank in range(ranks)]
        started = [subprocess.Popen(command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                   for command, variables in commands]
        told = ""
        for process in started:
            said, _ = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, said)
            told += said
        return told


if __name__ == "__main__":
    unittest.main()
