"""Programs under the gate: the examples of docs/examples/programs, and what misbehaves. program_test.py TOOL C_EXAMPLE [TEST...]"""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "docs" / "examples" / "programs"
PLAIN = f"python3 {shlex.quote(str(EXAMPLES / 'scape_plain.py'))}"
TOOL, C_EXAMPLE = "", ""
SMALL = ["--workers", "2", "--tensors", "a:13,b:5:dense"]


def misbehaving(*words):
    return shlex.join(["python3", str(HERE / "misbehaving.py"), str(EXAMPLES / "scape_plain.py"), *map(str, words)])


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.environment = {**os.environ, "TRUESTEP_SCRATCH": str(self.scratch), "NO_COLOR": "1"}

    def check(self, program, *options):
        ended = subprocess.run([TOOL, "check", "--program", program, *options], capture_output=True, text=True,
                               check=False, env=self.environment, timeout=500)
        self.assertEqual(list(self.scratch.iterdir()), [], "something was left behind")
        return ended

    def expect_passed(self, program, *options):
        ended = self.check(program, *options)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def expect_found(self, program, *options):
        ended = self.check(program, *options)
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        return ended.stdout

    def expect_bad_input(self, part, program, *options):
        ended = self.check(program, *options)
        self.assertEqual(ended.returncode, 2, ended.stdout + ended.stderr)
        self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
        self.assertIn(part, ended.stderr)

    # The examples.

    def test_the_plain_example_passes(self):
        said = self.expect_passed(PLAIN, "--cases", "3", "--workers", "1,3", "--tensors", "a:13,b:5:dense")
        self.assertIn(" 0 failed, 6 skipped", said)

    def test_the_example_in_c_passes(self):
        said = self.expect_passed(C_EXAMPLE, "--cases", "10", "--workers", "1,2,3,5", "--tensors", "a:13,b:5:dense")
        self.assertIn("the program does not say that it knows 'damage'", said)
        self.assertIn(" 0 failed, 8 skipped", said)

    def test_a_damaged_checkpoint_that_is_restored_is_found(self):
        said = self.expect_found("env MISTAKE=damage " + PLAIN, "--cases", "40", *SMALL, "--property", "restart.damage")
        self.assertIn("damage=bit:", said)

    def test_ranks_that_do_not_compare_what_they_were_given_are_found(self):
        said = self.expect_found("env MISTAKE=starts " + PLAIN, "--cases", "20", *SMALL, "--property", "starts")
        self.assertIn("and a step is taken", said)

    def test_the_example_in_c_passes_in_large_cases_and_long_ones(self):
        self.expect_passed(C_EXAMPLE, "--cases", "10", "--property", "reference,machine")

    def test_mistakes_are_found_and_can_be_repeated_from_the_printed_line(self):
        crooked = self.folder / "it's mine"
        shutil.copytree(EXAMPLES, crooked)
        program = "python3 " + shlex.quote(str(crooked / "scape_plain.py"))
        for mistake in ("residual", "order"):
            for name, one in (("plain-python", program), ("plain-c", shlex.quote(C_EXAMPLE))):
                said = self.expect_found(f"env MISTAKE={mistake} {one}", "--property", "reference",
                                         "--cases", "30", "--workers", "3", "--tensors", "a:13,b:5:dense")
                self.assertIn(f"{name}, reference: Every bit is", said)
                line = [line for line in said.splitlines() if line.startswith("$ ")][-1].removeprefix("$ ")
                self.assertIn("--case", line)
                again = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False,
                                       env=self.environment)
                self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
                self.assertIn("0 passed, 1 failed", again.stdout)
                right = subprocess.run(["bash", "-c", line.replace(f"MISTAKE={mistake}", "MISTAKE=")],
                                       capture_output=True, text=True, check=False, env=self.environment)
                self.assertEqual(right.returncode, 0, right.stdout + right.stderr)

    # What a program may leave out.

    def test_parameters_alone_are_enough(self):
        only = '{"shows": ["parameters"]}'
        report = self.folder / "report"
        said = self.expect_passed(misbehaving(only), "--cases", "5", *SMALL, "--report", str(report))
        self.assertIn("the program does not show moment", said)
        rows = {row["property"]: row for row in json.loads((report / "results.json").read_text())["properties"]}
        for name in ("reference", "machine", "refusal", "restart.same", "rerun"):
            self.assertEqual(rows[name]["status"], "PASSED", name)
        for name in ("conservation.exact", "mask.order", "dense.exact", "restart.other"):
            self.assertEqual(rows[name]["status"], "SKIPPED", name)
        self.assertIn("plain-python", (report / "junit.xml").read_text())
        # And a mistake shows in them, two steps later.
        wrong = "env MISTAKE=residual " + misbehaving(only)
        said = self.expect_found(wrong, "--property", "reference", "--cases", "30", *SMALL, "--save",
                                 str(self.folder / "saved"))
        self.assertIn("parameters of rank", said)

    def test_every_single_view_may_be_missing(self):
        views = ["moment", "residual", "mask", "next_mask"]
        for left_out in views:
            shows = json.dumps({"shows": ["parameters", *[view for view in views if view != left_out]]})
            said = self.expect_passed(misbehaving(shows), "--cases", "3", *SMALL)
            self.assertIn(f"the program does not show {left_out}", said)

    def test_what_is_left_out_is_skipped_with_its_reason(self):
        said = self.expect_passed(misbehaving('{"left_out": {"restart": "not on Sundays"}}'), "--cases", "10", *SMALL,
                                  "--property", "restart.same,machine")
        self.assertRegex(said, r"restart\.same .*SKIPPED .*not on Sundays")
        self.assertIn("1 passed, 0 failed, 1 skipped", said)

    def test_the_level_is_the_programs_unless_one_is_given(self):
        options = ["--cases", "20", "--workers", "3", "--tensors", "a:13,b:5:dense", "--property", "reference"]
        backwards = "env MISTAKE=order " + misbehaving('{"level": "rel"}')
        self.expect_passed(backwards, *options)
        self.assertIn(" --level exact --property", self.expect_found(backwards, "--level", "exact", *options))
        self.expect_passed("env MISTAKE=order " + PLAIN, "--level", "rel", *options)

    # What misbehaves, once, costs that case alone.

    def expect_that_case_alone(self, what, pattern, limit="60"):
        mark = self.folder / f"done_{what}"
        said = self.expect_found(misbehaving(what, mark), "--property", "reference,mask.off", "--cases", "40", *SMALL,
                                 "--timeout", limit)
        self.assertTrue(mark.exists(), "it never came to that")
        self.assertRegex(said, pattern)
        self.assertIn("1 passed, 1 failed", said)
        self.assertFalse(pathlib.Path("/proc", mark.read_text()).exists(), "its process is still there")

    def test_one_that_dies(self):
        self.expect_that_case_alone("dies", r"rank 1 of 2, asked for 'step' \d+, ended with status 1; "
                                            r"the last line of its standard error: I cannot go on\n")

    def test_one_that_crashes(self):
        self.expect_that_case_alone("crashes", r"rank 1 of 2, asked for 'step' \d+, was killed \(Aborted\)")

    def test_one_that_hangs(self):
        self.expect_that_case_alone("hangs", r"rank 1 of 2, asked for 'step' \d+, did not answer within 10 s",
                                    "10")

    def test_one_that_does_not_end_its_line(self):
        self.expect_that_case_alone("unfinished", r"did not answer within 10 s, but for a line without its end",
                                    "10")

    def test_one_that_prints_rubbish(self):
        self.expect_that_case_alone("rubbish", r"rank 1 of 2.*wrote a line that is not a JSON object: 'loss: 0.25'")

    def test_one_that_answers_twice(self):
        self.expect_that_case_alone("twice", r"rank 1 of 2.*(answered out of turn|wrote without being asked)")

    def test_one_that_closes_its_output(self):
        self.expect_that_case_alone("closes", r"rank 1 of 2.*closed its standard output")

    def test_one_that_shows_too_little(self):
        self.expect_that_case_alone("short", r"rank 1 of 2.*left no 'parameters': .* has 68 bytes; it must have 72")

    def test_one_that_shows_too_much(self):
        self.expect_that_case_alone("long", r"rank 1 of 2.*left no 'parameters': .* has 76 bytes; it must have 72")

    def test_one_that_shows_nothing(self):
        self.expect_that_case_alone("nothing", r"rank 1 of 2.*left no 'parameters': .* is not a file")

    def test_one_whose_parameters_are_no_numbers(self):
        self.expect_that_case_alone("nan", r"parameters of rank 1: 1 of 18 values differ[^$]*got nan")

    def test_one_that_says_what_is_no_json(self):
        self.expect_that_case_alone("says_nan", r"wrote a line that is not a JSON object: '.*NaN")

    def test_one_that_names_a_rank_that_is_not(self):
        self.expect_that_case_alone("elsewhere", r"named rank 7, index 0; there are 2 ranks and 18 coordinates")

    def test_one_that_answers_something_else(self):
        self.expect_that_case_alone("wrong_word", r"answered 'case'; that can be 'taken', 'refused', 'halted' or 'error'")

    def test_one_that_gives_up(self):
        self.expect_that_case_alone("complains", r"rank 1 of 2, asked for 'step' \d+, says: out of ideas")

    def test_one_that_always_dies_is_shrunk(self):
        said = self.expect_found(misbehaving("dies"), "--property", "reference", "--cases", "20", *SMALL)
        self.assertIn("ended with status 1; the last line of its standard error: I cannot go on", said)
        self.assertRegex(said, r"smallest case: tensors=a:13\+b:5:dense,workers=2(,other_workers=2)?\n")

    # What cannot be started.

    def test_what_cannot_be_started_is_one_line(self):
        text = self.folder / "no_program.txt"
        text.write_text("hello\n")
        self.expect_bad_input("'/no/such/program' cannot be started: No such file", "/no/such/program")
        self.expect_bad_input("make it executable, or put its interpreter before it", shlex.quote(str(text)))
        self.expect_bad_input("must be a command", "")
        self.expect_bad_input("only a shell can do", "python3 a.py | tee log")
        self.expect_bad_input("only a shell can do", "echo $(id)")
        self.expect_bad_input("a quote that does not end", "python3 'a.py")

    def test_what_says_no_hello_is_one_line(self):
        self.expect_bad_input("rank 0 of 1, asked for 'hello', ended with status 0", "true")
        self.expect_bad_input("standard error: no such option", "sh -c 'echo no such option >&2; exit 3'")
        self.expect_bad_input("not a JSON object: 'y'", "sh -c 'read line; exec yes'")
        self.expect_bad_input("wrote more than 1 MiB without a complete answer", "sh -c 'read line; exec tr \"\\\\0\" x < /dev/zero'")
        self.expect_bad_input('its answer lacks "did"', "cat")

    def test_ranks_that_do_not_start_together_end_the_gate(self):
        begin = time.monotonic()
        ended = self.check(misbehaving("alone"))
        self.assertLess(time.monotonic() - begin, 60)  # it was ten minutes
        self.assertEqual(ended.returncode, 2, ended.stdout + ended.stderr)
        first, *lines, last = ended.stderr.splitlines()
        self.assertEqual(first, "plain-python, reference: a case fails; looking for a smaller one")
        self.assertRegex(lines.pop(0), r"the last lines of the standard error of rank \d+:")
        self.assertEqual(lines, [*(f"  complaint {number}" for number in range(11, 20)), "  no port for more than one"])
        self.assertRegex(last, r"--program: 3 starts of its ranks in a row have failed, the last so: rank \d+ of \d+, asked for 'hello', "
                               r"ended with status 1.*--workers")
        self.expect_passed(misbehaving("alone"), "--workers", "1", "--tensors", "a:13,b:5:dense", "--cases", "1")

    def test_a_hello_that_cannot_be_is_one_line(self):
        for hello, part in (('{"protocol": 2}', "this gate speaks 1"), ('{"protocol": "1"}', "must be a whole number"),
                            ('{"name": "a/b"}', "must be 1 to 60"), ('{"name": "reference"}', "not compared"), ('{"level": "ulp"}', "must be exact or rel"),
                            ('{"shows": ["moment"]}', "lacks parameters"), ('{"shows": ["losses"]}', "losses"),
                            ('{"left_out": {"restat": "later"}}', "restat"), ('{"left_out": {"restart": ""}}', "no reason")):
            self.expect_bad_input(part, misbehaving(hello))

    def test_options_that_do_not_go_together_are_one_line(self):
        self.expect_bad_input("--program is an option of scape, gasloc, mapl, dense: truestep check scape", "true", "--system", "averaging")
        self.expect_bad_input("leave one out", "true", "--implementation", "host")
        self.expect_bad_input("leave one out", "true", "--planted", "1")

    # Nothing outlives the gate.

    def expect_nothing_after(self, signal_sent, cleans):
        mark = self.folder / "hanging"
        with subprocess.Popen([TOOL, "check", "--program", misbehaving("hangs", mark), "--property", "reference",
                               *SMALL], env=self.environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as gate:
            self.wait_until(lambda: mark.exists() and mark.read_text())
            gate.send_signal(signal_sent)
            self.assertEqual(gate.wait(timeout=60), -signal_sent)
        self.wait_until(lambda: not pathlib.Path("/proc", mark.read_text()).exists())
        if cleans:
            self.assertEqual(list(self.scratch.iterdir()), [])

    def wait_until(self, condition):
        for _ in range(6000):
            if condition():
                return
            time.sleep(0.01)
        self.fail("it did not come to that within a minute")

    def test_nothing_outlives_a_gate_that_is_ended(self):
        self.expect_nothing_after(signal.SIGTERM, True)

    def test_nothing_outlives_a_gate_that_is_interrupted(self):
        self.expect_nothing_after(signal.SIGINT, True)

    def test_no_process_outlives_a_gate_that_is_killed(self):
        self.expect_nothing_after(signal.SIGKILL, False)

    def test_the_folder_of_a_killed_gate_goes_with_the_next_one(self):
        del self.environment["TRUESTEP_SCRATCH"]  # which several machines may share
        self.environment["TMPDIR"] = str(self.scratch)
        gates, folders = [], []
        for name in ("killed", "living"):
            mark = self.folder / name
            gates.append(subprocess.Popen([TOOL, "check", "--program", misbehaving("hangs", mark), "--property", "reference", *SMALL],
                                          env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            self.addCleanup(gates[-1].kill)
            self.wait_until(lambda: mark.exists() and mark.read_text())  # pylint: disable=cell-var-from-loop
            folders += [folder for folder in self.scratch.iterdir() if folder not in folders]
        gates[0].kill()
        gates[0].wait()
        self.assertEqual(set(self.scratch.iterdir()), set(folders))
        self.assertEqual(len(folders), 2)
        subprocess.run([TOOL, "check", "--program", PLAIN, "--property", "reference", "--cases", "1", *SMALL], check=True,
                       env=self.environment, stdout=subprocess.DEVNULL)
        self.assertEqual(list(self.scratch.iterdir()), folders[1:])
        gates[1].terminate()
        gates[1].wait()
        self.assertEqual(list(self.scratch.iterdir()), [])


if __name__ == "__main__":
    TOOL, C_EXAMPLE = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
