"""Bad values of each setting, as the library's own message lists the settings: one line that names the setting, whatever type it is."""

import re
import unittest
from collections.abc import Callable
from typing import Any

import needs

needs.numpy()
import truestep  # noqa: E402

TENSORS = [("a", 70), ("b", 9, True)]
LISTS = ("groups", "param_groups", "edges")  # which may be empty
NEVER: list[Any] = [None, [], {}, "", "a b", b"1", object(), float("nan"), "word", [None]]


def boundary(**settings: Any) -> truestep.mapl.Boundary:
    return truestep.mapl.Boundary(**{"width": 4, "rank": 2} | settings)


class BadValues(unittest.TestCase):
    def refusal(self, make: Callable[..., Any], **settings: Any) -> str:
        with self.assertRaises(truestep.Error, msg=str(settings)) as refused:
            make(**settings)
        return str(refused.exception)

    def test_each_is_named(self) -> None:
        for make in (lambda **settings: truestep.Problem(TENSORS, **settings), lambda **settings: truestep.gasloc.Problem(TENSORS, **settings), boundary):
            keys = re.sub(".* one of ", "", self.refusal(make, no_such_key=1)).split(", ")
            self.assertGreater(len(keys), 14)
            for key in ["workers"] * (make is not boundary) + keys:
                for value in NEVER:
                    if key in LISTS and not value:
                        continue
                    line = self.refusal(make, **{key: value})
                    self.assertIn(key, line)
                    self.assertNotIn("\n", line)


if __name__ == "__main__":
    unittest.main()
