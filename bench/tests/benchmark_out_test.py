"""What every benchmark writes with --benchmark_out: the same keys from programs and scripts, names that stay, and a file that others read.

Usage: benchmark_out_test.py FOLDER-OF-PROGRAMS"""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))
import benchmark_out  # noqa: E402

COMPARE = pathlib.Path("/usr/share/benchmark/compare.py")
CONTEXT = {"date", "host_name", "executable", "num_cpus", "commit", "compiler", "processor", "MPI"}
# Trackers join the rows of all commits by these names: a change of one ends its curve.
RUNS = {
    "bench_peers": ("--size 4096 --ranks 2 --steps 3 --warm-up 2 --peers dense,scape:0.1,gasloc:10",
                    ["peers/dense/d:4096/P:2", "peers/scape:0.1/d:4096/P:2", "peers/gasloc:10/d:4096/P:2"]),
    "bench_scale": ("--sizes 1000 --ranks 1,2 --ranks-size 1000 --rounds 1",
                    [f"scale/{scheme}/d:1000/P:{ranks}" for ranks in (1, 2) for scheme in ("scape:0.01", "scape:0.1", "dense", "adamw")]),
    "bench_levels": ("--ranks 3 --size 4000 --steps 2", [f"levels/{level}/d:4000/density:0.01/P:3" for level in ("one_level", "groups")]),
    "bench_memory": ("--size 65536 --density 0.1", ["memory/d:65536/density:0.1/P:1"]),
    "bench_pipeline": ("--size 4096 --width 64 --vocabulary 300 --ranks 3 --steps 2 --peers none,mapl:8",
                       [f"pipeline/{boundary}/d:4096/width:64/P:3" for boundary in ("none", "mapl:8")]),
    "bench_mask_sizes": ("--size 65536 --rounds 1 --densities 0.1", "mask_sizes/encode/the_code_in_use/d:65536/density:0.1"),
    "bench_gasloc": ("--benchmark_filter=^drift/d:4194304 --benchmark_min_time=0.01", None),
    "bench_gpu": ("", None),
    "truestep-train": ("--text synthetic --steps 4 --width 16 --heads 2 --layers 1 --ranks 2 --optimizer adamw scape:0.1",
                       [f"train/{optimizer}/d:5168/batch:8/steps:4/P:2" for optimizer in ("adamw", "scape:0.1")]),
}


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, program, name="out.json"):
        out = self.folder / name
        done = subprocess.run([PROGRAMS / program, *RUNS[program][0].split(), f"--benchmark_out={out}"], capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: bench_memory is over its limit where the size is small
        return benchmark_out.read(out)

    def expect_trackers_read(self, document):
        """The rules of github-action-benchmark's src/extract.ts (`googlecpp`) and of Bencher's lib/bencher_adapter/src/adapters/cpp/google.rs, whose
        reader refuses the whole file where a key is missing or of another type."""
        self.assertIn("caches", document["context"])
        self.assertTrue(all(isinstance(cache, dict) for cache in document["context"]["caches"]))
        for row in document["benchmarks"]:
            self.assertTrue(0 < len(row["name"].encode()) <= 1024 and not re.search("(_bencher_ignore|BencherIgnore|-bencher-ignore)$", row["name"]))
            self.assertTrue(isinstance(row["real_time"], (int, float)) and math.isfinite(row["real_time"]) and 0 < row["real_time"] < 7.9e28)
            self.assertIn(row["time_unit"], ("ps", "ns", "us", "ms", "s"))
            self.assertLessEqual({"cpu_time", "iterations", "threads"}, row.keys())  # shown beside the time

    def test_programs_write_the_same_keys_and_names_that_stay(self):
        for program, (_, names) in RUNS.items():
            with self.subTest(program):
                document = self.run_program(program)
                self.assertLessEqual(CONTEXT, document["context"].keys())
                self.assertRegex(document["context"]["commit"], r"^([0-9a-f]{12}(-dirty)?|unknown|.*-g[0-9a-f]{12}(-dirty)?)$")
                found = [row["name"] for row in document["benchmarks"]]
                self.assertEqual(len(found), len(set(found)), "a tracker could not tell them apart")
                if isinstance(names, list):
                    self.assertEqual(found, names)
                elif names:
                    self.assertIn(names, found)
                self.expect_trackers_read(document)

    def test_scripts_write_what_programs_do(self):
        out = self.folder / "script.json"
        benchmark_out.write(out, [benchmark_out.row("script/row", [0.5, 0.25, 1.0], wrong=0)])
        script, program = benchmark_out.read(out), self.run_program("bench_peers")
        self.assertLessEqual(CONTEXT, script["context"].keys())
        self.assertEqual(script["context"]["processor"], program["context"]["processor"])
        self.assertEqual(script["context"]["commit"], program["context"]["commit"])
        self.assertEqual(script["benchmarks"][0]["real_time"], 500)
        self.expect_trackers_read(script)
        for part, key in ((script["context"], "caches"), (script["benchmarks"][0], "time_unit")):
            with self.assertRaises((AssertionError, KeyError)):
                kept = part.pop(key)
                self.expect_trackers_read(script)
            part[key] = kept
        for key, value in script["benchmarks"][0].items():
            if key != "wrong":
                self.assertEqual(isinstance(value, str), isinstance(program["benchmarks"][0][key], str), key)

    def test_scripts_that_start_programs_join_their_rows(self):
        out = self.folder / "peak.json"
        done = subprocess.run([BENCH / "peak-memory", "--program", PROGRAMS / "bench_memory", "--sizes", "65536", "--ranks", "1", "--densities", "0.1,0.2",
                               "--limit", "9", "--step-limit", "9", f"--benchmark_out={out}"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([row["name"] for row in benchmark_out.read(out)["benchmarks"]], [f"memory/d:65536/density:{density}/P:1" for density in (0.1, 0.2)])

    def test_compare_reads_two_of_them(self):
        # Debian's packages belong to the system's own Python.
        pythons = [python for python in (sys.executable, "/usr/bin/python3")
                   if subprocess.run([python, "-c", "import numpy, scipy"], capture_output=True, check=False).returncode == 0]
        if not COMPARE.exists() or not pythons:
            self.skipTest("no compare.py; ci/setup installs libbenchmark-tools and python3-scipy")
        for program in ("bench_peers", "truestep-train"):
            with self.subTest(program):
                self.run_program(program, "one.json")
                self.run_program(program, "two.json")
                done = subprocess.run([pythons[0], COMPARE, "--no-color", "benchmarks", self.folder / "one.json", self.folder / "two.json"],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                for name in RUNS[program][1]:
                    self.assertRegex(done.stdout, re.escape(name) + r" +[+-]\d")

    def test_files_are_joined_and_others_are_refused(self):
        self.run_program("bench_peers", "one.json")
        self.run_program("bench_memory", "two.json")
        join = [sys.executable, BENCH / "benchmark_out.py", self.folder / "all.json", self.folder / "one.json"]
        self.assertEqual(subprocess.run([*join, self.folder / "two.json"], check=False).returncode, 0)
        self.assertEqual([row["name"] for row in benchmark_out.read(self.folder / "all.json")["benchmarks"]],
                         RUNS["bench_peers"][1] + RUNS["bench_memory"][1])
        other = self.folder / "other.json"
        for text in (json.dumps({"format": "scape-results"}), "[]", "no JSON"):
            other.write_text(text)
            done = subprocess.run([*join, other], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (2, f"benchmark_out.py: {other} is not Google Benchmark's JSON; give a file of --benchmark_out\n"))
        done = subprocess.run([PROGRAMS / "bench_memory", "--size", "65536", "--benchmark_out", "/nowhere/out.json"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "bench_memory: cannot write /nowhere/out.json\n"))


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop())
    unittest.main()
