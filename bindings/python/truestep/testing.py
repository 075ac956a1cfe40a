"""Asserts that a recorded run is true, in the manner of ``torch.testing.assert_close``.

    truestep.testing.assert_true("run.rank*.safetensors", level="rel")

In pytest the fixture ``truestep_run`` records the run, too (docs/pytest.md).
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._errors import Error
from ._verify import Path as TracePath
from ._verify import Result, verify

_PLACE = "  first divergence: "


class Run:
    """What the fixture ``truestep_run`` gives: records one run, in a file of each rank, and verifies it."""

    def __init__(self, folder: Path, rank: int = 0, size: int = 1) -> None:
        self._folder, self._rank, self._size = folder, rank, size
        self._recorder: Any = None
        self._open = False
        self.verified = False
        self.path = folder / "run.rank*.safetensors"

    @property
    def recorded(self) -> bool:
        return self._recorder is not None

    def record(self, optimizer: Any, problem: Any = None, **options: Any) -> Any:
        """Begins to record, on every rank, and returns the recorder: a truestep.torch.Recorder made with these arguments, or for a
        truestep.torch.GASLoC a RoundRecorder. verify() ends it."""
        from . import torch as ours  # PyTorch is needed from here on

        if self.recorded:
            raise Error("truestep_run: it records one run a test; give a second one a truestep.torch.Recorder and its path to assert_true")
        if isinstance(optimizer, ours.GASLoC):
            self.path = self._folder / "run.safetensors"
            self._recorder = ours.RoundRecorder(optimizer, **options)
        else:
            self._recorder = ours.Recorder(optimizer, problem, path=self._folder / "run.rank{rank}.safetensors", **options)
        self._open = True
        return self._recorder

    def close(self) -> None:
        """Ends the recording of this rank."""
        self._open = False
        if hasattr(self._recorder, "close"):
            self._recorder.close()
        else:
            self._recorder.write(self.path)
        (self._folder / f"closed.rank{self._rank}").touch()

    def stop(self) -> None:
        """Ends the recording of this rank, after an exception that leaves nothing to verify."""
        end = getattr(self._recorder, "close", getattr(self._recorder, "stop", None))
        if end is not None:
            end()

    def _finish(self) -> None:
        """Closes this rank's file and waits until all ranks have closed theirs. The plugin stops ranks that wait for one that has failed."""
        if not self.recorded:
            raise Error("truestep_run: nothing has been recorded; call truestep_run.record(optimizer) before the first step")
        if self._open:
            self.close()
        while not all((self._folder / f"closed.rank{rank}").exists() for rank in range(self._size)):
            time.sleep(0.01)

    def verify(self, level: str | None = None, start: str | None = None) -> Result:
        """Ends the recording and verifies what all ranks have recorded. To be called on all ranks; each gets the verdict."""
        self._finish()
        self.verified = True
        return verify(self.path, level, start)


def assert_true(run: Run | TracePath | Sequence[TracePath], *, level: str | None = None, start: str | None = None) -> None:
    """Raises AssertionError with the first divergence unless the run passes. ``run``: the fixture ``truestep_run``, on all ranks, or what
    truestep.verify takes: a path, a name with a star for the rank's number, or a list of paths."""
    __tracebackhide__ = True
    demand(run.verify(level, start) if isinstance(run, Run) else verify(run, level, start), run)


def demand(result: Result, run: Run | TracePath | Sequence[TracePath]) -> None:
    """Raises AssertionError for a verdict on this run that has not passed."""
    __tracebackhide__ = True
    if not result.passed:
        raise AssertionError(_message(result, run))


def _message(result: Result, run: Any) -> str:
    first = result.first_divergence
    if first is None:
        return f"The recorded run is not proved true at level {result.level}: {result.status}\n\n{result.text}"
    paths = [run.path] if isinstance(run, Run) else [run] if isinstance(run, (str, os.PathLike)) else list(run)
    place = next(line for line in result.text.splitlines() if line.startswith(_PLACE))
    lines = [f"The recorded run is not true at level {result.level}!", "", f"First divergence: {place.removeprefix(_PLACE)}"]
    if first["compared"]:
        lines.append(f"Mismatched elements: {first['mismatched']} / {first['compared']} ({first['mismatched'] / first['compared']:.1%})")
    for value in [value for value in first["first"] if value["coordinate"] == first.get("coordinate")][:1]:
        allowed = "none" if result.level == "EXACT" else f"up to {value['limit']}"
        lines += [f"Expected: {value['expected']} ({value['expected_bits']})", f"Actual: {value['actual']} ({value['actual_bits']})",
                  f"Absolute difference: {value['difference']} ({allowed} allowed), {value['ulps']:g} ULP"]
    lines += [f"Note: {first['note']}"] if first["note"] else []
    lines += [f"Known bug: {line}" for line in result.what_may_be_wrong]
    return "\n".join([*lines, f"Trace: {' '.join(map(str, paths))}"])
