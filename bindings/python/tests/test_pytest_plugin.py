"""The pytest plugin: what a rank does that fails, hangs or dies is named, nothing is left running, and docs/pytest.md shows what is printed."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
import xml.etree.ElementTree
from pathlib import Path

import needs

needs.torch()
needs.module("pytest")
import truestep  # noqa: E402
from truestep.testing import assert_true  # noqa: E402

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/pytest.md"
FIXTURES = ROOT / "fixtures/scape"
WRONG = FIXTURES / "artifact/disagree/scape_v2_p3_default_residual_twice.safetensors"

# Without PyTorch's import in the file, so that this pytest does without.
RANKS = """
    import os, subprocess, time, pytest

    @pytest.fixture
    def value(rank):
        return rank + 1

    @pytest.mark.world(2)
    @pytest.mark.parametrize("most", [1])
    def test_fails(value, world_size, most):
        import torch, torch.distributed as dist
        print("value", value)
        total = torch.tensor([value])
        dist.all_reduce(total)
        assert total.item() == 3 and world_size == 2
        assert value <= most

    @pytest.mark.world(1, timeout=5)
    def test_hangs():
        subprocess.Popen(["sleep", "1001"])
        time.sleep(1000)

    @pytest.mark.world(2)
    def test_dies(rank):
        if rank == 1:
            print("the last words")
            os._exit(7)
        time.sleep(1000)

    @pytest.mark.skip(reason="on no rank")
    @pytest.mark.world(2)
    def test_skipped():
        assert False

    @pytest.mark.world(0)
    def test_of_nobody():
        pass

    def test_without_a_world(rank, world_size):
        assert (rank, world_size) == (0, 1)
"""


class PytestPlugin(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

        if "TRUESTEP_LIBRARY" in os.environ:  # the package is not installed, and this is what pip would leave
            [entry] = re.findall(r'(?m)^\[project\.entry-points\.pytest11\]\n(\w+ = )"([\w.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
            installed = self.folder / "truestep-0.dist-info"
            installed.mkdir()
            (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: truestep\nVersion: 0\n", encoding="utf-8")
            (installed / "entry_points.txt").write_text("[pytest11]\n" + "".join(entry) + "\n", encoding="utf-8")

    def pytest(self, *arguments: str, status: int) -> str:
        """In the folder."""
        done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", "made", "--junitxml", "junit.xml", *arguments],
                              cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def failures(self) -> dict[str, str]:
        """By JUnit, of each test; "" passed."""
        cases = xml.etree.ElementTree.parse(self.folder / "junit.xml").iter("testcase")
        return {case.attrib["name"]: "".join(kind.text or "" for kind in case) for case in cases}

    def test_ranks_that_fail_hang_and_die(self) -> None:
        (self.folder / "test_ranks.py").write_text(textwrap.dedent(RANKS), encoding="utf-8")
        text = self.pytest("-v", "-k", "not nothing", status=1)
        found = self.failures()
        self.assertEqual({name for name, failure in found.items() if failure},
                         {"test_fails[1]", "test_hangs", "test_dies", "test_skipped", "test_of_nobody"})
        self.assertIn("4 failed, 1 passed, 1 skipped", text)
        self.assertRegex(found["test_fails[1]"], r"^rank 1 of 2 failed: assert 2 <= 1\ntest_ranks.py:16: in test_fails\n")
        self.assertNotIn("rank 0", found["test_fails[1]"])
        self.assertIn("---- output of rank 0 of 2 ----\nvalue 1\n---- output of rank 1 of 2 ----\nvalue 2\n", text)
        self.assertRegex(found["test_hangs"], r"^rank 0 of 1 did not end within 5 s, and was stopped\n")
        self.assertRegex(found["test_hangs"], r'test_ranks.py", line 21 in test_hangs$')
        self.assertRegex(found["test_dies"], r"^rank 1 of 2 ended with status 7 and without a report\n\nrank 0 of 2 was stopped 5 s after ")
        self.assertRegex(found["test_dies"], r'test_ranks.py", line 28 in test_dies$')
        self.assertIn("---- output of rank 1 of 2 ----\nthe last words\n", text)
        self.assertIn("its size is 0; give a number of ranks", found["test_of_nobody"])
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = process.read_bytes()
            except OSError:  # it has ended
                continue
            self.assertNotIn(str(self.folder).encode(), line)
            self.assertNotEqual(line, b"sleep\x001001\x00", "a rank has left a process")

    def test_the_page_shows_what_is_printed(self) -> None:
        """A right run passes, a wrong one fails with its first divergence. Numbers are another machine's."""
        blocks = re.findall(r"^ {4}.*\n(?:^ {4}.*\n|^\n)*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        program, shown = (textwrap.dedent(block).strip() + "\n" for block in blocks[:2])
        (self.folder / "test_my_adams.py").write_text(program, encoding="utf-8")
        command, *lines = shown.splitlines()
        self.assertEqual(command, "$ pytest -q test_my_adams.py")
        printed = [self.numberless(line) for line in self.pytest("-q", "-x", "test_my_adams.py", status=1).splitlines()]
        at = 0
        for line in lines:
            self.assertIn(self.numberless(line), printed[at:], "\n".join(printed))
            at = printed.index(self.numberless(line), at) + 1
        found = self.failures()
        self.assertEqual(found["test_my_adams[0.95]"], "")
        self.assertRegex(found["test_my_adams[0.999]"], r"First divergence: step 2, phase update, parameters .*, tensor module.weight, index ")

    @staticmethod
    def numberless(line: str) -> str:
        line = re.sub(r" +\[ *\d+%\]$", "", line)  # which not every pytest prints
        line = re.sub(r"Trace: .*/", "Trace: /", line).split(" - ")[0]
        return re.sub(r"[\d.]+(e[-+]\d+)?", "#", re.sub(r"0x[0-9a-f]+", "#", line)).rstrip().replace("-#", "#")

    def test_traces_are_asserted_by_path(self) -> None:
        assert_true(FIXTURES / "golden/p3_density_01.safetensors")
        with self.assertRaises(AssertionError) as caught:
            assert_true(WRONG, level="rel")
        for part in ("not true at level REL!\n\nFirst divergence: step 1, phase residual, residual of rank 0, tensor embedding.word_embeddings.weight, index 0 ",
                     "\nExpected: -0.0875054", "\nActual: -0.175010", " (up to 4.17258", "\nKnown bug: the residual is counted twice: "):
            self.assertIn(part, str(caught.exception))
        with self.assertRaisesRegex(truestep.Error, "nothing.safetensors"):
            assert_true("nothing.safetensors")

    def test_a_run_that_nothing_verifies_is_an_error(self) -> None:
        (self.folder / "test_forgets.py").write_text(textwrap.dedent("""
            import pytest, torch, truestep.torch

            @pytest.mark.parametrize("fails", [False, True])
            def test_forgets(truestep_run, fails):
                optimizer = truestep.torch.Scape(torch.nn.Linear(2, 2).named_parameters())
                truestep_run.record(optimizer)
                assert not fails

            @pytest.mark.parametrize("optimizer", [truestep.torch.Scape, truestep.torch.GASLoC])
            def test_records(truestep_run, optimizer):
                model = torch.nn.Linear(8, 8)
                optimizer = optimizer(model.named_parameters(), lr=0.1)
                truestep_run.record(optimizer)
                for _ in range(20):
                    optimizer.zero_grad()
                    model(torch.randn(8, 8)).square().mean().backward()
                    optimizer.step()
                truestep.testing.assert_true(truestep_run)
            """), encoding="utf-8")
        text = self.pytest(status=1)
        self.assertIn("1 failed, 3 passed, 1 error", text)
        self.assertIn("nothing has verified; call truestep.testing.assert_true(truestep_run)", text)

    def test_neither_pytest_nor_torch_is_imported(self) -> None:
        program = "import sys, truestep, truestep.testing; sys.exit(bool({'pytest', 'torch'} & set(sys.modules)))"
        self.assertEqual(subprocess.run([sys.executable, "-c", program], timeout=60).returncode, 0)


if __name__ == "__main__":
    unittest.main()
