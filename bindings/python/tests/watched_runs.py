"""Runs that are watched: right ones, under DistributedDataParallel, FSDP2 and by hand, and one of each kind of mistake. Each is what a rank does."""

import os
import signal
import threading
import time
from typing import Any

import needs
import torch
import torch.distributed as dist
import truestep.torch
from torch.nn.parallel import DistributedDataParallel

try:
    import torch._dynamo  # noqa: F401 - which each rank would load for itself
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:
    fully_shard = None


def model_of(seed: int = 1) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.ReLU(), torch.nn.Linear(20, 7))


def train(model: Any, optimizer: torch.optim.Optimizer, rank: int, steps: int = 3, dtype: torch.dtype = torch.float32, accumulate: int = 1) -> None:
    for step in range(steps):
        torch.manual_seed(100 * step + rank)
        optimizer.zero_grad()
        for part in range(accumulate):
            model(torch.randn(8, 30, dtype=dtype)).float().square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


def every_operation(rank: int, world: int) -> None:
    """Of torch.distributed, in several types, waited for at once or later, and in groups of their own."""
    torch.manual_seed(rank)
    odd = dist.new_group(list(range(0, world, 2)))
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.uint8):
        def values(count: int, of: torch.dtype = dtype) -> torch.Tensor:
            return (torch.randn(count) * 50).abs().to(of)
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            dist.all_reduce(values(5 * world), op=op)
            dist.reduce(values(7), world - 1, op=op)
        if dtype.is_floating_point:
            dist.all_reduce(values(5), op=dist.ReduceOp.AVG)
            dist.all_reduce(values(5), op=dist.ReduceOp.AVG, async_op=True).wait()
            dist.reduce_scatter_tensor(values(6), values(6 * world), op=dist.ReduceOp.AVG)
        if dtype in (torch.float32, torch.int32):
            for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR) if dtype == torch.int32 else ():
                dist.all_reduce(values(5), op=op)
            dist.reduce_scatter_tensor(values(6), values(6 * world))
            dist.reduce_scatter(values(6), [values(6) for _ in range(world)])
        dist.broadcast(values(9), 0)
        dist.all_gather([values(4) for _ in range(world)], values(4))
        dist.all_gather_into_tensor(values(4 * world), values(4))
        dist.gather(values(3), [values(3) for _ in range(world)] if rank == 0 else None, 0)
        dist.scatter(values(3), [values(3) for _ in range(world)] if rank == world - 1 else None, world - 1)
        dist.all_to_all([values(3) for _ in range(world)], [values(3) for _ in range(world)])
        dist.all_to_all_single(values(2 * world), values(2 * world))
        ours = [1 + (rank + other) % 3 for other in range(world)]
        dist.all_to_all_single(values(sum(ours)), values(sum(ours)), ours, ours)
        if rank % 2 == 0:
            dist.all_reduce(values(5), group=odd)
        work = dist.all_gather_into_tensor(values(4 * world), values(4), async_op=True)
        other = dist.all_reduce(values(11), async_op=True)
        if dtype in (torch.float32, torch.int32):
            for later in (dist.reduce_scatter_tensor(values(6), values(6 * world), async_op=True), dist.broadcast(values(6), 0, async_op=True),
                          dist.reduce(values(6), 0, async_op=True), dist.all_to_all_single(values(world), values(world), async_op=True)):
                later.wait()
        other.wait()
        work.wait()
        if world > 1:
            after, before = (rank + 1) % world, (rank - 1) % world
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, values(8), after), dist.P2POp(dist.irecv, values(8), before)])
            for one in works:
                one.wait()
    if world > 1:
        if rank == 0:
            dist.send(torch.randn(5), 1, tag=3)
            dist.send(torch.randn(4), 1, tag=2)
        elif rank == 1:
            later = dist.irecv(torch.empty(4), 0, tag=2)
            dist.recv(torch.empty(5), tag=3)
            later.wait()
    dist.all_gather_object([None] * world, {"rank": rank})
    strided = torch.randn(6, 4).t()
    dist.all_reduce(torch.randn(0))
    for dtype in (torch.bool, torch.complex64):
        dist.all_gather([torch.empty(5, dtype=dtype) for _ in range(world)], torch.randn(5).to(dtype))
    if hasattr(dist, "_coalescing_manager"):
        with dist._coalescing_manager():
            dist.all_reduce(torch.randn(5))
            dist.all_reduce(torch.randn(6))
        with dist._coalescing_manager():
            dist.all_gather_into_tensor(torch.empty(3 * world), torch.randn(3))
            dist.all_gather_into_tensor(torch.empty(2 * world), torch.randn(2))
    for op in ("sum", "avg", "max"):
        functional.wait_tensor(functional.all_reduce(strided.contiguous(), op, dist.group.WORLD))
    functional.wait_tensor(functional.reduce_scatter_tensor(torch.randn(4 * world), "sum", 0, dist.group.WORLD))
    dist.barrier()


def data_parallel(rank: int, world: int, dtype: torch.dtype = torch.float32, ignored: str = "", **options: Any) -> None:
    model = model_of().to(dtype)
    if ignored:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [ignored])
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.001, **options)
    train(wrapped, torch.optim.AdamW(model.parameters(), lr=0.01), rank, dtype=dtype)


def data_parallel_watched(rank: int, world: int, ignored: str = "", folder: str = "", **options: Any) -> None:
    """The model has to be there before it is watched."""
    model = model_of()
    if ignored:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [ignored])
    with truestep.torch.watch(f"{folder}/run.rank{{rank}}.collectives", model=model, **options):
        train(DistributedDataParallel(model), torch.optim.AdamW(model.parameters(), lr=0.01), rank)


def sharded(rank: int, world: int, dtype: torch.dtype = torch.float32, hybrid: bool = False, folder: str = "") -> None:
    model = model_of()
    mesh = init_device_mesh(needs.DEVICE, (2, world // 2), mesh_dim_names=("copies", "shards")) if hybrid else init_device_mesh(needs.DEVICE, (world,))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    with truestep.torch.watch(f"{folder}/run.rank{{rank}}.collectives", model=model, sample=1):
        train(model, torch.optim.AdamW(model.parameters(), lr=0.01), rank)


def averaging_by_future(rank: int, world: int) -> None:
    """As comm hooks in Python do, and functional collectives in C++: nobody calls wait()."""
    torch.manual_seed(rank)
    mine = torch.randn(1000)
    (mean,) = dist.all_reduce(mine, op=dist.ReduceOp.AVG, async_op=True).get_future().wait()
    twice = functional.wait_tensor(functional.all_reduce(torch.full((20,), float(rank)), "avg", dist.group.WORLD))
    assert twice.tolist() == [(world - 1) / 2] * 20, twice  # that the watching waits changes nothing


class Wrong(dist.ProcessGroup):
    """A group as torchft's are, written in Python over gloo, with a mistake: what is broken is below whoever watches."""

    mistake = ""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner.rank(), inner.size())
        self.inner = inner

    def allreduce(self, tensors: Any, options: Any) -> Any:
        averages = options.reduceOp == dist.ReduceOp.AVG
        if averages:
            options.reduceOp = dist.ReduceOp.SUM
        work = self.inner.allreduce(tensors, options)
        work.wait()
        if averages and self.mistake != "sum":
            tensors[0].div_({"numel": tensors[0].numel(), "twice": 2 * self.size()}.get(self.mistake, self.size()))
        if self.mistake == "value" or (self.mistake == "copy" and self.rank() == 1):
            tensors[0][17] *= 1.001
        return work

    def _reduce_scatter_base(self, output: Any, given: Any, options: Any) -> Any:
        options.reduceOp = dist.ReduceOp.SUM  # as gloo's did before PyTorch 2.15: pytorch#162338
        work = self.inner._reduce_scatter_base(output, given, options)
        work.wait()
        return work

    reduce_scatter_single = _reduce_scatter_base

    def broadcast(self, tensors: Any, options: Any) -> Any:
        work = self.inner.broadcast(tensors, options)
        work.wait()
        if self.rank() == 1:
            tensors[0][3] = 0
        return work

    def getBackendName(self) -> str:  # noqa: N802
        return "wrong"


def wrong_backend(rank: int, world: int, mistake: str = "", calls: int = 1) -> None:
    inner = dist.new_group(backend="gloo")
    Wrong.mistake = mistake
    dist.Backend.register_backend("wrong", lambda *_: Wrong(inner), devices=["cpu"])
    group = dist.new_group(backend="wrong")
    torch.manual_seed(rank)
    if mistake == "scatter":
        dist.reduce_scatter_tensor(torch.empty(64), torch.randn(64 * world), op=dist.ReduceOp.AVG, group=group)
    elif mistake == "broadcast":
        dist.broadcast(torch.randn(40), 0, group=group)
    else:
        for _ in range(calls):
            dist.all_reduce(torch.randn(4096), op=dist.ReduceOp.AVG, group=group)


def skipping(rank: int, world: int) -> None:
    for turn in range(4):
        if rank != 1 or turn != 1:
            dist.all_reduce(torch.ones(10))


def another_call(rank: int, world: int) -> None:
    dist.all_reduce(torch.ones(10))
    if rank == 0:
        dist.all_reduce(torch.ones(10))
    else:
        dist.broadcast(torch.ones(10), 0)


def another_shape(rank: int, world: int) -> None:
    dist.all_reduce(torch.ones(10 + 5 * rank))


def overwriting_input(rank: int, world: int) -> None:
    torch.manual_seed(rank)
    mine = torch.randn(50)
    work = dist.all_gather([torch.empty(50) for _ in range(world)], mine, async_op=True)
    if rank == 1:
        while not work.is_completed():
            time.sleep(0.01)
        mine.zero_()
    work.wait()


def overwriting_output(rank: int, world: int, by: tuple[int, ...] = (1,)) -> None:
    torch.manual_seed(rank)
    mine = torch.randn(50)
    work = dist.all_reduce(mine, async_op=True)
    if rank in by:
        while not work.is_completed():
            time.sleep(0.01)
        mine.mul_(2)
    work.wait()


def hanging(rank: int, world: int) -> None:
    """Rank 1 is long over its data, the others wait for it, and somebody kills the run."""
    for _ in range(3):
        dist.all_reduce(torch.ones(10))
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    if rank == 1:
        loading(60)
    dist.all_reduce(torch.ones(10))


def loading(seconds: float) -> None:
    time.sleep(seconds)


def slow(rank: int, world: int) -> None:
    for _ in range(3):
        dist.all_reduce(torch.ones(10))
        loading(rank)


def killed(rank: int, world: int) -> None:
    for turn in range(5):
        dist.all_reduce(torch.randn(100))
        if turn == 3 and rank == 1:
            os._exit(9)
