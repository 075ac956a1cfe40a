"""Records and verifies the run of an optimizer in one."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist

from . import testing
from ._errors import Error
from ._torch_claim import claim as claim_of
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
    before DistributedDataParallel, FSDP2, or whatever comes after, reduces them. ``folder``: where the ranks' files stay, seen by all ranks; by default a
    temporary one of this machine, which is removed when all is true. ``options``: those of Recorder. An exception of the loop ends it without a verdict.
    """
    distributed = dist.is_available() and dist.is_initialized()
    rank, size = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)

    def on_all(action: Callable[[], Any]) -> Any:
        """What rank 0's action returns. An error of any rank's is raised on all, so that none waits for one that has failed."""
        mine: tuple[Any, Exception | None] = (None, None)
        try:
            mine = (action(), None)
        except Exception as error:  # noqa: BLE001: of whatever kind, the others have to learn of it
            mine = (None, error if size == 1 else Error(f"rank {rank}: {error}"))
        every: list[Any] = [mine]
        if size > 1:
            every = [None] * size
            dist.all_gather_object(every, mine)
        for _, failed in every:
            if failed is not None:
                raise failed
        return every[0][0]

    def place_of() -> str:
        return os.fspath(folder) if folder is not None else tempfile.mkdtemp(prefix="truestep-")

    place = Path(on_all(lambda: place_of() if rank == 0 else None))
    keep = folder is not None
    run = Checked(place, rank, size)

    def begin() -> None:
        if not place.is_dir():
            raise Error(f"checking: it sees no folder {place}; give folder=, one that all ranks see")
        for old in (place / "run.safetensors", place / f"run.rank{rank}.safetensors"):
            old.unlink(missing_ok=True)  # a verdict on an earlier run would be none on this one
        run.record(optimizer, claim if claim is not None else claim_of(optimizer, clip_norm=clip_norm, scaler=scaler), **options)
    try:
        try:
            on_all(begin)
            yield run
        except BaseException:
            with contextlib.suppress(Error):  # what has ended the loop is what is to be told
                run.stop()
            raise
        on_all(run.close)
        run.result = on_all(lambda: verify(run.path, level) if rank == 0 else None)
        keep = keep or not run.result.passed
        testing.demand(run.result, run)
    finally:
        if rank == 0 and not keep:
            shutil.rmtree(place, ignore_errors=True)
