"""What truestep.torch.watch writes of real process groups, and what the tool finds in it: nothing in a right run, and each kind of mistake."""

import functools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path
from typing import Any

import needs

needs.torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
from truestep import _torch_watch  # noqa: E402

TOOL = os.environ.get("TRUESTEP_TOOL", "")
RECORDER = hasattr(getattr(torch._C, "_distributed_c10d", None), "FlightRecorderHook")  # PyTorch's, of gloo's collectives
HOOKS = hasattr(dist.ProcessGroup, "register_pre_hook")
if not TOOL or not hasattr(os, "fork"):
    needs.skip("no TRUESTEP_TOOL, or no fork")
if not hasattr(dist.distributed_c10d, "_register_process_group"):
    try:
        truestep.torch.watch("x")
        sys.exit("an old PyTorch is watched")
    except truestep.Error as error:
        assert "take PyTorch 2.1 or newer" in str(error), error
    needs.skip(f"PyTorch {torch.__version__} is older than 2.1, and is refused; ci/torch makes an environment that will do")
import watched_ranks  # noqa: E402
from watched_runs import (  # noqa: E402
    another_call, another_shape, averaging_by_future, data_parallel, data_parallel_watched, every_operation, fully_shard, hanging, killed, overwriting_input,
    overwriting_output, sharded, skipping, slow, wrong_backend)


class OfOneRank(unittest.TestCase):
    """What a file holds, and what is refused."""

    def test_the_sample_is_that_of_the_tool(self) -> None:  # recording_test.cpp has the same figures
        self.assertEqual(_torch_watch.sampled(6400, 1000, 7).tolist()[:5], FIGURES)
        self.assertEqual(_torch_watch.sampled(7, 1, 7).tolist(), list(range(7)))

    def test_what_cannot_be_is_told(self) -> None:
        for options, text in (({"every": 0}, "every is 0"), ({"sample": 0}, "sample is 0"), ({"sample": 2}, "sample is 2"),
                              ({"model": [3]}, "parameter 0, which is int"), ({"hang": -1}, "hang is -1")):
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
    def test_one_rank_holds(self) -> None:
        self.holds(data_parallel, 1, sample=1)
        self.holds(functools.partial(sharded, folder=self.folder), 1, watched=False)

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
        self.assertIn("watched_runs.py:", found["details"][0])
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
        self.assertRegex("".join(found["details"]), "rank 0: .*watched_runs.py:[0-9]+ another_call.*rank 1: .*watched_runs.py:[0-9]+ another_call")
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

    def test_a_hang_is_found_with_who_waits_and_who_is_missing(self) -> None:
        with unittest.mock.patch.dict(os.environ, TORCH_FR_BUFFER_SIZE="100"):
            found = self.finds(hanging, "hang", "it has not ended: rank 1 has not called it", world=3, fails=True, hang=0.4)
        self.assertEqual(found["where"], "call 3 of rank 0, all-reduce SUM of float32[10] over ranks 0, 1, 2")
        self.assertEqual(found["ranks"], [1])
        for rank, detail in zip((0, 2), found["details"]):
            self.assertRegex(detail, rf"^rank {rank}: .*watched_runs.py:[0-9]+ hanging.*, waits for [01]\.[0-9] s$")
        self.assertRegex(found["details"][2], r"^rank 1: .*watched_runs.py:[0-9]+ loading, from .*watched_runs.py:[0-9]+ hanging.*"
                         r"in no collective for [01]\.[0-9] s; its last was call 2, all-reduce SUM of float32\[10\]$")
        flights = found["details"][3:]
        if RECORDER:
            self.assertRegex(flights[0], r"recorder of rank 0: gloo:all_reduce 4 of 0/default_pg, scheduled, not retired \(run.rank.collectives.flight0\)$")
            self.assertRegex(flights[1], r"rank 1: gloo:all_reduce 3 of 0/default_pg, scheduled, retired ")
            self.assertEqual(len(list(Path(self.folder).glob("run.rank.collectives.flight[0-2]"))), 3)

    def test_a_run_that_is_killed_before_its_hang_is_reported_shows_it_in_a_note(self) -> None:
        text = self.told(self.watched(hanging, 2, fails=True, hang=0), 0)
        self.assertRegex(text, r"rank0.collectives has no end: .*; it was in call 3, all-reduce SUM of float32\[10\], which rank 1 has not called\n")

    def test_a_slow_rank_is_no_hang(self) -> None:
        files = self.watched(slow, 2, hang=0.3)
        self.assertIn(b'{"hang":', Path(files[0]).read_bytes())
        self.assertIn("hold: all of 3 collectives", self.told(files, 0))

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
