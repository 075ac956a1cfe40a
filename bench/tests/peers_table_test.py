"""bench/peers-table over files made up here. Usage: peers_table_test.py bench/peers-table"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()


def ours(peer, faster, density=1.0, steps=1.0):
    return {"peer": peer, "density": density, "inner_steps": steps, "speed_up_over_dense": faster, "counted_bytes": 600.0, "x_limit": 1.254}


class Table(unittest.TestCase):
    def table(self, files, *options):
        with tempfile.TemporaryDirectory() as folder:
            for name, rows in files.items():
                (pathlib.Path(folder) / name).write_text(json.dumps({"rows": rows, "torch": "2.15.0+cpu", "ranks": 4}), encoding="utf-8")
            return subprocess.run([PROGRAM, folder, "--size", "100", *options], capture_output=True, text=True, check=False)

    def test_rows_of_both(self):
        done = self.table({"1gbit_100.json": [ours("dense", 1), ours("scape", 12.34, density=0.01), ours("gasloc", 0.5, steps=30.0)],
                           "torch_1gbit_100.json": [{"row": "local", "speed_up_over_dense": 20, "interface_bytes": 0.0},
                                                    {"row": "topk:0.01", "speed_up_over_dense": 2.0, "interface_bytes": 26.2},
                                                    {"row": "powersgd:4", "speed_up_over_dense": 3.0, "interface_bytes": 7.0}]})
        self.assertEqual(done.stdout.splitlines()[2:], [
            "| dense AdamS, fp32 | 1 | 6 | 1.25 |",
            "| **SCAPE, sharded**, 99 % left out | 12.3 times faster | 6 | 1.25 |",
            "| GASLoC, an exchange every 30 steps | 2.0 times slower | 6 | 1.25 |",
            "| torch 2.15.0: DDP, top-k hook, 99 % left out, AdamW | 2.0 times faster | 0.262 | - |",
            "| torch 2.15.0: DDP, PowerSGD of rank 4, AdamW | 3.0 times faster | 0.07 | - |"])

    def test_without_torch(self):
        self.assertEqual(len(self.table({"10gbit_100.json": [ours("dense", 1)]}, "--rate", "10gbit").stdout.splitlines()), 3)

    def drawing(self, files):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plot.svg"
            done = self.table(files, "--plot", str(path))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith("| | step"))  # the table, as without
            return path.read_text(encoding="utf-8")

    def test_a_plot_of_all_rates(self):
        svg = self.drawing({"10gbit_100.json": [ours("dense", 1), ours("scape", 10, density=0.01)],
                            "1gbit_100.json": [ours("dense", 1), ours("adamw", 0.1), ours("scape", 100, density=0.01), ours("scape-bf16", 1)],
                            "torch_1gbit_100.json": [{"row": "ddp", "speed_up_over_dense": 10, "interface_bytes": 7.0}],
                            "1gbit_20ms_100.json": [ours("dense", 1), ours("diloco", 5)],  # of a delay, and of another d
                            "1gbit_1000.json": [ours("dense", 1), ours("gasloc", 5)]})
        root = xml.etree.ElementTree.fromstring(svg)
        tag = "{http://www.w3.org/2000/svg}"
        self.assertEqual({element.tag for element in root.iter()}, {tag + name for name in ("svg", "style", "text", "line", "circle")})
        self.assertIn("prefers-color-scheme: dark", root.find(tag + "style").text)
        texts = [(float(text.get("x")), float(text.get("y")), text.text) for text in root.iter(tag + "text")]
        names = {"SCAPE, sharded, 99 % left out": 0, "torch 2.15.0: DDP, AdamW": 1, "SCAPE, sharded, values sent as bf16": 2, "AdamW, sharded, fp32": 3}
        rows = {what: y for x, y, what in texts if what in names}
        self.assertEqual(sorted(rows, key=rows.get), sorted(names, key=names.get))  # the fastest first
        points = {}
        for circle in root.iter(tag + "circle"):
            points.setdefault(circle.get("fill"), []).append((float(circle.get("cy")), float(circle.get("cx"))))
        key = {what: min(points, key=lambda color, x=x: abs(points[color][0][1] + 52 - x)) for x, _, what in texts if what in ("1gbit", "10gbit")}
        self.assertEqual(list(key), ["1gbit", "10gbit"])  # the slowest first
        self.assertEqual(len(points[key["1gbit"]]), 1 + 4)
        self.assertEqual(len(points[key["10gbit"]]), 1 + 1)
        x = dict(zip(("100", "10", "1", "0.1"), (x for _, x in points[key["1gbit"]][1:])))
        for more, less in (("100", "10"), ("10", "1"), ("1", "0.1")):
            self.assertAlmostEqual(x[more] - x[less], x["10"] - x["1"], delta=0.2)  # logarithmic
        self.assertAlmostEqual(points[key["10gbit"]][1][1], x["10"], delta=0.1)
        tick = {what: at for at, _, what in texts if what in x and abs(at - x[what]) < 0.2}
        self.assertEqual(set(tick), set(x))  # each point stands over its number
        beside = [what for at, y, what in texts if y == rows["AdamW, sharded, fp32"] and at > x["100"]]
        self.assertEqual(beside, ["0.1", "-"])

    def test_a_plot_that_cannot_be_written_is_one_line(self):
        done = self.table({"1gbit_100.json": [ours("dense", 1), ours("scape", 2)]}, "--plot", "/nowhere/plot.svg")
        self.assertEqual((done.returncode, done.stderr), (2, "peers-table: /nowhere/plot.svg cannot be written: No such file or directory\n"))

    def test_what_is_no_run_is_one_line(self):
        for files in ({}, {"1gbit_100.json": [{"peer": "dense"}]}):
            done = self.table(files)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
