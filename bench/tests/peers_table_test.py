"""bench/peers-table over files made up here. Usage: peers_table_test.py bench/peers-table"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()


def ours(peer, faster, density=1.0, steps=1.0):
    return {"peer": peer, "density": density, "inner_steps": steps, "speed_up_over_dense": faster, "counted_bytes": 600.0, "x_limit": 1.254}


class Table(unittest.TestCase):
    def table(self, files, *options):
        with tempfile.TemporaryDirectory() as folder:
            for name, rows in files.items():
                (pathlib.Path(folder) / name).write_text(json.dumps({"rows": rows, "torch": "2.15.0+cpu"}), encoding="utf-8")
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

    def test_what_is_no_run_is_one_line(self):
        for files in ({}, {"1gbit_100.json": [{"peer": "dense"}]}):
            done = self.table(files)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
