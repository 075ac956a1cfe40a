"""What ci/track says of each processor's history: goals that are met, and what has fallen."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from tools import track_goals

TRACK = pathlib.Path(__file__).with_name("track")
MACHINE = {"processor": "Made <up>", "cores": 2, "compiler": "GNU 12.2.0"}


class Goals(unittest.TestCase):
    """Each processor's history is judged by itself."""

    def run_of(self, commit, share, goal=None, **more):
        row = {"of": "floor", "share": share} | ({"goal": goal} if goal else {})
        return {"commit": commit, "machine": MACHINE | more, "rows": {"fold/d:8": row}}

    def test_met_and_not_met(self):
        for share, word in ((0.95, "MET "), (0.9499, "NOT MET ")):
            head, line = track_goals.table([self.run_of("c", share, 0.95)])
            self.assertTrue(line.startswith(word), line)
            self.assertIn("Made <up>", head)
            self.assertIn("GNU 12.2.0, kernels avx2, at c", track_goals.table([self.run_of("c", share, 0.95, kernels="avx2")])[0])
        self.assertEqual(track_goals.table([self.run_of("c", 0.5)]), [])
        self.assertEqual(track_goals.table([]), [])

    def test_what_has_fallen(self):
        before = [self.run_of(f"c{i}", share) for i, share in enumerate((0.1, 0.9, 0.8, 0.9, 0.9, 0.9))]
        self.assertEqual(track_goals.table([*before, self.run_of("now", 0.7)]), [])
        _, line = track_goals.table([*before, self.run_of("now", 0.67)])
        self.assertTrue(line.startswith("FALLEN   fold/d:8: 0.670, at least 0.800 in the 5 runs before"), line)

    def test_models_of_one_name_are_two(self):
        lines = "processor\t: {}\ncpu family\t: 25\nmodel\t\t: {}\nmodel name\t: AMD EPYC\n"
        self.assertEqual(track_goals.processor(lines.format(0, 1) + lines.format(1, 1)), "AMD EPYC (family 25, model 1)")
        self.assertNotEqual(track_goals.processor(lines.format(0, 1)), track_goals.processor(lines.format(0, 17)))
        self.assertTrue(track_goals.processor("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n").endswith(" (implementer 0x41, part 0xd4f)"))

    def test_processors_are_judged_apart(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for kind, shares in (("fast", (0.96, 0.97)), ("slow", (0.5, 0.51))):
                runs = [json.dumps(self.run_of(f"{kind}{i}", share, 0.95) | {"date": "2026-01-01"}) for i, share in enumerate(shares)]
                (folder / f"{kind}.jsonl").write_text("\n".join(runs) + "\n")
            result = subprocess.run([TRACK, "--page-only", "--history", folder, "--out", folder], capture_output=True, text=True, check=True)
        self.assertRegex(result.stdout, r"at fast1:\nMET +fold/d:8: 0.970 .*\n.*at slow1:\nNOT MET +fold/d:8: 0.510")
        self.assertNotIn("FALLEN", result.stdout)


if __name__ == "__main__":
    unittest.main()
