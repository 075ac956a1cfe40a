"""bench/gpu/predict: what a launch costs over tables made up for it, each limit and each goal; and predictions beside measured figures."""

import contextlib
import copy
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

GPU = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(GPU))
sys.dont_write_bytecode = True
import predict_cost  # noqa: E402
import predict_rows  # noqa: E402
from gpu_sass_table import COUNTS, table_of  # noqa: E402
from predict_cost import ASSUMED, MACHINES, Budget, Launch, Part  # noqa: E402
from predict_rows import ROWS, Setting, least_bytes, row_of  # noqa: E402

loader = importlib.machinery.SourceFileLoader("predict", str(GPU / "predict"))
predict = importlib.util.module_from_spec(importlib.util.spec_from_loader("predict", loader))
loader.exec_module(predict)
H100, H200 = MACHINES
SASS = (predict_cost.ROOT / "gpu/sass.txt").read_text(encoding="utf-8")


def with_counts(sass, name, **counts):
    """The table with other counts in one row."""
    rows, compiler = predict_cost.read_table(sass)
    rows[name] = {**rows[name], **counts}
    return table_of(rows, compiler)


class OfALaunch(unittest.TestCase):
    def setUp(self):
        rows = {"k": dict.fromkeys(COUNTS, 0), "k 1": {**dict.fromkeys(COUNTS, 0), "instructions": 100, "waits": 10, "barriers": 1}}
        self.budget = Budget(table_of(rows, "1.0"), "k sm_90 64 0 0 0\nk sm_80 255 0 0 0\n")

    def cost(self, blocks=1.0, moved=0.0, density=0.1, meetings=0, **part):
        return self.budget.cost(H100, Launch("k", blocks, moved, {"": Part(), "1": Part(**part)}, meetings), density)

    def test_bytes_go_by_the_copy(self):
        self.assertAlmostEqual(self.cost(moved=H100.copy).bytes, 1.0)
        self.assertAlmostEqual(self.cost(moved=H100.copy).seconds, 1.0, 3)

    def test_each_instruction_of_a_warp_is_issued(self):
        self.assertAlmostEqual(self.cost(blocks=132.0).issue, 8 * 100 / 4 / 1.98e9)
        self.assertAlmostEqual(self.cost(blocks=132.0, times=3).issue, 3 * 8 * 100 / 4 / 1.98e9)

    def test_waits(self):
        alone = 100 * ASSUMED["cycles_of_an_instruction"] + ASSUMED["cycles_of_a_barrier"]
        self.assertAlmostEqual(self.cost().waits * 1.98e9, 10 * 263 + alone)
        self.assertAlmostEqual(self.cost(far=4).waits * 1.98e9, 6 * 263 + 4 * 479 + alone)
        self.assertAlmostEqual(self.cost(times=2).waits, 2 * self.cost().waits)
        self.assertAlmostEqual(self.cost(meetings=3).waits * 1.98e9, 10 * 263 + alone + 3 * ASSUMED["cycles_of_a_meeting"])

    def test_what_is_gathered_is_rarer_where_few_are_selected(self):
        alone = 100 * ASSUMED["cycles_of_an_instruction"] + ASSUMED["cycles_of_a_barrier"]
        self.assertAlmostEqual(self.cost(gathered=10, density=1.0).waits, self.cost().waits)
        self.assertAlmostEqual(self.cost(gathered=10, density=0.0).waits * 1.98e9, alone)
        self.assertAlmostEqual(self.cost(gathered=10, density=0.01).waits * 1.98e9, alone + 2630 * (1 - 0.99**32))

    def test_blocks_beyond_what_there_is_room_for_come_later(self):
        self.assertEqual(self.budget.resident(H100, "k"), 4)
        self.assertAlmostEqual(self.cost(blocks=4 * 132.0).waits, self.cost().waits)
        self.assertAlmostEqual(self.cost(blocks=4 * 132.0 + 1).waits, 2 * self.cost().waits)

    def test_room_for_blocks(self):
        for registers, shared, room in ((32, 0, 8), (33, 0, 6), (80, 0, 3), (32, 16392, 8), (32, 28672, 7), (32, 49152, 4)):
            budget = Budget("", f"k sm_90 {registers} {shared} 0 0\n")
            self.assertEqual(budget.resident(H100, "k"), room, (registers, shared))

    def test_limits_hide_each_other_but_not_wholly(self):
        cost = predict_cost.Cost(3.0, 1.0, 2.0, 10.0)
        self.assertAlmostEqual(cost.seconds, 36 ** (1 / 3) + 10)

    def test_threads_that_spin_around_an_atomic_take_turns(self):
        waits = [self.budget.cost(H100, Launch("k", 1, 0, {"": Part()}, meetings=meetings), 0.1).waits for meetings in (0, 512)]
        self.assertAlmostEqual((waits[1] - waits[0]) * 1.98e9, 512 * ASSUMED["cycles_of_a_meeting"])

    def test_a_plan_of_other_code_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "no row 'k 2'.*mend bench/gpu/predict_rows.py"):
            self.budget.cost(H100, Launch("k", 1, 0, {"2": Part()}), 0.1)
        with self.assertRaisesRegex(SystemExit, "waits 10 times, and .* knows of 11"):
            self.cost(far=5, gathered=6)


class OfARow(unittest.TestCase):
    def test_least_bytes_are_those_of_the_benchmark(self):  # bench/gpu/tests/rank_test.cpp
        setting, d, k = Setting(2**20, 0.1), 2**20, 2**20 * 0.1
        for name, moved in (("check", 4 * d), ("local pass", 12 * d + d / 4 + 12 * k), ("fold", 4 * 13107.0 * 9),
                            ("update with decay", 8 * d + d / 8 + 8 * k), ("decode mask", 8 * (515 + 13107) + d / 8 + d / 32),
                            ("selection", 4 * d / 8 + d / 32 + 4 * k / 8 + 515 + 13107)):
            self.assertAlmostEqual(least_bytes(name, setting) / moved, 1.0, 3, name)
        phases = ("decode mask", "local pass", "selection", "fold", "update with decay")
        self.assertEqual(least_bytes("whole local step", setting), sum(least_bytes(name, setting) for name in phases))

    def test_every_kernel_of_a_row_is_in_the_tables(self):
        for machine in MACHINES:
            for name in ROWS:
                self.assertGreater(row_of(Budget(), machine, name, Setting(2**24, 0.1))["median_seconds"], 0)

    def test_a_worse_kernel_is_predicted_to_be_slower(self):
        setting = Setting(2**30, 0.1)
        before = row_of(Budget(), H200, "local pass", setting)["median_seconds"]
        for counts in ({"waits": 50}, {"instructions": 4000}):
            worse = Budget(with_counts(SASS, "scape/local/LocalPassWith", **counts))
            self.assertGreater(row_of(worse, H200, "local pass", setting)["median_seconds"], 1.05 * before)
            self.assertEqual(row_of(worse, H200, "fold", setting), row_of(Budget(), H200, "fold", setting))

    def test_which_selections_are_timed(self):
        phases, steps = Setting(2**20, 0.1).samples(H200)
        self.assertEqual((list(phases), list(steps)), ([14], [27]))  # 59 sets
        phases, steps = Setting(2**30, 0.1).samples(H200)
        self.assertEqual((phases, steps), (range(14, 29), range(41, 56)))  # two sets
        self.assertIsNone(Setting(2**33, 0.1).samples(H200))

    def test_the_warm_up_is_that_of_the_benchmark(self):
        measure = pathlib.Path(predict_rows.__file__).with_name("measure.cpp").read_text()
        self.assertIn(f"constexpr int warm_up = {predict_rows.WARM_UP};", measure)
        self.assertGreaterEqual(predict_rows.WARM_UP + 2, predict_rows.FIRST_HIT)

    def test_a_selection_that_mostly_misses_is_that_of_a_miss(self):
        for d, warm_up, which in ((2**20, 2, "miss"), (2**20, 12, "hit"), (2**30, 2, "hit")):
            with mock.patch.object(predict_rows, "WARM_UP", warm_up):
                row = row_of(Budget(), H200, "selection", Setting(d, 0.1))
            self.assertEqual(row["median_seconds"], row[f"seconds_if_brackets_{which}"])
            self.assertGreater(row["seconds_if_brackets_miss"], row["seconds_if_brackets_hit"])

    def test_threads_meet_nowhere_in_the_selection(self):
        with mock.patch.dict(ASSUMED, {"cycles_of_a_meeting": 0.0}):
            without = row_of(Budget(), H200, "selection", Setting(2**30, 0.1))["median_seconds"]
        self.assertEqual(row_of(Budget(), H200, "selection", Setting(2**30, 0.1))["median_seconds"], without)

    def test_launches(self):
        plain, graph = (predict_rows.launches_of(Budget(), H200, 0.01, graph) for graph in (False, True))
        self.assertEqual(plain["nodes"], 27)  # 23 kernels and the check's, and memory that is filled three times
        self.assertGreater(graph["overhead_seconds"], 27 * ASSUMED["seconds_to_capture"])
        with mock.patch.dict(ASSUMED, {"seconds_to_launch": 1e-4}):
            self.assertGreater(predict_rows.launches_of(Budget(), H200, 0.01, False)["median_seconds"], 27e-4)


class OfAll(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.predicted = predict.whole()

    def test_goals(self):
        row = {"d": 2**30, "share_of_copy": 0.95, "median_seconds": 1.4}
        rows = [{**row, "name": name, "density": density} for name in ("local pass", "whole local step", "selection") for density in (0.1, 0.01)]
        rows += [{**row, "name": "one read of the shard", "density": density, "median_seconds": 1.0} for density in (0.1, 0.01)]
        rows.append({**row, "name": "local pass", "d": 2**20, "density": 0.1, "share_of_copy": 0.1})
        for field, value, missed in (("share_of_copy", 0.89, "local pass"), ("share_of_copy", 0.8, "whole local step"),
                                     ("median_seconds", 1.6, "selection")):
            self.assertEqual({goal["verdict"] for goal in predict.goals_of(rows, [{"overhead_seconds": 60e-6}])}, {"MET"})
            worse = [{**one, field: value} if one["name"] == missed else one for one in rows]
            goals = predict.goals_of(worse, [{"overhead_seconds": 60e-6}])
            self.assertEqual({goal["goal"].split(",")[0].split(" of ")[0] for goal in goals if goal["verdict"] == "MISSED"}, {missed})
        self.assertEqual(predict.goals_of(rows, [{"overhead_seconds": 61e-6}])[-1]["verdict"], "MISSED")

    def test_assumptions_are_changed_one_at_a_time_and_put_back(self):
        before = dict(ASSUMED)
        lines = predict.spread()
        self.assertEqual(ASSUMED, before)
        self.assertEqual(len(lines), 1 + 2 * (1 + 6 + 2))
        self.assertEqual(len({line[38:] for line in lines[1:10]}), 9)  # each matters
        local = {line[6:38].strip(): float(line[38:48]) for line in lines[10:]}
        self.assertLess(local["overlap 2"], local["as it stands"])
        self.assertLess(local["latencies times 1.5"], local["latencies times 0.7"])

    def test_the_file_has_a_row_a_line(self):
        written = predict.json_text(self.predicted)
        self.assertEqual(json.loads(written), self.predicted)
        self.assertLess(len(written.splitlines()), 250)

    def test_says_that_nothing_was_measured(self):
        self.assertEqual(self.predicted["status"], "PREDICTED, not measured")
        self.assertTrue(predict.text(self.predicted).startswith("PREDICTED"))

    def test_the_committed_file_is_of_these_kernels(self):
        def checked(sass):
            said = io.StringIO()
            with mock.patch.object(predict, "Budget", lambda: Budget(sass)), mock.patch.object(sys, "argv", ["predict", "--check"]), \
                    contextlib.redirect_stdout(said):
                return predict.main(), said.getvalue()

        self.assertEqual(checked(SASS)[0], 0)
        status, said = checked(with_counts(SASS, "scape/local/LocalPassWith", waits=50))
        self.assertEqual(status, 1)
        self.assertIn("run bench/gpu/predict --update", said)


class Compared(unittest.TestCase):
    def setUp(self):
        self.predicted = predict.whole()
        rows = copy.deepcopy(self.predicted["machines"][1]["rows"])
        for row in rows:
            row["median_seconds"] *= 2.0
            row["copy_bytes_per_second"] = 4e12
        self.measured = {"environment": {"device": "NVIDIA H200"}, "rows": rows, "launches": self.predicted["machines"][1]["launches"]}

    def compare(self, **changed):
        return "\n".join(predict.compare({**self.measured, **changed}, self.predicted))

    def test_row_by_row(self):
        lines = self.compare().splitlines()
        self.assertRegex(lines[2], r"^check +2\^20 +0.1 .* 0.50$")
        self.assertRegex(lines[-2], r"^\d+ rows: the median is off by a factor of 2.00, the worst by 2.00; 2 within 1.25$")
        self.assertIn("the copy: 4000 GB/s measured, 4320 predicted", lines[-1])

    def test_rows_that_are_not_the_same(self):
        rows = copy.deepcopy(self.measured["rows"])
        rows[0]["bytes"] *= 1.1
        rows[1]["name"] = "PyTorch AdamW, fused"
        lines = self.compare(rows=rows).splitlines()
        self.assertIn("not the same row", lines[2])
        self.assertIn("not predicted", lines[3])
        self.assertEqual("\n".join(lines).count("not the same row"), 1)

    def test_other_devices_and_nothing_measured(self):
        for device in ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe"):
            with self.assertRaisesRegex(SystemExit, f"measured on '{device}'"):
                self.compare(environment={"device": device})
        with self.assertRaisesRegex(SystemExit, "no rows of bench_gpu"):
            self.compare(rows=[])
        self.assertIn("predicted for H100", self.compare(environment={"device": "NVIDIA H100 80GB HBM3"}))

    def test_what_the_gate_leaves(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gate.json"
            file.write_text(json.dumps({"format": "scape-gpu-gate 1", "benchmarks": self.measured}), encoding="utf-8")
            said = io.StringIO()
            with mock.patch.object(sys, "argv", ["predict", "--compare", str(file)]), contextlib.redirect_stdout(said):
                self.assertEqual(predict.main(), 0)
        self.assertIn("measured on NVIDIA H200", said.getvalue())


if __name__ == "__main__":
    unittest.main()
