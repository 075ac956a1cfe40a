"""A gate that is interrupted still tells what it has done. interruption_test.py TOOL [TEST...]"""

import json
import os
import pathlib
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
PLAIN = HERE.parent.parent / "docs" / "examples" / "programs" / "scape_plain.py"
TOOL = ""


def heed_signals():
    """A shell ignores some for its background jobs, and nohup another."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Interruption(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.report = self.folder / "report"
        self.json = self.folder / "check.json"

    def start(self, *options):
        """With the beginnings of searches on its standard error."""
        gate = subprocess.Popen([TOOL, "check", "--verbose", "--json", self.json, "--report", self.report, *options],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heed_signals,
                                env={**os.environ, "TRUESTEP_SCRATCH": str(self.scratch), "NO_COLOR": "1"})
        self.addCleanup(gate.stdout.close)
        self.addCleanup(gate.stderr.close)
        self.addCleanup(gate.wait)
        self.addCleanup(gate.kill)
        return gate

    def wait_for_search(self, gate, number):
        """Until that search begins; with --jobs 1 those before it have ended."""
        begun = 0
        while begun < number:
            line = gate.stderr.readline()
            self.assertTrue(line, "it ended before")
            begun += line.startswith("$ ")

    def processor_seconds(self, gate):
        """Of the gate and what it has started: the session is theirs alone."""
        ticks = 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            ticks += int(fields[11]) + int(fields[12]) if int(fields[3]) == gate.pid else 0
        return ticks / os.sysconf("SC_CLK_TCK")

    def wait_until_told(self, gate):
        """That the signal has come; returns what the gate has said."""
        said = ""
        while "interrupted" not in said:
            line = gate.stderr.readline()
            self.assertTrue(line, "it ended before: " + said)
            said += line
        return said

    def expect_ended_by(self, gate, sent, seconds=60, said=""):
        begin = time.monotonic()
        out, err = gate.communicate(timeout=300)
        err = said + err
        self.assertEqual(gate.returncode, -sent, out + err)
        self.assertLess(time.monotonic() - begin, seconds)
        self.assertEqual(list(self.scratch.iterdir()), [])
        self.assertIn("interrupted", err)
        return out

    def told(self):
        """The properties' rows; page and JUnit say the same."""
        results = json.loads(self.json.read_text())
        self.assertEqual(json.loads((self.report / "results.json").read_text()), results)
        page = (self.report / "index.html").read_text()
        self.assertTrue(page.endswith("</html>\n"))
        rows = results["rows"] + results["properties"]
        suites = xml.etree.ElementTree.parse(self.report / "junit.xml").getroot()
        self.assertEqual(len(list(suites.iter("testcase"))), len(rows))
        skipped = [row for row in rows if row["status"] == "SKIPPED"]
        self.assertEqual([one.get("message") for one in suites.iter("skipped")], [row["reason"] for row in skipped])
        for row in skipped:
            self.assertIn(row["reason"], page)
        self.assertEqual(sorted(path.name for path in self.report.iterdir()), ["index.html", "junit.xml", "results.json"])
        return rows

    def expect_some_done(self, sent, send, *options):
        gate = self.start("--implementation", "host", "--matrix", "--workers", "2,3", "--cases", "40", *options)
        self.wait_for_search(gate, 4)
        send(gate, sent)
        out = self.expect_ended_by(gate, sent)
        rows = self.told()
        done = [row for row in rows if row["reason"] == ""]
        self.assertGreaterEqual(len(done), 3)
        self.assertTrue(all(row["status"] == "PASSED" and row["cases"] >= 40 for row in done))
        undone = [row for row in rows if row["reason"] == "interrupted"]
        self.assertGreater(len(undone), 10)
        self.assertTrue(all(row["status"] == "SKIPPED" and row["cases"] == 0 for row in undone))
        # What was under way has seen some.
        begun = [row for row in rows if row not in done and row not in undone]
        self.assertTrue(all(row["status"] == "PASSED" and row["reason"].startswith("interrupted after ") for row in begun))
        self.assertIn("SKIPPED: interrupted", out)

    def test_what_was_done_is_told_after_term(self):
        self.expect_some_done(signal.SIGTERM, lambda gate, sent: gate.send_signal(sent), "--jobs", "1")

    def test_and_after_the_interruption_of_a_terminal_which_comes_to_all(self):
        self.expect_some_done(signal.SIGINT, lambda gate, sent: os.killpg(gate.pid, sent), "--jobs", "1")

    def test_and_where_all_work_is_done_in_one_process(self):
        self.expect_some_done(signal.SIGHUP, lambda gate, sent: gate.send_signal(sent), "--jobs", "0")

    def test_and_where_the_same_signal_comes_twice_at_once(self):
        def twice(gate, sent):
            gate.send_signal(sent)
            gate.send_signal(sent)
        self.expect_some_done(signal.SIGTERM, twice, "--jobs", "1")

    def test_a_search_that_is_ended_keeps_what_it_has_seen(self):
        gate = self.start("--implementation", "host", "--property", "mask.order", "--cases", "10000000", "--jobs", "1")
        self.wait_for_search(gate, 1)
        while self.processor_seconds(gate) < 0.5:  # many cases, however busy the machine is
            time.sleep(0.01)
        gate.terminate()
        self.expect_ended_by(gate, signal.SIGTERM)
        row, = self.told()
        self.assertEqual(row["status"], "PASSED")
        self.assertGreater(row["cases"], 0)
        self.assertEqual(row["reason"], f"interrupted after {row['cases']} of 10000000 cases")

    # What does not end by itself.

    def hanging(self, *options):
        mark = self.folder / "hanging"
        program = shlex.join(["python3", str(HERE / "misbehaving.py"), str(PLAIN), "hangs", str(mark)])
        gate = self.start("--program", program, "--property", "reference,mask.order", "--workers", "2", "--tensors",
                          "a:13,b:5:dense", *options)
        while not mark.exists() or not mark.read_text():
            self.assertIsNone(gate.poll())
            time.sleep(0.01)
        self.addCleanup(self.expect_gone, pathlib.Path("/proc", mark.read_text()))
        return gate

    def expect_gone(self, process):
        """Its parent has ended it, or been ended; the kernel may take a moment."""
        for _ in range(3000):
            if not process.exists():
                return
            time.sleep(0.01)
        self.fail("the program outlives the gate")

    def test_a_program_that_hangs_is_ended_and_not_blamed(self):
        gate = self.hanging()
        gate.terminate()
        self.expect_ended_by(gate, signal.SIGTERM, 30)
        self.assertEqual({row["status"] for row in self.told()} - {"SKIPPED", "PASSED"}, set())
        self.assertTrue(all(row["reason"].startswith("interrupted") for row in self.told()))

    def expect_nothing_told(self, gate, said):
        self.expect_ended_by(gate, signal.SIGTERM, 30, said)
        self.assertFalse(self.json.exists())
        self.assertEqual(list(self.report.iterdir()), [])

    def test_a_second_signal_ends_it_at_once(self):
        gate = self.hanging("--jobs", "0")
        gate.terminate()
        said = self.wait_until_told(gate)
        time.sleep(0.3)  # what comes within 0.2 s is the same wish
        gate.terminate()
        self.expect_nothing_told(gate, said)

    def on_a_terminal(self, *options):
        """All that the gate prints to one."""
        parent, child = pty.openpty()
        gate = subprocess.Popen([TOOL, "check", *options], stdin=child, stdout=child, stderr=child,
                                env={**os.environ, "TRUESTEP_SCRATCH": str(self.scratch), "NO_COLOR": "1"})
        os.close(child)
        said = b""
        while True:
            try:
                some = os.read(parent, 65536)
            except OSError:  # as Linux has it when the other end is closed
                some = b""
            if not some:
                break
            said += some
        os.close(parent)
        self.assertEqual(gate.wait(), 0, said)
        return said

    def test_progress_is_erased_before_results(self):
        for cases in (100, 400, 1600):
            said = self.on_a_terminal("--implementation", "host", "--jobs", "1", "--cases", str(cases), "--tensors", "a:13,b:5:dense")
            if b" s left" in said:
                break
        last = said.rindex(b" s left") + len(b" s left")
        self.assertTrue(said.startswith(b"\r\x1b[K", last), said[last - 40:last + 40])
        self.assertNotRegex(said, rb" s left[^\r]")


if __name__ == "__main__":
    TOOL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
