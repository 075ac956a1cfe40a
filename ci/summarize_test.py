"""ci/summarize.py over results of its own making, and over a report that ctest wrote."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

SUMMARIZE = pathlib.Path(__file__).with_name("summarize.py")


def case(name, status, said=""):
    """A test as ctest reports it."""
    inside = {"run": "", "fail": '<failure message="Failed"/>', "notrun": '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'}
    return f'<testcase name="{name}" status="{status}">{inside[status]}<system-out>{escape(said)}</system-out></testcase>'


def skipped(name, reason):
    return case(name, "notrun", f"[ RUN ] {name}\n/a/b.cpp:3: Skipped\n{reason}\n\n[  SKIPPED ] {name}\n")


class Summarize(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def stage(self, name, good, cases=None, seconds=""):
        (self.folder / f"{name}.{'passed' if good else 'failed'}").write_text(seconds, encoding="utf-8")
        if cases is not None:
            (self.folder / f"{name}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>", encoding="utf-8")

    def summary(self):
        ended = subprocess.run([sys.executable, SUMMARIZE, self.folder], capture_output=True, text=True, check=False)
        self.assertEqual(ended.stderr, "")
        return ended.returncode, ended.stdout.splitlines()

    def test_what_passed_is_counted_by_test_and_by_stage(self):
        self.stage("format", True)
        self.stage("quick", True, [case("a", "run"), case("b", "run")])
        self.assertEqual(self.summary(), (0, ["3 passed, 0 failed"]))

    def test_a_stage_that_was_skipped_has_not_passed(self):
        self.stage("format", True)
        (self.folder / "container.skipped").write_text("1\n", encoding="utf-8")
        self.assertEqual(self.summary()[1][0], "SKIPPED container: 1 test, what it said stands under its name; the stage")
        self.assertEqual(self.summary()[1][-1], "1 passed, 0 failed")

    def test_what_took_longest_is_named(self):
        self.stage("quick", True, [case("a", "run").replace("<testcase", '<testcase time="2.6"'), case("b", "run")], "12\n")
        self.stage("full", False, [case("c", "fail").replace("<testcase", '<testcase time="30.1"')], "40\n")
        self.stage("format", True, seconds="0\n")
        status, lines = self.summary()
        self.assertEqual(status, 1)
        self.assertEqual(lines[:3], ["seconds  the slowest tests", "     30  c (full)", "      3  a (quick)"])
        self.assertEqual(lines[3:6], ["seconds  the stages, 52 s in all", "     40  full", "     12  quick"])
        self.assertEqual(lines[-1], "3 passed, 1 failed")

    def test_nothing_at_all_has_not_passed(self):
        self.assertEqual(self.summary(), (1, ["0 passed, 0 failed"]))

    def test_skipped_tests_come_by_stage_and_reason_and_one_by_one_in_a_file(self):
        self.stage("quick", True, [case("a", "run")] + [skipped(f"gpu.{i}", "no GPU: none found") for i in range(31)] +
                   [skipped("mpi", "no MPI")])
        self.stage("full", True, [skipped("gpu", "no GPU: none found"),
                                  case("script", "notrun", "looking\nci/look: skipped, no Chromium\n"), case("mute", "notrun")])
        status, lines = self.summary()
        self.assertEqual(status, 0)
        self.assertEqual(lines, ["SKIPPED full: 1 test, no GPU: none found; gpu",
                                 "SKIPPED full: 1 test, ci/look: skipped, no Chromium; script",
                                 "SKIPPED full: 1 test, no reason given; mute",
                                 "SKIPPED quick: 31 tests, no GPU: none found; e.g. gpu.0",
                                 "SKIPPED quick: 1 test, no MPI; mpi",
                                 f"35 skipped, counted as neither; each of them is in {self.folder}/skipped.txt",
                                 "1 passed, 0 failed"])
        listed = (self.folder / "skipped.txt").read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(listed), 35)
        self.assertIn("quick: gpu.30: no GPU: none found", listed)

    def test_what_failed_comes_last_with_the_end_of_its_output(self):
        self.stage("quick", False, [case("good", "run"), case("bad", "fail", "\n".join(f"line {i}" for i in range(40))),
                                    skipped("gpu", "no GPU"), case("mute", "fail")])
        self.stage("tidy", False)
        status, lines = self.summary()
        self.assertEqual(status, 1)
        self.assertEqual(lines[:3], ["SKIPPED quick: 1 test, no GPU; gpu", lines[1], ""])
        self.assertEqual(lines[3:], ["-- FAILED quick: bad, the end of its output:"] + [f"   line {i}" for i in range(25, 40)] +
                         ["", "FAILED quick: bad", "FAILED quick: mute",
                          "FAILED stage tidy: what it said stands under its name", "1 passed, 3 failed"])

    def test_a_runner_that_fails_without_a_failed_test_fails(self):
        self.stage("quick", False, [case("good", "run")])
        self.assertEqual(self.summary(), (1, ["", "FAILED stage quick: no test of it failed, so what runs them did",
                                              "1 passed, 1 failed"]))

    def test_a_report_that_was_cut_fails(self):
        self.stage("quick", True, [case("good", "run")])
        report = self.folder / "quick.xml"
        report.write_text(report.read_text(encoding="utf-8")[:-20], encoding="utf-8")
        status, lines = self.summary()
        self.assertEqual(status, 1)
        self.assertTrue(lines[1].startswith("FAILED stage quick: its report cannot be read ("), lines)
        self.assertEqual(lines[-1], "0 passed, 1 failed")

    @unittest.skipUnless(shutil.which("ctest"), "there is no ctest")
    def test_a_report_of_ctest(self):
        (self.folder / "CTestTestfile.cmake").write_text(
            'add_test(good true)\nadd_test(bad sh -c "echo wrong; exit 1")\nadd_test(none sh -c "echo skipped: none; exit 77")\n'
            "set_tests_properties(none PROPERTIES SKIP_RETURN_CODE 77)\n", encoding="utf-8")
        subprocess.run(["ctest", "--output-junit", self.folder / "quick.xml"], cwd=self.folder, capture_output=True, check=False)
        (self.folder / "quick.failed").touch()
        status, lines = self.summary()
        self.assertEqual(status, 1)
        self.assertEqual(lines[0], "SKIPPED quick: 1 test, skipped: none; none")
        self.assertEqual(lines[-5:], ["-- FAILED quick: bad, the end of its output:", "   wrong", "", "FAILED quick: bad",
                                      "1 passed, 1 failed"])


if __name__ == "__main__":
    unittest.main()
