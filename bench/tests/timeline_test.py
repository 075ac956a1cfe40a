"""Reads the timelines of bench_peers, check and train back: JSON that Perfetto opens, spans that nest, ranks in one file, and a step that its phases fill.

Usage: timeline_test.py FOLDER-OF-PROGRAMS CI-RANKS [LIBRARY-THAT-COUNTS-NVTX-RANGES]"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PHASES = {"agree", "local pass", "select", "decode mask", "exchange", "update", "mask"}


def spans_nest(spans):
    """Whether each pair of one lane's spans is apart, or one lies in the other."""
    open_ends = []
    for begin, end in sorted((span["ts"], -(span["ts"] + span["dur"])) for span in spans):
        while open_ends and open_ends[-1] <= begin + 0.01:
            open_ends.pop()
        if open_ends and -end > open_ends[-1] + 0.01:
            return False
        open_ends.append(-end)
    return True


class Timelines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "timeline.json"

    def run_peers(self, *options, launcher=(), variables=None):
        command = [*launcher, PROGRAMS / "bench_peers", "--size", "400000", "--steps", "3", "--warm-up", "2", "--peers", "scape:0.1", *options]
        subprocess.run(command, check=True, capture_output=True, timeout=60, env={**os.environ, **(variables or {})})
        return self.spans()

    def spans(self):
        lanes = {}
        for event in json.loads(self.file.read_text(encoding="utf-8")):
            if event["ph"] == "X":
                lanes.setdefault((event["pid"], event["tid"]), []).append(event)
        return lanes

    def expect_whole(self, lanes, ranks):
        self.assertEqual({rank for rank, _ in lanes}, set(range(ranks)))
        for lane in lanes.values():
            self.assertTrue(spans_nest(lane))
        every = [span for lane in lanes.values() for span in lane]
        self.assertLessEqual({"step", *PHASES}, {span["name"] for span in every})
        waits = [span for span in every if span["name"] == "payload"]
        self.assertTrue(all(span["args"]["bytes"] > 0 for span in waits))
        self.assertLess(max(span["ts"] for span in every), 2**53 / 1000, "Perfetto counts nanoseconds in a double, and drops what it rounds into its neighbour")

    def test_phases_fill_the_steps_of_ranks_that_are_threads(self):
        lanes = self.run_peers("--ranks", "3", "--timeline", self.file)
        self.expect_whole(lanes, 3)
        every = [span for lane in lanes.values() for span in lane]
        awaited = {span["args"].get("waits for rank") for span in every if span["name"] == "payload"}
        self.assertTrue(awaited & {0, 1, 2}, "a wait names the rank that came last")
        last = [max((span for span in lane if span["name"] == "step"), key=lambda span: span["ts"]) for lane in lanes.values() if
                any(span["name"] == "step" for span in lane)]
        for step, lane in ((step, lanes[step["pid"], step["tid"]]) for step in last):
            inside = [span for span in lane if span["name"] in PHASES and step["ts"] <= span["ts"] < step["ts"] + step["dur"]]
            outer = [span for span in inside if not any(
                other is not span and other["ts"] <= span["ts"] and span["ts"] + span["dur"] <= other["ts"] + other["dur"] for other in inside)]
            self.assertGreater(sum(span["dur"] for span in outer), 0.8 * step["dur"])
            self.assertLessEqual(sum(span["dur"] for span in outer), 1.001 * step["dur"])

    def test_processes_share_a_file_that_is_emptied_first(self):
        self.file.write_text("left by an earlier run", encoding="utf-8")
        lanes = self.run_peers("--communicator", "mpi", "--timeline", self.file, launcher=[RANKS, "2"])
        self.expect_whole(lanes, 2)

    def test_spans_are_ranges_of_nvidias_tools(self):
        if not COUNTS:
            self.skipTest("built without NVTX")
        counts = self.file.with_suffix(".counts")
        lanes = self.run_peers("--ranks", "2", "--timeline", self.file, variables={"NVTX_INJECTION64_PATH": COUNTS[0], "TRUESTEP_NVTX_COUNTS": counts})
        ranges = {name: int(count) for count, _, name in (line.partition(" ") for line in counts.read_text(encoding="utf-8").splitlines())}
        self.assertEqual(ranges.pop("ended"), sum(ranges.values()))
        self.assertEqual(ranges, collections.Counter(span["name"] for lane in lanes.values() for span in lane))

    def test_the_environment_starts_one(self):
        once = self.run_peers("--ranks", "2", variables={"TRUESTEP_TIMELINE": self.file})
        self.expect_whole(once, 2)

    def test_a_gate_in_several_processes_writes_all_of_them(self):
        gate = [PROGRAMS / "truestep", "check", "--property", "mask.order", "--implementation", "host,host-native", "--cases", "2", "--workers", "2", "--jobs", "2"]
        for more, variables in ((["--timeline", self.file], {}), ([], {"TRUESTEP_TIMELINE": self.file})):
            with self.subTest(variables):
                self.file.write_text("left by an earlier run", encoding="utf-8")
                subprocess.run([*gate, *more], check=True, capture_output=True, timeout=60, env={**os.environ, **variables})
                lanes = self.spans()
                self.assertTrue(all(map(spans_nest, lanes.values())))
                self.assertLessEqual({"step", *PHASES}, {span["name"] for lane in lanes.values() for span in lane})
                self.assertGreaterEqual(len({lane // 1000 for _, lane in lanes}), 2, "each process has lanes of its own")

    def test_a_training_shows_its_passes(self):
        subprocess.run([PROGRAMS / "truestep-train", "--text", "synthetic", "--steps", "4", "--measure-every", "2", "--width", "16", "--heads", "2", "--layers", "1",
                        "--optimizer", "scape:0.1", "--ranks", "2", "--timeline", self.file], check=True, capture_output=True, timeout=60)
        lanes = self.spans()
        self.expect_whole(lanes, 2)
        passes = [span for lane in lanes.values() for span in lane if span["name"] == "forward and backward"]
        self.assertEqual(len(passes), 2 * 4)

    def test_spans_that_overlap_do_not_nest(self):
        self.assertFalse(spans_nest([{"ts": 0, "dur": 5}, {"ts": 3, "dur": 5}]))
        self.assertTrue(spans_nest([{"ts": 0, "dur": 5}, {"ts": 1, "dur": 2}, {"ts": 5, "dur": 1}]))

    def test_a_file_that_cannot_be_written_is_refused_in_one_line(self):
        for program in (["bench_peers"], ["truestep", "check"], ["truestep-train", "--text", "synthetic"]):
            done = subprocess.run([PROGRAMS / program[0], *program[1:], "--timeline", "/nowhere/at/all"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"\A[^\n]*cannot write the timeline /nowhere/at/all[^\n]*\n\Z")


if __name__ == "__main__":
    PROGRAMS, RANKS = map(pathlib.Path, sys.argv[1:3])
    COUNTS = list(filter(None, sys.argv[3:]))
    unittest.main(argv=sys.argv[:1])
