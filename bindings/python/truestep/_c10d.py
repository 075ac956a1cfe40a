"""A communicator and peers over torch.distributed: messages between two ranks, on the CPU."""

from collections.abc import Iterator
from itertools import count
from typing import Any, cast

import torch
import torch.distributed as dist

from ._communicator import Bytes, Communicator, Wait
from ._errors import Error
from .gasloc import Peers

_FIRST_TAG, _TAGS = 1 << 20, 1 << 30
_FIRST_TAG_OF_WORKERS, _WORKERS, _ROUNDS = 3 << 29, 1 << 9, 1 << 20  # beyond those, up to what C's int holds
_numbers: dict[str, Iterator[int]] = {}  # by group: two optimizers over one never take each other's messages
_workers: dict[str, Iterator[int]] = {}


class _Ranks:
    """The ranks of a process group whose backend moves the CPU's memory (gloo, mpi). Its timeout is how
    long a rank waits for another."""

    def __init__(self, group: Any = None) -> None:
        self._group = cast(Any, group if group is not None else dist.group.WORLD)
        self.rank, self.size = dist.get_rank(self._group), dist.get_world_size(self._group)
        if self.rank < 0:
            raise Error("this process is not in the process group; make the optimizer on the group's ranks alone")
        self._global = [dist.get_global_rank(self._group, rank) for rank in range(self.size)]
        self._check_backend()

    def _check_backend(self) -> None:
        config = getattr(dist, "get_backend_config", None)  # before PyTorch 2 a group had one backend
        backends = str(config(self._group)) if config is not None else dist.get_backend(self._group)
        if "cpu:" not in backends and backends not in ("gloo", "mpi"):
            raise Error(f"the process group's backend ({backends}) does not move the CPU's memory; "
                        "give process_group=torch.distributed.new_group(backend='gloo')")


def _name_of(group: Any) -> str:
    """The group's name, the same on all ranks."""
    named: Any = dist.distributed_c10d
    return str(group.group_name if hasattr(group, "group_name") else named._pg_names[group])


class ProcessGroup(_Ranks, Communicator):
    """Exchanges as messages between pairs of ranks; each message carries its exchange's number."""

    def __init__(self, group: Any = None) -> None:
        super().__init__(group)
        self._number = _numbers.setdefault(_name_of(self._group), count())

    def start_all_to_all(self, traffic: int, send: list[Bytes], receive: list[Bytes]) -> Wait:
        return self._start(send, receive)

    def start_all_gather(self, traffic: int, send: Bytes, receive: list[Bytes]) -> Wait:
        return self._start([send] * self.size, receive)

    def _start(self, send: list[Bytes], receive: list[Bytes]) -> Wait:
        tag = _FIRST_TAG + next(self._number) % _TAGS
        works: list[tuple[int, Any]] = []
        try:
            for rank in self._others():
                if receive[rank].size:
                    works.append((rank, dist.irecv(torch.from_numpy(receive[rank]), self._global[rank], self._group, tag=tag)))
            for rank in self._others():
                if send[rank].size:
                    works.append((rank, dist.isend(torch.from_numpy(send[rank]), self._global[rank], self._group, tag=tag)))
            receive[self.rank][:] = send[self.rank]
        except BaseException:
            _first_error_of(works)  # the one that is on its way out tells why
            raise

        def wait() -> None:
            error = _first_error_of(works)
            if error is not None:
                raise error
        return wait

    def _others(self) -> list[int]:
        """The other ranks. Each rank begins with the one after it, so that not all talk to the same one."""
        return [(self.rank + turn) % self.size for turn in range(1, self.size)]


class ProcessGroupPeers(_Ranks, Peers):
    """Sends messages only, and never uses a collective of the group, so ranks that do not meet do not
    talk."""

    def __init__(self, group: Any = None) -> None:
        super().__init__(group)
        worker = next(_workers.setdefault(_name_of(self._group), count()))
        self._first_tag = _FIRST_TAG_OF_WORKERS + worker % _WORKERS * _ROUNDS

    def start_send(self, traffic: int, peer: int, number: int, data: Bytes) -> Wait:
        if not data.size:
            return _nothing
        return _waits(peer, dist.isend(torch.from_numpy(data), self._global[peer], self._group, tag=self._tag(number)))

    def start_receive(self, traffic: int, peer: int, number: int, into: Bytes) -> Wait:
        if not into.size:
            return _nothing
        return _waits(peer, dist.irecv(torch.from_numpy(into), self._global[peer], self._group, tag=self._tag(number)))

    def _tag(self, number: int) -> int:
        return self._first_tag + number % _ROUNDS


def _nothing() -> None:
    """A wait that returns at once."""


def _waits(peer: int, work: Any) -> Wait:
    def wait() -> None:
        error = _first_error_of([(peer, work)])
        if error is not None:
            raise error
    return wait


def _first_error_of(works: list[tuple[int, Any]]) -> BaseException | None:
    """Waits for all messages, even after one has failed: libtruestep then takes the memory back, and no
    message may still write to it. The backend names an address at most, so the error names the rank of the
    message."""
    first: BaseException | None = None
    for rank, work in works:
        try:
            work.wait()
        except BaseException as error:  # noqa: BLE001
            if first is None:
                first = error
                if isinstance(error, Exception):
                    first = ConnectionError(f"a message between this rank and rank {rank} has failed: {error}")
                    first.__cause__ = error
    return first
