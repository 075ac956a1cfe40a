"""Runs whose parameters (FSDP2) or optimizer state (ZeroRedundancyOptimizer) are spread over ranks, recorded, fingerprinted and verified."""

import datetime
import functools
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import needs

needs.torch()
import torch  # noqa: E402
import truestep  # noqa: E402

TOOL = os.environ.get("TRUESTEP_TOOL", "")
if not TOOL or not hasattr(os, "fork"):
    needs.skip("no TRUESTEP_TOOL, or no fork")
import sharded_runs  # noqa: E402
import watched_ranks  # noqa: E402

watched_ranks.TIMEOUT = datetime.timedelta(seconds=120)  # no run here waits on purpose
from sharded_runs import claim_refusals, claimed, drawn, fully_shard, placements, prints, refusals, sharded, zero, zero_refusals  # noqa: E402


class Spread(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = kept.name

    def run_ranks(self, body: Any, world: int, **options: Any) -> None:
        statuses = watched_ranks.run(functools.partial(body, folder=self.folder, **options), world, self.folder, watched=False)
        self.assertEqual(statuses, [0] * world, "".join(path.read_text() for path in Path(self.folder).glob("error*")))

    def verdict(self, name: str = "run.rank*.safetensors") -> Any:
        return truestep.verify(f"{self.folder}/{name}", level="rel")

    def holds(self, body: Any, world: int, **options: Any) -> None:
        self.run_ranks(body, world, **options)
        result = self.verdict()
        self.assertTrue(result.passed, f"{world} {options}\n{result}")
        if world > 1:
            self.assertIn(f"compared on all {world} ranks", str(result))

    def told(self, files: list[str], status: int, other: str = "") -> str:
        arguments = [f"{self.folder}/{name}" for name in files] + (["--with", f"{self.folder}/{other}"] if other else [])
        done = subprocess.run([TOOL, "fingerprints", *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout


@unittest.skipIf(fully_shard is None, "no FSDP2")
class Sharded(Spread):
    def test_every_placement_has_the_fingerprint_of_the_whole(self) -> None:
        for world in (1, 3, 4):
            self.run_ranks(placements, world)

    def test_one_rank_is_true(self) -> None:
        for options in ({}, {"parts": 2}, {"own": False, "bf16": "reduction"}):
            self.holds(sharded, 1, **options)
        self.run_ranks(prints, 1)

    def test_a_right_run_is_true(self) -> None:
        for world in (2, 3):
            self.holds(sharded, world)
            self.holds(sharded, world, own=False, bf16="reduction")
        self.holds(sharded, 2, reshard=False)
        self.holds(sharded, 2, bf16="parameters")
        self.holds(sharded, 2, parts=3)
        self.holds(sharded, 3, own=False)
        self.holds(sharded, 4, hybrid=True)

    def test_a_part_of_a_run_and_a_gathered_one(self) -> None:
        self.holds(sharded, 3, start=2, sample=["0.bias", "2.weight"])
        self.run_ranks(sharded, 2, path=False)
        self.assertTrue(self.verdict("run.safetensors").passed)

    def test_a_sum_in_place_of_the_mean_is_found(self) -> None:
        self.run_ranks(sharded, 2, mistake="sum")
        found = self.verdict().first_divergence
        self.assertEqual((found["step"], found["tensor"]), (1, "0.weight"), found)

    def test_a_gradient_that_one_rank_changes_is_found(self) -> None:
        self.run_ranks(sharded, 3, mistake="gradient")
        found = self.verdict().first_divergence  # rank 1 has rows 3 to 5 of 7
        self.assertEqual((found["step"], found["tensor"], found["index"]), (2, "0.weight", 33), found)

    def test_copies_that_part_are_found(self) -> None:
        self.run_ranks(sharded, 4, hybrid=True, mistake="drift")
        result = self.verdict()
        found = result.first_divergence
        self.assertEqual((found["step"], found["tensor"], found["result"]), (3, "2.weight", "parameters"), result)

    def test_fingerprints_of_shards_are_those_of_the_whole(self) -> None:
        self.run_ranks(prints, 1, plain=True, name="plain")
        for world, options in ((1, {}), (3, {}), (4, {"hybrid": True}), (2, {"reshard": False})):
            self.run_ranks(prints, world, **options)
            files = [f"run.rank{rank}.prints" for rank in range(world)]
            if world > 1:
                self.told(files, 0)
            self.told(files, 0, "plain.rank0.prints")
        self.run_ranks(prints, 4, hybrid=True, mistake="drift")
        text = self.told([f"run.rank{rank}.prints" for rank in range(4)], 1)
        self.assertIn("DIFFER, first at step 3, parameters of rank", text)
        self.assertIn("tensor 2.weight", text)

    def test_what_cannot_be_recorded_is_told(self) -> None:
        self.run_ranks(refusals, 2)


@unittest.skipIf(fully_shard is None, "no FSDP2")
class Claimed(Spread):
    """The three lines of truestep.torch.checking."""

    def test_right_runs_are_true(self) -> None:
        for world, seeds in {1: range(2), 2: range(10, 14), 3: range(20, 23), 4: range(30, 33)}.items():
            self.run_ranks(drawn, world, seeds=seeds)
        self.run_ranks(claimed, 3, probe=True)

    def test_mistakes_are_named(self) -> None:
        told = r"(?s)not true at level REL!\s+First divergence: step "
        for world, text, options in ((3, r"1, phase mean, mean .*tensor 0\.weight", {"mistake": "sum"}),
                                     (2, r"1, phase mean, mean .*tensor 0\.weight", {"mistake": "unreduced", "kind": "SGD"}),
                                     (3, r"1, phase clip, clipped", {"mistake": "local norm", "clip": 0.1}),
                                     (3, r"1, phase update, parameters .*tensor 0\.weight, index 42", {"mistake": "update"}),
                                     (2, r"2, phase update, parameters .*tensor 0\.weight", {"mistake": "shards", "kind": "Muon"}),
                                     (4, r"3, phase update, parameters .*tensor 2\.weight", {"mistake": "drift", "hybrid": True})):
            with self.subTest(options):
                self.run_ranks(claimed, world, text=told + text, **options)

    def test_what_cannot_be_claimed_is_told(self) -> None:
        self.run_ranks(claim_refusals, 2)


class Redundant(Spread):
    def test_a_right_run_is_true(self) -> None:
        for world in (1, 2, 3):
            self.holds(zero, world)
            if world > 1:
                self.told([f"run.rank{rank}.prints" for rank in range(world)], 0)
        self.holds(zero, 3, warm=2)

    def test_what_cannot_be_recorded_is_told_on_all_ranks(self) -> None:
        self.run_ranks(zero_refusals, 2)

    def test_what_reaches_no_other_rank_is_found(self) -> None:
        self.run_ranks(zero, 3, mistake="alone")
        result = self.verdict()
        self.assertEqual((result.first_divergence["step"], result.first_divergence["result"]), (2, "parameters"), result)
        self.assertIn("DIFFER, first at step 2, parameters", self.told([f"run.rank{rank}.prints" for rank in range(3)], 1))

    def test_another_gradient_is_found(self) -> None:
        self.run_ranks(zero, 2, mistake="gradient")
        self.assertEqual(self.verdict().first_divergence["step"], 2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
