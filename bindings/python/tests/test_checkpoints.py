"""truestep.checkpoints compares checkpoints that are sharded differently, and a check begins from one."""

import datetime
import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import needs

needs.torch()
import torch  # noqa: E402
import truestep  # noqa: E402
from truestep import checkpoints  # noqa: E402

SHARDS = hasattr(os, "fork") and needs.fsdp2()
if SHARDS:
    import torch._dynamo  # noqa: F401
    import watched_ranks
    from checkpoint_runs import resharded, saved

    watched_ranks.TIMEOUT = datetime.timedelta(seconds=120)  # no run here waits on purpose


def safetensors(folder: Path, files: dict[str, dict[str, torch.Tensor]]) -> None:
    """Files with an index, as they are published."""
    folder.mkdir()
    kinds = {torch.float32: "F32", torch.bfloat16: "BF16"}
    for file, tensors in files.items():
        head, data = {}, b""
        for name, tensor in tensors.items():
            values = tensor.contiguous().view(torch.uint8).numpy().tobytes()
            head[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        text = json.dumps(head).encode()
        (folder / file).write_bytes(len(text).to_bytes(8, "little") + text + data)
    places = {name: file for file, tensors in files.items() for name in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


class Checkpoints(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = kept.name

    def differences(self, a: str, b: str) -> list[str]:
        return checkpoints.differences(f"{self.folder}/{a}", f"{self.folder}/{b}")


@unittest.skipUnless(SHARDS, f"PyTorch {torch.__version__} has no FSDP2 and its checkpoints, or there is no fork")
class Sharded(Checkpoints):
    def run_ranks(self, body: Any, world: int, **options: Any) -> None:
        statuses = watched_ranks.run(functools.partial(body, folder=self.folder, **options), world, self.folder, watched=False)
        self.assertEqual(statuses, [0] * world, "".join(path.read_text() for path in Path(self.folder).glob("error*")))

    def test_a_check_begins_from_a_checkpoint_of_other_ranks(self) -> None:
        self.run_ranks(saved, 2, name="two")
        for world in (1, 3):
            self.run_ranks(saved, world, name=f"again{world}", begin="two")
            result = truestep.verify(f"{self.folder}/run.rank*.safetensors", level="rel")
            self.assertTrue(result.passed, result.text)
            self.assertIn("the trace begins after step 2", result.text)
        self.run_ranks(saved, 3, name="loaded", begin="two", steps=0)
        self.assertEqual(self.differences("two", "loaded"), [])
        self.assertTrue(any(line.startswith("model.0.weight: 70 of 70 values differ") for line in self.differences("two", "again3")))

    def test_a_shard_that_counts_as_the_whole_is_found(self) -> None:
        self.run_ranks(resharded, 2, name="right2")
        self.run_ranks(resharded, 3, name="right3")
        self.assertEqual(self.differences("right2", "right3"), [])
        self.run_ranks(resharded, 2, name="wrong", dropped=True)
        (line,) = self.differences("right2", "wrong")
        self.assertRegex(line, r"^optimizer.exp_avg: 18 of 36 values differ, first at \[0, 3\]: ")


class Files(Checkpoints):
    def test_safetensors_with_an_index(self) -> None:
        torch.manual_seed(1)
        values = {"a": torch.randn(5, 3), "b": torch.randn(4).bfloat16()}
        safetensors(Path(self.folder, "one"), {"model.safetensors": values})
        safetensors(Path(self.folder, "two"), {"model-1.safetensors": {"b": values["b"]}, "model-2.safetensors": {"a": values["a"]}})
        self.assertEqual(self.differences("one", "two"), [])
        self.assertEqual(self.differences("one", "two/model.safetensors.index.json"), [])
        other = values["a"].clone()
        other[2, 1] += 1
        safetensors(Path(self.folder, "other"), {"model.safetensors": {"a": other}})
        said = subprocess.run([sys.executable, "-m", "truestep.checkpoints", f"{self.folder}/one", f"{self.folder}/other"], capture_output=True, text=True)
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertRegex(said.stdout, r"^b: it is only in .*/one\na: 1 of 15 values differ, first at \[2, 1\]: ")

    def test_truestep_diff_hands_checkpoints_over(self) -> None:
        for name, last in ("one", 3.0), ("two", 4.0):
            safetensors(Path(self.folder, name), {"model.safetensors": {"a": torch.tensor([[1.0, 2.0, last]])}})
        one, two = f"{self.folder}/one", f"{self.folder}/two/model.safetensors"
        for a, b, status, text in ((one, two, 1, "a: 1 of 3 values differ, first at [0, 2]: 3.0 and 4.0\n"), (one, one, 0, "the same in every bit\n"),
                                   (one, f"{self.folder}/none", 2, f"truestep.checkpoints: {self.folder}/none: there is no checkpoint")):
            said = subprocess.run([sys.executable, "-m", "truestep", "diff", a, b], capture_output=True, text=True)
            self.assertEqual((said.returncode, (said.stdout + said.stderr).startswith(text)), (status, True), said)
        tool = os.environ.get("TRUESTEP_TOOL", "")
        if tool:
            said = subprocess.run([tool, "diff", one, two], capture_output=True, text=True)
            self.assertEqual((said.returncode, said.stderr.count("\n")), (2, 1))
            self.assertIn(f"python -m truestep.checkpoints {one} {two}", said.stderr)

    def test_what_is_no_checkpoint_is_told(self) -> None:
        safetensors(Path(self.folder, "one"), {"model.safetensors": {"a": torch.zeros(3)}})
        safetensors(Path(self.folder, "two"), {"model.safetensors": {"b": torch.zeros(3)}})
        file = Path(self.folder, "one/model.safetensors")
        Path(self.folder, "short.safetensors").write_bytes(file.read_bytes()[:-4])
        Path(self.folder, "text").write_text("no tensors")
        Path(self.folder, "short").write_bytes(file.read_bytes().replace(b"[3]", b"[4]"))
        Path(self.folder, "folder").mkdir()
        Path(self.folder, "folder/.metadata").write_text("no pickle")
        Path(self.folder, "two/model.safetensors.index.json").write_text('{"weight_map": {"c": "model.safetensors"}}')
        for a, b, text in (("one", "none", "there is no checkpoint"), ("one", "text", "is no safetensors file"), ("one", "short", "a of shape .4. is in bytes 0 to 12"),
                           ("folder", "one", "cannot (be )?read (by|a folder of) torch.distributed.checkpoint"), ("one", "two", "places c in model.safetensors, which"),
                           ("one", "two/model.safetensors", "has no tensor of the same name"), ("one", "short.safetensors", "goes beyond the end")):
            with self.assertRaisesRegex(truestep.Error, text):
                self.differences(a, b)


if __name__ == "__main__":
    unittest.main()
