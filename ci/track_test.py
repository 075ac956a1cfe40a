"""The statistics of ci/track against known values, and ci/track itself over programs whose times are made up."""

import importlib.machinery
import importlib.util
import itertools
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from tools import track_measure, track_page, track_statistics as statistics

TRACK = pathlib.Path(__file__).with_name("track")


class Statistics(unittest.TestCase):
    # Hollander and Wolfe, permeability of the placenta: W = 35, p = 0.1272 one-sided; interval -0.15 to 0.76 around 0.305.
    AT_TERM = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
    EARLY = [1.15, 0.88, 0.90, 0.74, 1.21]

    def test_a_published_example(self):
        self.assertEqual(statistics.u_of(self.EARLY, self.AT_TERM), 35)
        self.assertAlmostEqual(statistics.mann_whitney(self.EARLY, self.AT_TERM), 0.2544, places=4)
        shift, low, high = statistics.shift_interval(self.EARLY, self.AT_TERM)
        self.assertAlmostEqual(shift, 0.305)
        self.assertAlmostEqual(low, -0.15)
        self.assertAlmostEqual(high, 0.76)

    def test_critical_values_of_the_tables(self):
        """The greatest U that is significant at 0.05, two-sided."""
        for n, m, critical in ((4, 4, 0), (5, 5, 2), (6, 6, 5), (7, 9, 12), (8, 10, 17), (10, 10, 23), (20, 20, 127)):
            counts = statistics.arrangements(n, m)
            self.assertLessEqual(2 * sum(counts[:critical + 1]) / sum(counts), 0.05, (n, m))
            self.assertGreater(2 * sum(counts[:critical + 2]) / sum(counts), 0.05, (n, m))

    def test_the_distribution_by_counting_all_arrangements(self):
        for n, m in ((1, 1), (2, 3), (4, 3), (5, 5)):
            counts = [0] * (n * m + 1)
            for places in itertools.combinations(range(n + m), n):
                counts[sum(place - rank for rank, place in enumerate(places))] += 1
            self.assertEqual(statistics.arrangements(n, m), tuple(counts))

    def test_ties_go_by_the_normal_distribution(self):
        a, b = [1, 2, 2, 3, 5, 6], [2, 4, 5, 6, 7, 8]
        # By hand: U = 28; ties 2, 2, 2 (three times), 5, 5 and 6, 6, so the variance is 36/12 (13 - (24 + 6 + 6)/132).
        self.assertEqual(statistics.u_of(a, b), 28)
        self.assertAlmostEqual(statistics.deviation(a, b) ** 2, 3 * (13 - 36 / 132))
        self.assertAlmostEqual(statistics.mann_whitney(a, b), 0.1242, places=4)
        self.assertEqual(statistics.mann_whitney([1, 1], [1, 1]), 1.0)

    def test_both_ways_agree_where_both_apply(self):
        a = [number * 1.01 for number in range(1, 41)]
        b = [value + 6.3 for value in a]
        exact = statistics.mann_whitney(a, b)
        statistics.LARGEST_EXACT, kept = 0, statistics.LARGEST_EXACT
        try:
            self.assertAlmostEqual(statistics.mann_whitney(a, b), exact, delta=0.001)
            normal = statistics.shift_interval(a, b)
        finally:
            statistics.LARGEST_EXACT = kept
        for one, other in zip(normal, statistics.shift_interval(a, b)):
            self.assertAlmostEqual(one, other, delta=0.3)

    def test_no_less_p_than_that_of_samples_apart(self):
        self.assertAlmostEqual(statistics.mann_whitney(range(5), range(10, 15)), statistics.least_p(5, 5))
        self.assertAlmostEqual(statistics.least_p(5, 5), 2 / 252)

    def test_interval_and_test_agree(self):
        """A shift at the interval's ends is about to be rejected, one within is not."""
        a = [1.0, 1.03, 1.07, 1.12, 1.21, 1.33, 1.35, 1.41]
        b = [1.18, 1.22, 1.31, 1.37, 1.44, 1.52, 1.66, 1.71]
        _, low, high = statistics.shift_interval(a, b)
        for shift, rejected in ((low - 1e-6, True), (low + 1e-6, False), (high - 1e-6, False), (high + 1e-6, True)):
            self.assertEqual(statistics.mann_whitney(a, [value - shift for value in b]) < 0.05, rejected, shift)

    def test_ratios(self):
        ratio, low, high = statistics.ratio_interval([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.2, 2.4, 2.6, 2.8])
        self.assertAlmostEqual(ratio, 2)
        self.assertLess(low, 2)
        self.assertGreater(high, 2)

    def test_holm(self):
        for one, other in zip(statistics.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]):
            self.assertAlmostEqual(one, other)
        self.assertEqual(statistics.holm([0.9, 0.8]), [1.0, 1.0])
        self.assertEqual(statistics.holm([]), [])


class Page(unittest.TestCase):
    MACHINE = {"processor": "Made <up>", "cores": 2, "compiler": "GNU 12.2.0"}

    def lines(self, shares):
        return [{"date": "2026-01-01T00:00:00+00:00", "commit": f"c{i}", "base": "b", "rounds": 10, "machine": self.MACHINE,
                 "rows": {"fold/d:8/iterations:3": {"of": "floor", "share": share}}} for i, share in enumerate(shares)]

    def test_a_curve_is_as_high_as_its_share(self):
        page = track_page.page(None, {"made-up": self.lines([0.5, 1.0])})
        ((first, second),) = [[float(point.split(",")[1]) for point in points.split()]
                              for points in re.findall(r'points="([^"]*)"', page)]
        bottom = track_page.HEIGHT - track_page.EDGE
        self.assertAlmostEqual((bottom - first) * 2, bottom - second, delta=0.2)
        self.assertIn("c1: 100 %", page)
        self.assertIn("Made &lt;up&gt;", page)
        self.assertNotIn("<up>", page)
        self.assertNotIn("<script", page)

    def test_one_run_and_none(self):
        self.assertIn("<circle", track_page.page(None, {"made-up": self.lines([0.5])}))
        self.assertNotIn("<circle", track_page.page(None, {"made-up": []}))

    def test_the_verdict_is_the_title(self):
        rows = [{"name": "a", "verdict": word, "ratio": 1.2, "low": 1.1, "high": 1.3, "p": 0.001, "p_corrected": 0.002}
                for word in ("slower", "same")] + [{"name": "b", "verdict": "gone"}]
        document = {"commit": "c", "base": "b", "date": "d", "rounds": 10, "machine": self.MACHINE, "rows": rows}
        page = track_page.page(document, {})
        self.assertIn("<h1>1 of 3 rows has become slower</h1>", page)
        self.assertIn("GONE", page)


# A program that prints what Google Benchmark would. Times wander up and down together, as a machine's speed does.
PROGRAM = """#!{python} -SE
import json, pathlib, sys
rows = {rows}
if "--benchmark_list_tests" in " ".join(sys.argv):
    print("\\n".join(rows))
else:
    count = pathlib.Path(__file__ + ".count")
    run = int(count.read_text()) if count.exists() else 0
    count.write_text(str(run + 1))
    noise = 1 + 0.01 * ((run * 7 + {offset}) % 10) / 10
    out = next(word for word in sys.argv if word.startswith("--benchmark_out="))
    pathlib.Path(out.partition("=")[2]).write_text(json.dumps({{"context": {{"date": ""}}, "benchmarks": [
        {{"name": name, "real_time": seconds * noise * {mean} * 1e3, "time_unit": "ms", {tenth} "share_of_floor": 0.5}}
        for name, seconds in rows.items()]}}))
"""


class Track(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def programs(self, side, rows, offset=0, mean=1.0, tenth=True):
        (self.folder / side).mkdir()
        path = self.folder / side / "bench_kernels"
        path.write_text(PROGRAM.format(python=sys.executable, rows=rows, offset=offset, mean=mean,
                                       tenth='"tenth_seconds": seconds * noise,' if tenth else ""))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def track(self, *arguments):
        return subprocess.run([TRACK, "--built", self.folder / "base", self.folder / "tree", "--out", self.folder / "out",
                               "--rounds", "5", *arguments], capture_output=True, text=True, timeout=60, check=False)

    def rows(self):
        document = json.loads((self.folder / "out" / "track.json").read_text())
        return {row["name"]: row for row in document["rows"]}

    def test_the_same_passes(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5, "fold/d:4194304/1": 0.1})
        self.programs("tree", {"local_pass/d:4194304/1": 0.5, "fold/d:4194304/1": 0.1}, offset=3)
        result = self.track()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual({row["verdict"] for row in self.rows().values()}, {"same"})

    def test_the_page_is_as_a_browser_wants_it(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5, "old/d:4194304/1": 0.1})
        self.programs("tree", {"local_pass/d:4194304/1": 0.7})
        self.assertEqual(self.track("--history", self.folder / "none").returncode, 1)
        look = subprocess.run([TRACK.with_name("look"), self.folder / "out" / "index.html", "--expect", "tbody tr=2"],
                              capture_output=True, text=True, timeout=120, check=False)
        if look.returncode == 77:
            self.skipTest("no Chromium")
        self.assertEqual(look.returncode, 0, look.stdout + look.stderr)

    def test_a_slow_down_fails_and_is_named(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5, "fold/d:4194304/1": 0.1})
        self.programs("tree", {"local_pass/d:4194304/1": 0.5 * 1.15, "fold/d:4194304/1": 0.1}, offset=3)
        result = self.track()
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("SLOWER", result.stdout)
        rows = self.rows()
        self.assertEqual(rows["local_pass/d:4194304/1"]["verdict"], "slower")
        self.assertAlmostEqual(rows["local_pass/d:4194304/1"]["ratio"], 1.15, delta=0.02)
        self.assertEqual(rows["fold/d:4194304/1"]["verdict"], "same")

    def test_the_quickest_tenth_counts_where_both_have_it(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5})
        self.programs("tree", {"local_pass/d:4194304/1": 0.5}, offset=3, mean=2.0)
        self.assertEqual(self.track().returncode, 0)

    def peers(self, side, seconds, share=None, option="--benchmark_out"):
        """A bench_peers whose peers take these times."""
        (self.folder / side).mkdir(exist_ok=True)
        path = self.folder / side / "bench_peers"
        rows = [{"name": name, "time_unit": "s"} | ({"share_of_limit": share} if share else {}) for name in track_measure.PEER_ROWS]
        path.write_text(f"#!{sys.executable} -SE\nimport json, pathlib, sys\n"
                        f"count = pathlib.Path(__file__ + '.count')\n"
                        f"run = int(count.read_text()) if count.exists() else 0\ncount.write_text(str(run + 1))\n"
                        f"rows = {rows}\nfor row in rows:\n"
                        f"    row['real_time'] = row['tenth_seconds'] = {seconds} * (1 + run / 1000)\n"
                        f"if '--help' in sys.argv:\n    print('{option}')\nelse:\n"
                        f"    out = next(word for word in sys.argv if word.startswith('--benchmark_out='))\n"
                        f"    pathlib.Path(out.partition('=')[2]).write_text(json.dumps({{'context': {{'date': ''}}, 'benchmarks': rows}}))\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def test_whole_steps_are_watched_beside_their_limit(self):
        self.peers("base", 0.01)  # of before there was an x limit
        self.peers("tree", 0.012, share=0.8)
        result = self.track()
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        row = self.rows()["peers/scape:0.01/d:1048576/P:2"]
        self.assertEqual(row["verdict"], "slower")
        self.assertAlmostEqual(row["ratio"], 1.2, delta=0.02)
        self.assertEqual((row["of"], row["share"]), ("limit", 0.8))
        self.assertIn("0.800 limit", result.stdout)

    def test_a_base_that_writes_no_such_file_has_no_peers(self):
        self.peers("base", 0.01, option="--json")
        self.peers("tree", 0.01)
        result = self.track()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"NEW +peers/dense/d:1048576/P:2")

    def test_means_count_where_one_side_has_no_more(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5}, mean=2.0, tenth=False)
        self.programs("tree", {"local_pass/d:4194304/1": 0.5}, offset=3, mean=2.0)
        self.assertEqual(self.track().returncode, 0)
        self.assertEqual(self.rows()["local_pass/d:4194304/1"]["verdict"], "same")

    def test_a_significant_slow_down_of_less_than_the_limit_passes(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5})
        self.programs("tree", {"local_pass/d:4194304/1": 0.5 * 1.04}, offset=3)
        result = self.track()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertLess(self.rows()["local_pass/d:4194304/1"]["p"], 0.01)

    def test_faster_passes(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5})
        self.programs("tree", {"local_pass/d:4194304/1": 0.4})
        self.assertEqual(self.track().returncode, 0)
        self.assertEqual(self.rows()["local_pass/d:4194304/1"]["verdict"], "faster")

    def test_how_a_row_is_timed_is_not_its_name(self):
        self.programs("base", {"local_pass/d:4194304/iterations:41/manual_time": 0.5})
        self.programs("tree", {"local_pass/d:4194304/iterations:21/manual_time": 0.5}, offset=3)
        self.assertEqual(self.track().returncode, 0)
        self.assertEqual(self.rows()["local_pass/d:4194304"]["verdict"], "same")

    def test_rows_of_one_side_are_named_and_never_fail(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5, "old/d:4194304/1": 0.1})
        self.programs("tree", {"local_pass/d:4194304/1": 0.5, "young/d:4194304/1": 9.0})
        result = self.track()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"NEW +young")
        self.assertRegex(result.stdout, r"GONE +old")

    def bad_use(self, text, *arguments):
        result = self.track(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(text, result.stderr)

    def test_bad_use_is_one_line(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5})
        self.programs("tree", {"local_pass/d:4194304/1": 0.5})
        self.bad_use("no tracked row matches", "--filter", "no_such_row")
        self.bad_use("--filter", "--filter", "(")
        self.bad_use("no slow-down could be told from chance; give --rounds 4 or more", "--rounds", "3")
        self.bad_use("--rounds", "--rounds", "none")
        self.bad_use("'0.05' is not a share", "--self-test", "0.05")
        self.bad_use("'much' is not a share", "--self-test", "much")
        self.bad_use("--frobnicate", "--frobnicate")
        self.bad_use("--built", "--base", "HEAD")
        result = subprocess.run([TRACK, "--base", "no_such_revision"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
        self.assertIn("there is no commit no_such_revision", result.stderr)

    def test_a_program_that_fails_is_said(self):
        self.programs("base", {"local_pass/d:4194304/1": 0.5})
        self.programs("tree", {"local_pass/d:4194304/1": 0.5})
        (self.folder / "tree" / "bench_kernels").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        self.bad_use("broken")


class Base(unittest.TestCase):
    """Which commit is the base, and where its files are, in a separate repository."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.repository = pathlib.Path(folder.name) / "repository"
        loader = importlib.machinery.SourceFileLoader("track", str(TRACK))
        self.track = importlib.util.module_from_spec(importlib.util.spec_from_loader("track", loader))
        loader.exec_module(self.track)
        self.track.ROOT = self.repository
        self.track.WORK = self.repository / "build"
        self.repository.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        (self.repository / ".gitignore").write_text("build/\n")
        self.commits = [self.commit(text) for text in ("one", "two", "three")]

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", self.repository, *arguments],
                              capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, text):
        (self.repository / "file").write_text(text)
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", text)
        return self.git("rev-parse", "HEAD")

    def test_named_kernels_have_a_history_of_their_own(self):
        what = {"processor": "Made (up)", "cores": 2, "compiler": "GNU 12.2.0"}
        self.assertEqual(self.track.kind_of(what), "made-up-2-cores-gnu-12.2.0")
        self.assertEqual(self.track.kind_of(what | {"kernels": "avx2"}), "made-up-2-cores-gnu-12.2.0-avx2")

    def test_the_commit_before(self):
        self.assertEqual(self.track.default_base(), self.commits[1])

    def test_head_where_there_are_changes(self):
        (self.repository / "file").write_text("four")
        self.assertEqual(self.track.default_base(), self.commits[2])

    def test_the_history_is_no_change(self):
        (self.repository / "bench" / "history").mkdir(parents=True)
        (self.repository / "bench" / "history" / "a.jsonl").write_text("{}")
        self.assertEqual(self.track.default_base(), self.commits[1])
        (self.repository / "bench" / "other").write_text("x")
        self.assertEqual(self.track.default_base(), self.commits[2])

    def test_where_a_branch_has_left_main(self):
        self.git("checkout", "--quiet", "-b", "branch", self.commits[1])
        self.commit("other")
        self.commit("another")
        self.assertEqual(self.track.default_base(), self.commits[1])

    def test_no_commit_before_is_said(self):
        self.git("checkout", "--quiet", "--orphan", "fresh")
        self.git("branch", "-D", "main")
        self.commit("first")
        with self.assertRaisesRegex(self.track.Refused, "give --base"):
            self.track.default_base()

    def test_the_source_is_kept_and_used_again(self):
        for commit, text in zip(self.commits, ("one", "two", "three")):
            with self.track.base_source(commit) as folder:
                self.assertEqual((folder / "file").read_text(), text)
        self.assertEqual(len(self.git("worktree", "list").splitlines()), 2)

    def test_the_source_is_removed_where_a_run_is_interrupted(self):
        with self.assertRaises(KeyboardInterrupt):
            with self.track.base_source(self.commits[0]) as folder:
                raise KeyboardInterrupt
        self.assertFalse(folder.exists())
        self.assertEqual(len(self.git("worktree", "list").splitlines()), 1)
        self.test_the_source_is_kept_and_used_again()

    def test_what_has_been_started_ends_with_an_interruption(self):
        mark = self.repository / "started"
        script = f"import sys; sys.path.insert(0, {str(TRACK.parent)!r}); sys.argv = ['track']\n" \
                 f"import importlib.machinery, importlib.util\n" \
                 f"l = importlib.machinery.SourceFileLoader('track', {str(TRACK)!r})\n" \
                 f"t = importlib.util.module_from_spec(importlib.util.spec_from_loader('track', l)); l.exec_module(t)\n" \
                 f"import signal; signal.signal(signal.SIGTERM, t.interrupted)\n" \
                 f"t.run(['sh', '-c', 'echo $$ >{mark}; exec sleep 60'])\n"
        with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as process:
            for _ in range(200):
                if mark.exists() and mark.read_text().strip():
                    break
                time.sleep(0.05)
            process.terminate()
            process.wait(timeout=20)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(mark.read_text()), 0)


if __name__ == "__main__":
    unittest.main()
