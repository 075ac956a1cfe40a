"""Notices that a rank is silent for long, where it is, and takes what PyTorch's flight recorder has seen until then."""

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

_FRAMES = 3
_OURS = (os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep)


class Sentinel:
    """A thread that calls ``report`` with the seconds of a silence, once it is longer than the limit, and again whenever it has doubled."""

    def __init__(self, limit: float, report: Callable[[float], None]) -> None:
        self._limit, self._report = limit, report
        self._touched, self._stopped = time.monotonic(), threading.Event()
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        self._touched = time.monotonic()

    def start(self) -> None:
        if self._limit > 0:
            self.touch()
            self._thread = threading.Thread(target=self._run, name="truestep hang", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        begin, due = self._touched, self._limit
        while not self._stopped.wait(max(0.01, begin + due - time.monotonic())):
            if self._touched != begin:
                begin, due = self._touched, self._limit
            elif (silent := time.monotonic() - begin) >= due:
                due = 2 * silent
                self._report(silent)


def flight_recorder() -> bytes | None:
    """A dump, as PyTorch pickles it, of the recorder that has something: NCCL's or another backend's."""
    bound: Any = getattr(torch._C, "_distributed_c10d")  # not in every stub
    for name in ("_dump_nccl_trace", "_dump_fr_trace"):
        data = getattr(bound, name)() if hasattr(bound, name) else None
        if data and pickle.loads(data).get("entries"):
            return bytes(data)
    return None


def last_of(dump: bytes) -> str:
    """Its newest entry in a line."""
    entry = pickle.loads(dump)["entries"][-1]
    done = "retired" if entry.get("retired") else "not retired"
    return f"{entry.get('profiling_name', '?')} {entry.get('collective_seq_id', '?')} of {'/'.join(entry.get('process_group', ()))}, {entry.get('state')}, {done}"


def _frames(frame: Any) -> list[str]:
    """The innermost ones from this one on that are outside of PyTorch and this package."""
    found: list[str] = []
    while frame is not None and len(found) < _FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS) and not code.co_filename.startswith("<frozen"):
            found.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return found


def caller() -> list[str]:
    """Where this thread is; where C++ calls from a thread of its own, where the main thread is."""
    return _frames(sys._getframe(1)) or main_thread()


def main_thread() -> list[str]:
    return _frames(sys._current_frames().get(threading.main_thread().ident or 0))
