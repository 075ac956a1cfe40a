"""Compares a recorded run with the reference."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _library
from ._errors import Error


@dataclass(frozen=True)
class Row:
    """The results of one kind over all steps and ranks (docs/using-the-tool.md)."""

    phase: str
    result: str
    compared: int
    mismatched: int
    status: str


@dataclass(frozen=True)
class Phase:
    """The rows of one phase of the step."""

    name: str
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing that was compared here differs."""
        return all(row.mismatched == 0 for row in self.rows)


class Phases(tuple[Phase, ...]):
    """In the order of the step; by name too: ``phases.residual``."""

    def __getattr__(self, name: str) -> Phase:
        for phase in self:
            if phase.name == name:
                return phase
        raise AttributeError(f"there is no phase {name!r}; there are {', '.join(phase.name for phase in self)}")


@dataclass(frozen=True)
class Result:
    """A verdict. ``text`` is what `truestep verify` prints, ``json`` what its --json holds of this trace."""

    passed: bool
    status: str
    level: str
    phases: Phases
    text: str
    json: dict[str, Any]

    @property
    def first_divergence(self) -> dict[str, Any] | None:
        """Where trace and reference first differ: step, phase, result, rank, tensor, index, and the values
        there."""
        found: dict[str, Any] | None = self.json["first_divergence"]
        return found

    @property
    def what_may_be_wrong(self) -> tuple[str, ...]:
        """Possible causes of a failed run, one line each; the text has them, too."""
        return tuple(self.json["fits"])

    def __str__(self) -> str:
        return self.text


def _phases(rows: list[dict[str, Any]]) -> Phases:
    all_rows = [Row(*(row[key] for key in ("phase", "result", "compared", "mismatched", "status"))) for row in rows]
    names = list(dict.fromkeys(row.phase for row in all_rows))
    return Phases(Phase(name, tuple(row for row in all_rows if row.phase == name)) for name in names)


Path = str | os.PathLike[str]


def _in_python(line: str) -> str:
    """Replaces the tool's options by arguments of verify()."""
    return re.sub(r"--(level|from)(?: (exact|rel|bf16|recorded|start)\b)?",
                  lambda option: ("level" if option[1] == "level" else "start") + (f'="{option[2]}"' if option[2] else ""), line)


def checked(path: Path | Sequence[Path], level: str | None, start: str | None) -> _library.Handle:
    """The verdict of verify(), except that an Error names the tool's options."""
    def word(value: str | None, what: str) -> bytes | None:
        return None if value is None else _library.text(value, what)

    settings = word(level, "level"), word(start, "start")
    if isinstance(path, (str, os.PathLike)):
        return _library.Handle("verdict", _library.text(path, "path"), *settings, maker="verify")
    return _library.Handle("verdict", *_library.texts(path, "path"), *settings, maker="verify_ranks")


def result_of(handle: _library.Handle) -> Result:
    found = json.loads(_library.words("verdict_json", handle.pointer))
    text = _library.words("verdict_text", handle.pointer)
    return Result(bool(_library.ask("verdict_passed", handle.pointer)), found["status"], found["level"], _phases(found["rows"]),
                  text, found)


def verify(path: Path | Sequence[Path], level: str | None = None, start: str | None = None) -> Result:
    """Checks a trace of any system. level: "exact" (the default), "rel" or "bf16"; start: "recorded" or "start", as --from has it.
    ``path``: a file, or what each rank has written by itself: a list, or one name with a star for the rank's number.

    A difference is a Result that has not passed. Raises Error for what is no trace, or a level that is not available.
    """
    try:
        return result_of(checked(path, level, start))
    except Error as error:
        raise type(error)(_in_python(str(error))) from None


def page_of(handle: _library.Handle) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_library.words("verdict_page", handle.pointer))
    return found


def add_summary(file: str, runs: list[dict[str, Any]]) -> None:
    _library.call("add_summary", _library.text(file, "--summary"), json.dumps({"traces": runs}).encode())


def check_collectives(paths: Sequence[Path]) -> dict[str, Any]:
    """What `truestep collectives` says of the files of all ranks: its JSON, with its text."""
    handle = _library.Handle("verdict", *_library.texts(paths, "path"), maker="check_collectives")
    found: dict[str, Any] = json.loads(_library.words("verdict_json", handle.pointer))
    return found | {"text": _library.words("verdict_text", handle.pointer)}


def join(paths: Path | Sequence[Path], output: Path) -> None:
    """Makes one trace of what each rank of a run has written by itself: a list, or one name with a star for the rank's number."""
    files = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    _library.call("join", *_library.texts(files, "a path"), _library.text(output, "output"))
