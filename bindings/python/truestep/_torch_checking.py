"""Records and verifies the run of an optimizer in one."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist

from . import testing
from ._errors import Error
from ._torch_claim import claim as claim_of
from ._torch_recorder import Recorder
from ._verify import verify


class Checked(testing.Run):
    """The run that checking() records; its verdict, a truestep.verify's, is there at the end."""

    result: Any = None


@contextlib.contextmanager
def checking(optimizer: Any, level: str = "rel", *, claim: Any = None, clip_norm: float = 0.0, scaler: Any = None,
             folder: str | os.PathLike[str] | None = None, **options: Any) -> Iterator[Checked]:
    """Records every step of a training loop, verifies all of them at the end, and raises AssertionError with the first divergence, on all ranks:

        with truestep.torch.checking(optimizer):
            train()                                      # backward(), clipping if any, optimizer.step()

    The optimizer is a torch.optim.SGD, Adam, AdamW or Muon, or a list of such that step together, a truestep.torch.Scape or GASLoC, or any with a
    ``claim=``, what claim() makes of the optimizer that it should equal; ``clip_norm`` and ``scaler`` are as there. Gradients of each rank are seen
    before DistributedDataParallel, or whatever comes after, reduces them. ``folder``: where the ranks' files stay, seen by all ranks; by default a
    temporary one of this machine, which is removed when all is true. ``options``: those of Recorder. An exception of the loop ends it without a verdict.
    """
    distributed = dist.is_available() and dist.is_initialized()
    rank, size = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)

    def from_first(value: Any) -> Any:
        """What rank 0 has, on all ranks."""
        values = [value]
        if size > 1:
            dist.broadcast_object_list(values)
        return values[0]
    problem = claim if claim is not None else claim_of(optimizer, clip_norm=clip_norm, scaler=scaler)
    place = Path(from_first(os.fspath(folder) if folder is not None else tempfile.mkdtemp(prefix="truestep-") if rank == 0 else None))
    if not place.is_dir():
        raise Error(f"checking: rank {rank} sees no folder {place}; give folder=, one that all ranks see")
    keep = folder is not None
    try:
        run = Checked(place, rank, size)
        recorder = run.record(optimizer, problem, **options)
        try:
            yield run
        except BaseException:
            if isinstance(recorder, Recorder):
                with contextlib.suppress(Error):  # what has ended the loop is what is to be told
                    recorder.close()
            raise
        run.close()
        if size > 1:
            dist.barrier()
        run.result = _verdict(run, level) if rank == 0 else None
        run.result = from_first(run.result)
        if isinstance(run.result, Error):
            raise run.result
        keep = keep or not run.result.passed
        testing.demand(run.result, run)
    finally:
        if rank == 0 and not keep:
            shutil.rmtree(place, ignore_errors=True)


def _verdict(run: Checked, level: str) -> Any:
    """An Error is every rank's to raise."""
    try:
        return verify(run.path, level)
    except Error as error:
        return error
