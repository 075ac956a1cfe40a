#!/usr/bin/env python3
"""Can ci/drawn fail? A page made of counts is held against others: a kind more, one less, another demand, another share."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("drawn", str(pathlib.Path(__file__).resolve().parent / "drawn"))
drawn = importlib.util.module_from_spec(importlib.util.spec_from_loader("drawn", loader))
loader.exec_module(drawn)

NOW = {("reference", "several ranks"): (0.9, 60), ("reference", "a payload of bf16"): (0.33, 15), ("machine", "a delay"): (0.4, 25)}


class Page(unittest.TestCase):
    def wrong(self, **changes):
        now = {**NOW, **{key: value for key, value in changes.get("more", {}).items()}}
        for key in changes.get("less", []):
            del now[key]
        page = drawn.BEGIN + drawn.table(NOW) + drawn.END
        return drawn.differences(page, now, 100)

    def test_the_same_is_not_wrong(self):
        self.assertEqual(self.wrong(), [])
        self.assertEqual(self.wrong(more={("machine", "a delay"): (0.5, 25)}), [])

    def test_what_differs_is_told(self):
        self.assertIn("'a delay' is in the page", self.wrong(less=[("machine", "a delay")])[0])
        self.assertIn("'another' is demanded", self.wrong(more={("machine", "another"): (0.4, 25)})[0])
        self.assertIn("the page has 25", self.wrong(more={("machine", "a delay"): (0.4, 20)})[0])
        self.assertIn("40 of a hundred, 5 were", self.wrong(more={("machine", "a delay"): (0.05, 25)})[0])

    def test_a_seed_that_may_do_harm(self):
        self.assertGreater(drawn.whim(0.09, 9), 0.001)
        self.assertLess(drawn.whim(0.14, 5), 1e-6)
        self.assertEqual(drawn.whim(0.02, 2), 0.0)  # so rare a kind is judged by longer runs alone
        self.assertEqual((drawn.whim(1.0, 100), drawn.whim(0.99, 100)), (0.0, 1.0))


if __name__ == "__main__":
    unittest.main()
