"""The check of what is watched in the run itself: now and then the ranks of a group exchange it over a second group, and one of them checks."""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ._errors import Error
from ._verify import check_collectives

Record = tuple[dict[str, Any], bytes]


def packed(record: dict[str, Any], payload: bytes) -> bytes:
    """One record of a file."""
    if payload:
        record = record | {"bytes": len(payload)}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n" + payload + (b"\n" if payload else b"")


class Online:
    """Of one group: the calls since the last exchange, and what exchanging and checking has cost."""

    def __init__(self, ranks: list[int], me: int) -> None:
        self.ranks, self.me = ranks, me
        self.group: Any = None
        self.window: dict[int, list[Record]] = {}
        self.checks, self.calls, self.bytes, self.seconds = 0, 0, 0, 0.0

    def exchange(self, head: dict[str, Any]) -> None:
        """All ranks of the group are here, before the same call."""
        begin = time.perf_counter()
        if self.group is None:
            self.group = dist.new_group(self.ranks, backend="gloo", use_local_synchronization=True)
        window, self.window = self.window, {}
        data = packed(head | {"rank": self.me, "world": len(self.ranks)}, b"")
        data += packed({"group": 0, "ranks": list(range(len(self.ranks))), "ordinal": 0}, b"")
        for number, records in enumerate(window.values()):
            for record, payload in records:
                key = "call" if "call" in record else "done"
                data += packed(record | {key: number} | ({"group": 0} if key == "call" else {}), payload)
        sizes = torch.zeros(len(self.ranks), dtype=torch.int64)
        sizes[self.me] = len(data)
        dist.all_reduce(sizes, group=self.group)
        mine = torch.zeros(int(sizes.max()), dtype=torch.uint8)
        mine[:len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        everyone = [torch.empty_like(mine) for _ in self.ranks] if self.me == 0 else None
        dist.gather(mine, everyone, self.ranks[0], group=self.group)
        said: list[Any] = [""]
        if everyone is not None:
            said = [_first_finding([part[:int(size)].numpy().tobytes() for part, size in zip(everyone, sizes)])]
        dist.broadcast_object_list(said, self.ranks[0], group=self.group)
        self.checks, self.calls, self.bytes = self.checks + 1, self.calls + len(window), self.bytes + len(mine)
        self.seconds += time.perf_counter() - begin
        if said[0]:
            raise Error(f"watch: {said[0]} (ranks as numbered in the group {self.ranks}); the files of all ranks tell more: truestep collectives")

    def say_cost(self) -> None:
        if self.me == 0 and self.checks:
            sys.stderr.write(f"truestep: {self.calls} collectives of ranks {', '.join(map(str, self.ranks))} were checked online, {self.checks} times: "
                             f"{self.seconds:.3f} s, {self.bytes:,} bytes sent by each\n")


def _first_finding(files: list[bytes]) -> str:
    with tempfile.TemporaryDirectory(prefix="truestep-") as folder:
        paths = [str(Path(folder, f"online.rank{rank}.collectives")) for rank in range(len(files))]
        for path, data in zip(paths, files):
            Path(path).write_bytes(data)
        try:
            findings = check_collectives(paths)["findings"]
        except Error as error:
            return f"the online check could not read what a rank has sent: {error}"
    return f"{findings[0]['where']}: {findings[0]['what']}" if findings else ""
