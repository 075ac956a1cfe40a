#!/usr/bin/env python3
"""One cell of the documented map, trained anew: what docs/training.md says of density 0.1 after 250 steps comes out of bench/training-map with
fewer seeds, too: the same word, and a difference that is no further away than chance takes two pairs, by the documented sigma. Usage: training_cell_test.py TOOL"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = "truestep"
STEPS = "250"


def rows():
    """Rows of the map in docs/training.md, by density."""
    lines = (ROOT / "docs/training.md").read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| density |"))
    found = {}
    for line in lines[head + 2:]:
        if not line.startswith("|"):
            return found
        found[line.strip("|").split("|")[0].strip()] = line
    return found


def documented():
    """Of the map in docs/training.md: by density and steps the word (UNDECIDED is left out there), the difference and its uncertainty."""
    lines = (ROOT / "docs/training.md").read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| density |"))
    steps = re.findall(r"(\d+) steps", lines[head])
    cells = {}
    for line in lines[head + 2:]:
        if not line.startswith("|"):
            return cells
        density, *words = [word.strip() for word in line.strip("|").split("|")]
        for column, word in zip(steps, words):
            found = re.match(r"([A-Z]*) ?([+-]?[\d.]+) ± ([\d.]+)", word)
            cells[density, column] = (found[1] or "UNDECIDED", float(found[2]), float(found[3]))
    return cells


def agrees(verdict, cell):
    word, difference, uncertainty = cell
    documented_pairs = 4
    return verdict["verdict"] == word and abs(verdict["difference"] - difference) <= uncertainty * (documented_pairs / verdict["pairs"]) ** 0.5


class Cell(unittest.TestCase):
    def test_comes_out_again(self):
        cells = documented()
        self.assertEqual(len(cells), 12)
        with tempfile.TemporaryDirectory() as kept:
            folder = pathlib.Path(kept)
            done = subprocess.run([ROOT / "bench/training-map", "--program", PROGRAM, "--folder", folder, "--parts", "map", "--steps", STEPS, "--densities", "0.1",
                                   "--seeds", "2", "--base-seeds", "4", "--jobs", "2"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            (page,) = folder.glob("pages/*/training.json")
            told = json.loads(page.read_text())
        (verdict,) = told["verdicts"]
        print({name: verdict[name] for name in ("candidate", "verdict", "difference", "uncertainty", "pairs")})
        self.assertEqual((verdict["candidate"], verdict["pairs"]), ("scape:0.1", 2))
        self.assertTrue(agrees(verdict, cells["0.1", STEPS]), cells["0.1", STEPS])
        # The uncertainty of so few pairs does not tell densities apart; what a rank has sent does.
        sent = {density: float(line.strip("|").split("|")[-1].split()[0]) for density, line in rows().items()}
        plan = told["plan"]
        (of_last,) = {curve["points"][-1]["bytes"] for curve in told["curves"] if curve["optimizer"] != "adams"}
        by_parameter = of_last / plan["ranks"] / int(STEPS) / plan["model"]["parameters"]
        self.assertEqual([density for density, documented in sent.items() if abs(by_parameter / documented - 1) < 0.1], ["0.1"], by_parameter)
        # It is no cell of another density or length, which this would take for the same.
        for other in (("1", STEPS), ("0.1", "1000"), ("0.1", "4000")):
            self.assertFalse(agrees(verdict, cells[other]), other)
        # What the dense run reaches is what makes the comparison one of models that have learned.
        trigram = next(floor["loss"] for floor in told["floors"] if floor["name"] == "trigram")
        for curve in told["curves"]:
            below = curve["points"][-1]["loss"] < trigram
            self.assertEqual(below, curve["optimizer"] == "adams", curve["optimizer"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
