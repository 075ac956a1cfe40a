"""Ranks of a watched run: processes that are forked from this one, which has loaded PyTorch already."""

import datetime
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import needs
import torch
import torch.distributed as dist

import truestep.torch

TIMEOUT = datetime.timedelta(seconds=8)  # of the collectives: some runs are wrong in such a way that ranks wait for each other
LIMIT = 120


def _rank(body: Callable[..., None], rank: int, world: int, folder: str, options: dict[str, Any], watched: bool) -> None:
    torch.set_num_threads(1)
    status = 0
    try:
        needs.on_device()
        dist.init_process_group(needs.backend(world), init_method=f"file://{folder}/store", rank=rank, world_size=world, timeout=TIMEOUT)
        torch.manual_seed(1)
        if watched:
            with truestep.torch.watch(f"{folder}/run.rank{{rank}}.collectives", **options):
                body(rank, world)
        else:
            body(rank, world)
        dist.barrier()
    except Exception:  # noqa: BLE001
        Path(folder, f"error.rank{rank}").write_text(traceback.format_exc())
        status = 1
    sys.stdout.flush()
    os._exit(status)  # no rank waits for another one that has failed


def run(body: Callable[..., None], world: int, folder: str, watched: bool = True, **options: Any) -> list[int]:
    """Each rank's exit status; what ``body(rank, world)`` raises is in FOLDER/error.rank<r>."""
    Path(folder, "store").unlink(missing_ok=True)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_rank, args=(body, rank, world, folder, options, watched)) for rank in range(world)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(LIMIT)
        process.kill()
        process.join()
    return [process.exitcode or 0 for process in ranks]
