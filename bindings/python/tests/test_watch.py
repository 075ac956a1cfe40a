"""What truestep.torch.watch writes of real process groups, and what the tool finds in it: nothing in a right run, and each kind of mistake."""

import functools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import needs

needs.torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from truestep import _torch_watch  # noqa: E402

TOOL = os.environ.get("TRUESTEP_TOOL", "")
HOOKS = hasattr(dist.ProcessGroup, "register_pre_hook")
if not TOOL or not hasattr(os, "fork"):
    needs.skip("no TRUESTEP_TOOL, or no fork")
try:
    import torch._dynamo  # noqa: E402, F401 - which each rank would load for itself
    import torch.distributed._functional_collectives as functional  # noqa: E402
    from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
except ImportError:
    fully_shard = None
import watched_ranks  # noqa: E402


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
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("copies", "shards")) if hybrid else init_device_mesh("cpu", (world,))
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


def killed(rank: int, world: int) -> None:
    for turn in range(5):
        dist.all_reduce(torch.randn(100))
        if turn == 3 and rank == 1:
            os._exit(9)


class OfOneRank(unittest.TestCase):
    """What a file holds, and what is refused."""

    def test_the_sample_is_that_of_the_tool(self) -> None:  # recording_test.cpp has the same figures
        self.assertEqual(_torch_watch.sampled(6400, 1000, 7).tolist()[:5], FIGURES)
        self.assertEqual(_torch_watch.sampled(7, 1, 7).tolist(), list(range(7)))

    def test_what_cannot_be_is_told(self) -> None:
        for options, text in (({"every": 0}, "every is 0"), ({"sample": 0}, "sample is 0"), ({"sample": 2}, "sample is 2"),
                              ({"model": [3]}, "parameter 0, which is int")):
            with self.assertRaisesRegex(truestep.Error, text):
                truestep.torch.watch("x", **options)
        with truestep.torch.watch("x"), self.assertRaisesRegex(truestep.Error, "watched already"):
            truestep.torch.watch("x")
        self.assertEqual(type(vars(dist.ProcessGroup)["allreduce"]).__name__, "instancemethod")  # nothing is left behind


class OfRanks(unittest.TestCase):
    """Real processes over gloo."""

    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = kept.name

    def watched(self, body: Any, world: int = 2, fails: bool = False, **options: Any) -> list[str]:
        statuses = watched_ranks.run(body, world, self.folder, **options)
        if not fails:
            self.assertEqual(statuses, [0] * world, "".join(path.read_text() for path in Path(self.folder).glob("error*")))
        return [f"{self.folder}/run.rank{rank}.collectives" for rank in range(world)]

    def told(self, files: list[str], status: int) -> str:
        done = subprocess.run([TOOL, "collectives", *files, "--json", f"{self.folder}/result.json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def holds(self, body: Any, world: int, **options: Any) -> str:
        text = self.told(self.watched(body, world, **options), 0)
        self.assertNotIn("note:", text)
        return text

    def finds(self, body: Any, kind: str, text: str, world: int = 2, fails: bool = False, **options: Any) -> dict[str, Any]:
        said = self.told(self.watched(body, world, fails, **options), 1)
        found = json.loads(Path(self.folder, "result.json").read_text())["findings"]
        self.assertEqual(found[0]["kind"], kind, said)
        self.assertIn(text, said)
        return found[0]

    def test_every_operation_holds(self) -> None:
        for world in (1, 2, 3, 4):
            for options in ({"sample": 1}, {"sample": 0.2}) if world == 3 else ({"sample": 1},):
                text = self.holds(every_operation, world, **options)
        self.assertRegex(text, "all-to-all of a tensor bfloat16 +2 +2\n")

    def test_every_operation_holds_without_hooks(self) -> None:
        text = self.told(self.watched(every_operation, 3, sample=1, hooks=False), 0)
        self.assertIn("was watched without hooks: what C++ calls by itself", text)

    def test_a_future_that_is_waited_for_is_seen(self) -> None:
        self.assertRegex(self.holds(averaging_by_future, 3), "all-reduce float32 +2 +2  AVG" if HOOKS else "all-reduce float32 +1 +1  AVG")

    def test_the_check_in_the_run_itself(self) -> None:
        self.holds(functools.partial(data_parallel, dtype=torch.bfloat16), 3, online=2)
        self.holds(every_operation, 3, online=7)
        statuses = watched_ranks.run(functools.partial(wrong_backend, mistake="numel", calls=3), 2, self.folder, online=1)
        self.assertEqual(statuses, [1, 1])
        for rank in range(2):
            self.assertIn("it was divided by 4096, the number of values", Path(self.folder, f"error.rank{rank}").read_text())

    def test_data_parallel_runs_hold(self) -> None:
        for world in (2, 3):
            for options in ({}, {"dtype": torch.bfloat16}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
                text = self.holds(functools.partial(data_parallel, **options), world, sample=1)
                if HOOKS:
                    self.assertRegex(text, "all-reduce (float32|bfloat16) +[0-9]+ ")
            self.told(self.watched(functools.partial(data_parallel_watched, folder=self.folder), world, watched=False), 0)

    @unittest.skipIf(fully_shard is None, "no FSDP2")
    def test_sharded_runs_hold(self) -> None:
        for world in (2, 3, 4):
            for dtype in (torch.float32, torch.bfloat16):
                body = functools.partial(sharded, dtype=dtype, hybrid=world == 4, folder=self.folder)
                text = self.holds(body, world, watched=False)
                self.assertIn("reduce-scatter " + str(dtype).removeprefix("torch."), text)

    def test_values_are_taken_of_one_call_in_so_many(self) -> None:
        text = self.told(self.watched(data_parallel, 2, every=4, sample=0.1), 0)
        self.assertRegex(text, r"one value of 10 in each sum; .*1-\(1-s\)\^k: 1: 10 %, 100: 100 %")
        records = Path(self.folder, "run.rank0.collectives").read_bytes()
        self.assertEqual([n for n in range(records.count(b'"call"')) if _torch_watch.mix64(n) % 4 == 0], [
            json.loads(line)["call"] for line in records.split(b"\n") if line.startswith(b'{"call"') and b'"in":' in line])

    def test_an_average_that_is_something_else_is_named(self) -> None:
        text = "AVG was called, and the result is "
        found = self.finds(functools.partial(wrong_backend, mistake="sum"), "op", text + "the sum of what the ranks gave")
        self.assertIn("test_watch.py:", found["details"][0])
        found = self.finds(functools.partial(wrong_backend, mistake="numel"), "op", "it was divided by 4096, the number of values, and the ranks are 2")
        self.assertAlmostEqual(found["factor"] * 4096, 1, places=4)
        self.finds(functools.partial(wrong_backend, mistake="twice"), "op", "it was divided by 2 times the number of ranks", world=3)
        self.finds(functools.partial(wrong_backend, mistake="scatter"), "op", text + "the sum of what the ranks gave", world=3)
        self.holds(functools.partial(wrong_backend, mistake="none"), 2)

    def test_a_value_that_no_order_gives_is_found(self) -> None:
        found = self.finds(functools.partial(wrong_backend, mistake="value"), "value", "no order gives it", world=3, sample=1)
        self.assertEqual(found["index"], 17)
        self.assertGreater(abs(found["found"] - found["expected"]), found["bound"])

    def test_a_copy_that_differs_is_found(self) -> None:
        found = self.finds(functools.partial(wrong_backend, mistake="copy"), "copy", "the result of rank 1 differs from the others'", world=3, sample=1)
        self.assertEqual((found["index"], found["ranks"]), (17, [1]))
        found = self.finds(functools.partial(wrong_backend, mistake="broadcast"), "moved", "rank 1 has not what rank 0 gave", sample=1)
        self.assertEqual((found["index"], found["found"]), (3, 0))
        # Fingerprints are of all values, whatever the sample is.
        self.finds(functools.partial(wrong_backend, mistake="copy"), "copy", "the result of rank 1 differs", world=3, sample=0.001)

    def test_ranks_that_do_not_call_the_same_are_found(self) -> None:
        found = self.finds(skipping, "order", "rank 1 has ended without it", fails=True)
        self.assertIn("skipping", "".join(found["details"]))
        found = self.finds(another_call, "order", "rank 1 calls broadcast of float32[10], root 0 there", fails=True)
        self.assertEqual(len(found["details"]), 2)
        self.assertRegex("".join(found["details"]), "rank 0: .*test_watch.py:[0-9]+ another_call.*rank 1: .*test_watch.py:[0-9]+ another_call")
        self.finds(another_shape, "order", "rank 1 calls all-reduce SUM of float32[15] there", fails=True)

    def test_memory_that_is_overwritten_is_found(self) -> None:
        found = self.finds(overwriting_input, "overwritten", "its input on rank 1 was overwritten before the work was waited for")
        self.assertEqual(found["ranks"], [1])
        self.finds(overwriting_output, "overwritten", "the result of rank 1 differs from the others'; it was written to before the work was waited for")
        found = self.finds(functools.partial(overwriting_output, by=(0, 1)), "overwritten", "the result is the sum times 2", sample=1)
        self.assertEqual(found["details"][0], "ranks 0, 1 wrote to the tensor before the work was waited for")

    def test_a_gradient_that_is_never_reduced_is_found(self) -> None:
        body = functools.partial(data_parallel_watched, ignored="2.bias", folder=self.folder)
        found = self.finds(body, "gradient", "step 1, gradient of 2.bias\n       it was never reduced over ranks 0, 1, 2", world=3, watched=False)
        self.assertEqual(found["ranks"], [0, 1, 2])

    def test_what_a_killed_run_left_is_checked(self) -> None:
        text = self.told(self.watched(killed, 2, fails=True), 0)
        self.assertIn("rank1.collectives has no end", text)
        self.assertIn("hold: all of 4 collectives", text)
        files = [f"{self.folder}/run.rank{rank}.collectives" for rank in range(2)]
        done = subprocess.run([sys.executable, "-m", "truestep", "collectives", *files], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, text))  # the package's command is the tool's

    def test_the_page_shows_what_its_example_gives(self) -> None:
        page = [line[4:] for line in (Path(__file__).parents[3] / "docs/collectives.md").read_text().splitlines() if line.startswith("    ") or not line]
        command = page.index("$ truestep collectives run.rank*.collectives")
        begin = next(i for i, line in enumerate(page) if line.startswith("import torch"))
        program = compile("\n".join(page[begin:command]), "train.py", "exec")

        def example(rank: int, world: int) -> None:
            dist.destroy_process_group()
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            os.chdir(self.folder)
            exec(program, {})

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        said = re.sub(", from .*test_watch.py.*", "", self.told(self.watched(example, watched=False), 1)).splitlines()
        shown = page[command + 1:command + 1 + len(said)]
        if HOOKS:
            self.assertEqual(said, [line.replace("2.15.0+cu132", torch.__version__) for line in shown])

    def test_bad_input_is_told_in_a_line(self) -> None:
        files = self.watched(killed, 2, fails=True)
        head, rest = Path(files[1]).read_bytes().split(b"\n", 1)
        for change, text in ((head.replace(b'"version":"1"', b'"version":"2"'), "version is '2', and this tool reads version 1"),
                             (head.replace(b'"run":"', b'"run":"other'), "another run than"), (head.replace(b'"world":2', b'"world":3'), "its ranks are 3, not 2"),
                             (b"{", "record 1")):
            Path(files[1]).write_bytes(change + b"\n" + rest)
            said = self.told(files, 2)
            self.assertIn(text, said)
            self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("rank 1 of 2 is missing; give the files of all ranks", self.told(files[:1], 2))
        self.assertIn("as ", self.told([files[0], files[0]], 2))


FIGURES = [90, 165, 246, 367, 456]

if __name__ == "__main__":
    unittest.main()
