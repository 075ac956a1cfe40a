"""How ranks exchange data: a communicator to implement in Python, and ranks that are threads."""

import ctypes
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _library
from ._errors import Error

Bytes = NDArray[np.uint8]
Wait = Callable[[], None]

_LONGEST = 10**9  # seconds; 2^63 nanoseconds are nine times as many


def bytes_at(pointer: int | None, size: int) -> Bytes:
    if not pointer or not size:
        return np.empty(0, np.uint8)
    memory: Any = (ctypes.c_uint8 * size).from_address(pointer)
    return np.frombuffer(memory, np.uint8)


def _parts(pointer: int | None, sizes: list[int]) -> list[Bytes]:
    """Consecutive parts of these sizes."""
    parts, at = [], pointer or 0
    for size in sizes:
        parts.append(bytes_at(at, size))
        at += size
    return parts


class Native:
    """A communicator's handle, and the Python object that must live as long. `failure`: the exception that
    its callbacks raised."""

    def __init__(self, handle: _library.Handle, owner: object = None) -> None:
        self.handle, self.owner = handle, owner
        self.failure: BaseException | None = None


class Communicator(ABC):
    """Ranks that exchange bytes by any means; truestep.h has the rules (truestep_exchanges). All ranks
    start the same exchanges in the same order, and several may be under way at once. A start returns at
    once, with a function that waits; the buffers belong to the exchange until then."""

    rank: int
    size: int

    @abstractmethod
    def start_all_to_all(self, traffic: int, send: list[Bytes], receive: list[Bytes]) -> Wait:
        """Sends send[r] to rank r and receives receive[r] from it. Some are empty, on both sides alike."""

    @abstractmethod
    def start_all_gather(self, traffic: int, send: Bytes, receive: list[Bytes]) -> Wait:
        """Sends send to all ranks and receives receive[r] from rank r. send may be the same memory as
        receive[rank]."""

    def _native(self) -> Native:
        bridge = _Bridge(self)
        handle = _library.Handle("communicator", ctypes.byref(bridge.exchanges))
        native = Native(handle, bridge)
        bridge.native = native
        return native


class Calls:
    """Python functions that libtruestep calls. Exceptions do not cross C: they are stored, and raised as
    the cause."""

    def __init__(self) -> None:
        self._under_way: dict[int, Wait] = {}
        self._started = 0
        self.native: Native | None = None

    def _kept(self, body: Callable[[], None]) -> int:
        try:
            body()
            return 0
        except BaseException as error:  # noqa: BLE001  (C has no other way to hear of it)
            try:
                self._tell(error)
            except BaseException:  # noqa: BLE001  (what leaves a callback of ctypes is dropped, and the callback has succeeded)
                pass
            return 1

    def _tell(self, error: BaseException) -> None:
        if self.native is not None and self.native.failure is None:
            self.native.failure = error
        line = type(error).__name__
        try:
            line = f"{line}: {error}"
        except BaseException as other:  # noqa: BLE001  (its own __str__)
            line += f", whose text cannot be made ({type(other).__name__})"
        _library.set_error(line)

    def _keep(self, wait: Wait, exchange: Any) -> None:
        self._started += 1
        self._under_way[self._started] = wait
        exchange[0] = self._started

    def _wait(self, _self: Any, exchange: int) -> int:
        return self._kept(lambda: self._under_way.pop(exchange)())


class _Bridge(Calls):
    """A Python communicator as the functions that libtruestep calls."""

    def __init__(self, communicator: Communicator) -> None:
        super().__init__()
        rank, size = _library.whole(communicator.rank, "a communicator's rank"), _library.whole(communicator.size, "its size")
        self._communicator = communicator
        self.exchanges = _library.Exchanges(
            ctypes.sizeof(_library.Exchanges), None, rank, size,
            _library.START_ALL_TO_ALL(self._all_to_all), _library.START_ALL_GATHER(self._all_gather), None,
            _library.WAIT(self._wait), None)

    def _all_to_all(self, _self: Any, traffic: int, send: int | None, send_sizes: Any, receive: int | None, receive_sizes: Any,
                    exchange: Any) -> int:
        def start() -> None:
            ranks = self._communicator.size
            wait = self._communicator.start_all_to_all(traffic, _parts(send, send_sizes[:ranks]),
                                                       _parts(receive, receive_sizes[:ranks]))
            self._keep(wait, exchange)
        return self._kept(start)

    def _all_gather(self, _self: Any, traffic: int, send: int | None, receive: int | None, sizes: Any, exchange: Any) -> int:
        def start() -> None:
            of_ranks = sizes[:self._communicator.size]
            wait = self._communicator.start_all_gather(traffic, bytes_at(send, of_ranks[self._communicator.rank]),
                                                       _parts(receive, of_ranks))
            self._keep(wait, exchange)
        return self._kept(start)


class ThreadGroup:
    """Ranks that are threads of this process. Each takes communicator(rank), and makes, steps and closes
    its optimizer itself."""

    def __init__(self, size: int, timeout: float = 60.0) -> None:
        if not 0 < timeout <= _LONGEST:
            raise Error(f"the timeout of a ThreadGroup is {timeout!r}; give seconds, more than 0 and at most {_LONGEST}")
        self.size = _library.whole(size, "the size of a ThreadGroup")
        self._handle = _library.Handle("group", self.size, math.ceil(timeout * 1000))

    def communicator(self, rank: int) -> "ThreadCommunicator":
        """A rank's communicator; once for each rank."""
        return ThreadCommunicator(self, rank)

    def peers(self, rank: int) -> "ThreadPeers":
        """Peers for a worker of GASLoC; once for each rank."""
        return ThreadPeers(self, rank)


class _Place:
    """A rank's place in a ThreadGroup, to be used once."""

    kind: str

    def __init__(self, group: ThreadGroup, rank: int) -> None:
        self.rank, self.size = _library.whole(rank, f"the rank of a ThreadGroup's {self.kind}"), group.size
        self._handle: _library.Handle | None = _library.Handle(self.kind, group._handle.pointer, self.rank, maker=f"group_{self.kind}")

    def _native(self) -> Native:
        handle, self._handle = self._handle, None
        if handle is None:
            raise Error(f"the {self.kind} of rank {self.rank} serves an optimizer already; make another group")
        return Native(handle)


class ThreadCommunicator(_Place):
    """A place for one optimizer."""

    kind = "communicator"


class ThreadPeers(_Place):
    """A place for one worker of GASLoC."""

    kind = "peers"


def native_of(place: Any, kind: str) -> Native | None:
    """The object that libtruestep takes for a place among ranks; None for a single rank."""
    if place is None:
        return None
    native: Native = place._native()
    if native.handle.kind != kind:
        raise Error(f"it was given {native.handle.kind}, and takes {kind}: .communicator(rank) is SCAPE's, .peers(rank) GASLoC's")
    return native
