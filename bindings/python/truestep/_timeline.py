"""What each rank does and waits for, and when, for Perfetto."""

import contextlib
import os
from collections.abc import Iterator

from . import _library


@contextlib.contextmanager
def timeline(file: str | os.PathLike[str]) -> Iterator[None]:
    """Records the phases of the optimizers' steps and the waits of this process's ranks while the block runs. At its end they are added to
    `file`, Chrome trace JSON, which all processes of a job share; the first one empties it. TRUESTEP_TIMELINE=FILE records a whole process."""
    _library.call("timeline_start", _library.text(file, "file"))
    try:
        yield
    finally:
        _library.ask("timeline_write")
