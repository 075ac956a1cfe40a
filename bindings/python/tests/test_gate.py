"""The gate drives this package's optimizer, worker and boundary, a process a rank, with recorders beside them: they pass, and mistakes in how
they are called do not."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs

needs.numpy()
PROGRAM = Path(__file__).with_name("gate_program.py")
RECORDED = Path(__file__).with_name("gate_recorded.py")


class Gate(unittest.TestCase):
    def check(self, system: str, *options: str, program: Path = RECORDED) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(PROGRAM.parent), os.environ.get("PYTHONPATH", "")])  # a changed copy stands elsewhere
        return subprocess.run([os.environ["TRUESTEP_TOOL"], "check", system, "--program", f"'{sys.executable}' '{program}'", "--brief", *options],
                              env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)

    def passes(self, system: str, *options: str) -> None:
        ran = self.check(system, *options)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"\b[1-9]\d* passed, 0 failed")

    def refuses(self, system: str, right: str, wrong: str, message: str, *options: str, of: Path = PROGRAM) -> None:
        text = of.read_text()
        self.assertIn(right, text)
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder, of.name)
            broken.write_text(text.replace(right, wrong))
            ran = self.check(system, "--cases", "20", "--property", "reference", *options, program=broken)
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        self.assertIn(message, ran.stdout)

    def test_scape(self) -> None:
        pinned = ["--tensors", "a:13,b:5:dense"]  # gate_program.py's densities fit small tensors
        self.passes("scape", "--cases", "10", "--workers", "1,2,3", *pinned)
        self.refuses("scape", 'asked["learning_rate"]', '2 * asked["learning_rate"]', "parameters of rank", *pinned)
        self.refuses("scape", 'recorder.step(asked["learning_rate"]', 'recorder.step(2 * asked["learning_rate"]', "FAILED  /", *pinned, of=RECORDED)

        self.refuses("scape", "    gate_refused.before", "    gate_refused.ACCEPTED.clear()\n    gate_refused.before",
                     ": status 0", *pinned, of=RECORDED)

    def test_gasloc(self) -> None:
        self.passes("gasloc", "--cases", "10", "--workers", "1,2,3")
        self.refuses("gasloc", "self.worker.step(self.read(path), rate)", "self.worker.step(self.read(path), 2 * rate)", "is not the reference's")
        self.refuses("gasloc", "recorder.round(max(rates, key=len)", "recorder.round([0.0 for _ in max(rates, key=len)]", "FAILED  /", of=RECORDED)

    def test_mapl(self) -> None:
        self.passes("mapl", "--cases", "2", "--workers", "2,3")
        self.refuses("mapl", 'self.boundary.step(asked["rate"], part)', 'self.boundary.step(asked["rate"], 0 * part)', "is not the reference's")


if __name__ == "__main__":
    unittest.main()
