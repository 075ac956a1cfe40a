#!/usr/bin/env python3
"""That ci/converge can fail: a clean implementation that is not the SAME, a bug beside the step that no curve shows, other verdicts than in
docs/converge.md, each by itself, over results that are made up from that page."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
loader = importlib.machinery.SourceFileLoader("converge", str(HERE / "converge"))
sys.dont_write_bytecode = True
converge = importlib.util.module_from_spec(importlib.util.spec_from_loader("converge", loader))
loader.exec_module(converge)


def rows_of_the_page(system="scape"):
    """Rows as the command would have written them."""
    rows = [{"number": 0, "name": "no known bug", "setting": "", "verdict": "SAME", "difference": 0.0, "uncertainty": 0.03, "same_bits": True, "same_states": True, "shows": False}]
    for name, verdict in converge.verdicts_in(converge.section(converge.TABLE.read_text(), system)[1]).items():
        beside = name.startswith("–")
        same = verdict in ("SAME, in every bit", "not triggered")
        rows.append({"number": -1 if beside else int(name), "name": name[2:] if beside else "some bug", "setting": "", "verdict": "SAME" if same else verdict,
                     "difference": 0.0, "uncertainty": 0.03, "same_bits": same, "same_states": verdict == "not triggered", "shows": verdict in {"WORSE", "MISTRUSTED", "ENDED"}})
    return rows


class Converge(unittest.TestCase):
    def status(self, rows, system="scape", asked="scape"):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"system": system, "rows": rows}, file)
            file.flush()
            done = subprocess.run([HERE / "converge", "none", "--system", asked, "--results", file.name], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_the_page_is_held_against(self):
        self.assertGreater(len(rows_of_the_page()), 100)
        self.assertEqual(self.status(rows_of_the_page()), (0, "ci/converge: ok\n"))
        rows = rows_of_the_page()
        for row in rows[10:40]:
            row.update(verdict="WORSE" if row["verdict"] == "SAME" else "SAME", same_bits=False, same_states=False, shows=True)
        status, said = self.status(rows)
        self.assertEqual(status, 1)
        self.assertIn("30 of ", said)

    def test_each_system_has_a_table_of_its_own(self):
        rows = rows_of_the_page("gasloc")
        self.assertGreater(len(rows), 40)
        self.assertEqual(self.status(rows, "gasloc", "gasloc"), (0, "ci/converge: ok\n"))
        self.assertEqual(self.status(rows, "gasloc", "scape")[0], 1)
        self.assertEqual(self.status(rows_of_the_page(), "gasloc", "gasloc")[0], 1)
        for row in rows[1:10]:
            row.update(verdict="WORSE" if row["verdict"] == "SAME" else "SAME", same_bits=False, same_states=False)
        self.assertIn("9 of ", self.status(rows, "gasloc", "gasloc")[1])

    def test_the_clean_one_is_the_same(self):
        rows = rows_of_the_page()
        rows[0].update(verdict="WORSE", same_bits=False)
        self.assertIn("no known bug: WORSE", self.status(rows)[1])
        self.assertEqual(self.status(rows)[0], 1)
        # The same verdict with another state: an untriggered bug proves nothing either.
        rows[0].update(verdict="SAME", same_bits=True, same_states=False)
        self.assertEqual(self.status(rows)[0], 1)

    def test_bugs_that_are_not_triggered_are_not_counted_as_hidden(self):
        rows = rows_of_the_page()
        said = converge.table({"system": "scape", "rows": rows}).split("\n")[0]
        idle = sum(row["same_states"] for row in rows[1:])
        self.assertGreater(idle, 0)
        self.assertIn(f"{idle} are not triggered", said)
        rows[next(i for i, row in enumerate(rows) if i and row["same_states"])]["same_states"] = False
        self.assertIn(f"{idle - 1} are not triggered", converge.table({"system": "scape", "rows": rows}).split("\n")[0])

    def test_what_is_beside_the_step_is_seen(self):
        rows = rows_of_the_page()
        beside = next(row for row in rows if row["number"] < 0)
        beside.update(verdict="SAME", shows=False)
        self.assertEqual(self.status(rows)[0], 1)


if __name__ == "__main__":
    if not converge.verdicts_in(converge.section(converge.TABLE.read_text(), "scape")[1]):
        print("SKIPPED: docs/converge.md has no table yet; ci/converge build/release/bin/truestep --update makes it")
        sys.exit(77)
    unittest.main()
