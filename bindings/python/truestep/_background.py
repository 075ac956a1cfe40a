"""A thread that writes while training goes on."""

import collections
import threading
from collections.abc import Callable

from ._errors import Error


class Background:
    """Does its tasks, in order, in its own thread. Waiting tasks hold at most `budget` bytes; a caller
    that adds more waits, and nothing is dropped. The first failure is raised by the next put() or by
    close()."""

    def __init__(self, budget: int) -> None:
        self._budget, self._waiting, self._closed = budget, 0, False
        self._work: collections.deque[tuple[int, Callable[[], None]]] = collections.deque()
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="truestep recorder", daemon=True)
        self._thread.start()

    def put(self, size: int, work: Callable[[], None]) -> None:
        """`size`: the bytes that the task holds until it is done. A task larger than the budget waits
        until it is alone."""
        with self._changed:
            if self._closed:
                raise Error("the recorder has been closed; make a new one")
            self._changed.wait_for(lambda: self._failure is not None or self._waiting == 0 or self._waiting + size <= self._budget)
            self._raise()
            self._waiting += size
            self._work.append((size, work))
            self._changed.notify_all()

    def close(self) -> None:
        """Waits until all tasks are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._work))
                if not self._work:
                    return
                size, work = self._work.popleft()
            try:
                if self._failure is None:
                    work()
            except BaseException as failure:  # noqa: BLE001 - told to whoever trains
                self._failure = failure
            del work  # with the memory that it holds, before another may take its place
            with self._changed:
                self._waiting -= size
                self._changed.notify_all()
