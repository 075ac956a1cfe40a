#!/usr/bin/env python3
"""bench/training-map at toy size: it goes on where it was stopped, makes again what is damaged and nothing else, takes the rate that ends
lowest on a seed that nothing is judged by, and its table says what `truestep train` has said. Usage: training_map_test.py TOOL"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = "truestep"
TOY = ["--text", "synthetic:1,symbols=8,kinds=2,successors=2,learned=4000,measured=2000", "--width", "16", "--layers", "1", "--context", "16",
       "--ranks", "2", "--steps", "4,8", "--batches", "2,1", "--densities", "1,0.1", "--warm-ups", "0.5", "--corrections", "adam,none",
       "--others", "dense-bf16-all,topk-indices:0.1,diloco:2", "--seeds", "2", "--base-seeds", "3", "--jobs", "2"]


class Map(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.folder = pathlib.Path(self.kept.name) / "map"

    def call(self, *more):
        return subprocess.run([HERE / "training-map", "--program", PROGRAM, "--folder", self.folder, *TOY, *more], capture_output=True, text=True)

    def runs(self):
        return {file: file.stat().st_mtime_ns for file in self.folder.glob("runs/**/*.json")}

    def told(self, page):
        return json.loads((self.folder / "pages" / page / "training.json").read_text())

    def test_goes_on_where_it_was_stopped(self):
        first = self.call("--minutes", "0.001")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("not all runs are there yet", first.stdout)
        early = self.runs()
        self.assertGreater(len(early), 0)
        self.assertIn("all runs are there", self.call().stdout)
        whole = self.runs()
        self.assertGreater(len(whole), len(early))
        self.assertEqual(early, {file: whole[file] for file in early})
        self.check_the_map()
        self.check_the_rates()
        self.check_damage(whole)

    def check_the_map(self):
        table = (self.folder / "map.md").read_text()
        told = self.told("batch-2-adam-warm-up-0")
        self.assertEqual(len(told["verdicts"]), 4)
        for verdict in told["verdicts"]:
            found = re.search(re.escape(f"{verdict['verdict']} {verdict['difference']:+.3f} ± {verdict['uncertainty']:.3f}") + r"[^|]*\(([^|)]*)\) \|", table)
            self.assertIsNotNone(found)
            pairs = [float(pair) for pair in found[1].split()]
            self.assertEqual(len(pairs), verdict["pairs"])
            self.assertAlmostEqual(sum(pairs) / len(pairs), verdict["difference"], delta=0.001)
        self.assertEqual({curve["seed"] for curve in told["curves"] if curve["optimizer"].startswith("scape")}, {1, 2})
        self.assertEqual({curve["seed"] for curve in told["curves"] if curve["optimizer"].startswith("adams")}, {1, 2, 3})
        for part in ("Loss over bytes sent", "density falls over 50% of the steps", "correction none", "batch 1 a rank", "| diloco:2 |", "| topk-indices:0.1 |"):
            self.assertIn(part, table)
        for page, picture in ("batch-2-adam-warm-up-0", "map"), ("batch-2-adam-warm-up-0-bytes", "over-bytes"), ("batch-1-adam-warm-up-0", "map"):
            self.assertIn(f"pages/{page}/{picture}.svg", table)
            self.assertIn("<svg ", (self.folder / "pages" / page / f"{picture}.svg").read_text())
        # Bytes of a step and parameter: the dense one's 2 * 4 * (1 - 1/P) + what AdamS's sums and agreement take of so small a model.
        self.assertRegex(table, r"\| adams \| [^|]*\| [^|]*\| [^|]*\| 4\.0")

    def test_compares_what_stands_between_stages(self):
        asked = ["--layers", "2", "--parts", "stages", "--steps", "8", "--boundaries", "fixed,free:0.01,mapl"]
        refused = self.call(*asked)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("the part stages takes two --stages and more", refused.stderr)
        done = self.call(*asked, "--stages", "2")
        self.assertIn("all runs are there", done.stdout, done.stderr)
        table = (self.folder / "map.md").read_text()
        compressed = [f"adams+{kind}" for kind in ("fixed:4", "free:4:0.01", "mapl:4", "fixed:8", "free:8:0.01", "mapl:8")]
        told = self.told("stages")
        self.assertEqual(told["plan"]["stages"], 2)
        self.assertEqual([verdict["candidate"] for verdict in told["verdicts"]], compressed)
        self.assertEqual({verdict["base"] for verdict in told["verdicts"]}, {"adams"})
        for times in (4, 8):
            beside = self.told(f"stages-{times}-times")["verdicts"]
            self.assertEqual([(verdict["base"], verdict["candidate"]) for verdict in beside],
                             [(f"adams+fixed:{times}", f"adams+{kind}") for kind in (f"free:{times}:0.01", f"mapl:{times}")])
        for curve in told["curves"]:
            self.assertIn(f"{curve['points'][-1]['loss']:.3f}", table)
        before = self.runs()
        self.assertNotIn("seed", self.call(*asked, "--stages", "2").stdout)
        self.assertEqual(self.runs(), before)
        self.assertIn("holds runs of other settings", self.call("--layers", "2", "--parts", "map").stderr)

    def check_the_rates(self):
        """Checks that the chosen rate is no worse than its neighbours, on a seed that is not judged."""
        folder = self.folder / "runs/batch-2-adam-warm-up-0/scape_0.1/8"
        judged = {json.loads(file.read_text())["curves"][0]["learning_rate"] for file in folder.glob("*-seed-1.json")}
        self.assertEqual(len(judged), 1)
        rate = judged.pop()
        tried = {curve["learning_rate"]: curve["points"][-1]["loss"] for file in folder.glob("*-seed-1001.json")
                 for curve in json.loads(file.read_text())["curves"]}
        self.assertGreater(len(tried), 2)
        self.assertEqual(tried[rate], min(tried.values()))

    def check_damage(self, whole):
        before = (self.folder / "map.md").read_text()
        self.assertNotIn("seed", self.call().stdout)
        self.assertEqual(self.runs(), whole)
        damaged = sorted(whole)[0]
        curves = json.loads(damaged.read_text())["curves"]
        whole_file = json.loads(damaged.read_text())
        # Cut off; and as a run that was killed would have left it.
        for left in damaged.read_text()[:100], json.dumps(whole_file | {"curves": []}):
            damaged.write_text(left)
            self.assertEqual(self.call().stdout.count("seed"), 1)
            self.assertEqual(json.loads(damaged.read_text())["curves"], curves)
        self.assertEqual(list(self.folder.glob("runs/**/*.running")), [])
        self.assertEqual((self.folder / "map.md").read_text(), before)
        other = self.call("--width", "32")
        self.assertEqual(other.returncode, 1)
        self.assertIn("holds runs of other settings", other.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
