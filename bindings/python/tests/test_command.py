"""What libtruestep says of a run that has failed is what the tool says, and the package is a command of its own: `python -m truestep`, and `truestep`
where it is installed."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "fixtures/scape"
RIGHT = FIXTURES / "golden/p3_density_01.safetensors"
WRONG = FIXTURES / "artifact/disagree/scape_v2_p3_default_residual_twice.safetensors"
NAMED = "the residual is counted twice: momentum and gradient are added to it again: "
INSTALLED = Path(sys.executable).with_name("truestep")


def commands() -> list[list[str]]:
    """Of an installed package the entry point, too."""
    return [[sys.executable, "-m", "truestep"]] + ([] if "TRUESTEP_LIBRARY" in os.environ else [[str(INSTALLED)]])


class Command(unittest.TestCase):
    def run_command(self, command: list[str], *arguments: str | Path, status: int) -> str:
        done = subprocess.run([*command, *map(str, arguments)], text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout if status < 2 else done.stderr

    def test_a_wrong_run_is_told_with_the_mistake(self) -> None:
        result = truestep.verify(WRONG, level="rel")
        self.assertFalse(result.passed)
        self.assertTrue(result.what_may_be_wrong[0].startswith(NAMED), result.what_may_be_wrong)
        self.assertIn("what may be wrong:\n  " + NAMED, result.text)
        self.assertEqual(truestep.verify(RIGHT).what_may_be_wrong, ())

    def test_the_tool_says_the_same(self) -> None:
        tool = os.environ.get("TRUESTEP_TOOL", "")
        if not os.path.exists(tool):
            self.skipTest("there is no tool: TRUESTEP_TOOL")
        of_the_gate = "  matches known bug ", "  no known bug ", "  known bugs were not tried", "  tried "
        for path in WRONG, RIGHT:
            mine = self.run_command(commands()[0], "verify", path, "--level", "rel", status=int(path == WRONG))
            other = self.run_command([tool], "verify", path, "--level", "rel", status=int(path == WRONG))
            # The tool goes on with the mistakes that the gate plants, bit for bit.
            self.assertEqual(mine.splitlines(), [line for line in other.splitlines() if not line.startswith(of_the_gate)])

    def test_verdict_and_status(self) -> None:
        for command in commands():
            self.assertTrue(self.run_command(command, "verify", RIGHT, status=0).endswith(f"PASSED  {RIGHT}\n\n1 passed, 0 failed\n"))
            said = self.run_command(command, "verify", RIGHT, WRONG, "--level", "rel", status=1)
            self.assertIn(NAMED, said)
            self.assertTrue(said.endswith("1 passed, 1 failed\n"))
            self.assertIn("--level is 'nonsense'", self.run_command(command, "verify", RIGHT, "--level", "nonsense", status=2))
            self.assertIn("missing.safetensors", self.run_command(command, "verify", "missing.safetensors", status=2))
            self.assertIn("usage", self.run_command(command, status=2))

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "the action's definition is YAML, and there is no python3-yaml")
    def test_the_action_and_the_template_verify_with_what_pip_installs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = Path(folder, "truestep")
            command.write_text(f'#!/bin/sh\nexec {sys.executable} -m truestep "$@"\n')
            command.chmod(0o755)
            for name in "right", "wrong":
                subprocess.run([sys.executable, ROOT / "docs/examples/record_trace.py", *["--break"][:name == "wrong"], f"{folder}/{name}"], check=True)
            traces = f"{folder}/right", f"{folder}/wrong"
            done = subprocess.run([sys.executable, ROOT / "ci/action_test.py", command, *traces], text=True, capture_output=True, timeout=300)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_the_files_of_ranks_are_one_run(self) -> None:
        problem = truestep.Problem([("a", 6)], 2, algorithm="adams")
        start = np.ones(6, np.float32)
        gradients = [np.arange(1, 7, dtype=np.float32), np.full(6, 0.5, np.float32)]
        with tempfile.TemporaryDirectory() as folder:
            paths = [f"{folder}/run.rank{rank}.safetensors" for rank in range(2)]
            reference = truestep.reference.Reference(problem, start)
            reference.step(gradients, 0.01)
            for rank, path in enumerate(paths):
                recorder = truestep.Recorder(problem, start, rank=rank)
                recorder.step(0.01, [gradients[rank]], parameters=reference.parameters, first_moment=reference.first_moment)
                recorder.write(path)
            for command in commands():
                said = self.run_command(command, "verify", *paths, "--json", f"{folder}/result.json", status=0)
                self.assertIn(f"$ truestep verify '{folder}/run.rank*.safetensors' --level exact\n", said)
                self.assertTrue(said.endswith("1 passed, 0 failed\n"))
                held = json.loads(Path(folder, "result.json").read_text(encoding="utf-8"))
                self.assertEqual((held["passed"], held["failed"], held["traces"][0]["fits"]), (1, 0, []))
                self.run_command(command, "join", *paths, "-o", f"{folder}/run.safetensors", status=0)
                self.run_command(command, "verify", f"{folder}/run.safetensors", status=0)
                self.assertIn("rank 1 of 2 is missing", self.run_command(command, "join", paths[0], "-o", f"{folder}/again.safetensors", status=2))


if __name__ == "__main__":
    unittest.main()
