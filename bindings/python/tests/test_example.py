"""The examples that are shown, docs/examples/train_*.py and verify_ddp.py, run: traces are EXACT, for the package and the tool, the pipeline
learns, and an optimizer behind DDP gets its verdict, a wrong one too."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import needs

needs.torch()
import torch  # noqa: E402

import truestep  # noqa: E402

ROOT = Path(__file__).parents[3]
EXAMPLES = {"train_scape.py": "bindings/python/README.md", "train_gasloc.py": "bindings/python/README.md"}  # and who shows them
PIPELINE = {"train_mapl.py": "bindings/python/README.md"}  # two stages, and no trace
# These raise where they are wrong: the mistakes that are made in them, and what is said first.
PLAIN = ("type('Plain', (torch.optim.{},), {{'step': lambda self: [p.data.add_(p.grad, alpha=-group['lr']) for group in self.param_groups for p in "
         "group['params']]}})([")
CHECKED = {
    "check_adamw.py": {"AdamW that is plain SGD": (
        "torch.optim.AdamW(ddp.named_parameters()", PLAIN.format("AdamW")[:-1] + "ddp.named_parameters()",
        "update, .*every value agrees with plain SGD, lr 0.01: this optimizer is not the AdamW that it claims to be")},
    "check_muon.py": {"Muon that is plain SGD": (
        "torch.optim.Muon([", PLAIN.format("Muon"), "momentum, .*every value agrees with plain SGD in group 0, .*: this optimizer is not the Muon and AdamW"),
        "no clipping": ("torch.nn.utils.clip_grad_norm_(ddp.parameters(), 0.1)", "pass", "clip, .*every value agrees with no clipping")}}
VERDICT = {"verify_ddp.py": "bindings/python/README.md"}  # somebody's optimizer, which the example itself holds against the reference
SHARDED = {"verify_fsdp.py": "docs/recording.md"}  # the same under FSDP2
# What may be wrong in that script, and the first phase that then differs.
MISTAKES = {
    "the sum in place of the mean": ("recorder.comm_hook()", "recorder.comm_hook(lambda _, bucket: dist.all_reduce(bucket.buffer(), async_op=True)"
                                     ".get_future().then(lambda done: done.value()[0]))", "exchange"),
    "another beta2 than was said": ("betas=(0.9, 0.95)", "betas=(0.9, 0.999)", "update"),
    "AdamW in place of AdamS": ('state["exp_avg_sq"] = state["exp_avg"].square()', "pass", "update")}


class Example(unittest.TestCase):
    def test_they_are_what_is_shown(self) -> None:
        for name, shown in (EXAMPLES | PIPELINE | {"check_adamw.py": "README.md"} | VERDICT | SHARDED).items():
            text = (ROOT / "docs/examples" / name).read_text(encoding="utf-8")
            self.assertLess(len(text.splitlines()), 30 if name in PIPELINE else 19)
            self.assertIn(textwrap.indent(text, "    ", lambda line: bool(line.strip())), (ROOT / shown).read_text(encoding="utf-8"))

    def test_they_run_and_are_exact(self) -> None:
        for name in EXAMPLES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.start(3, str(ROOT / "docs/examples" / name), folder)
                result = truestep.verify(f"{folder}/run.safetensors")
                self.assertTrue(result.passed, result.text)
                tool = os.environ.get("TRUESTEP_TOOL", "")
                if os.path.exists(tool):
                    verified = subprocess.run([tool, "verify", f"{folder}/run.safetensors"], text=True, capture_output=True, timeout=300)
                    self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_the_pipeline_learns(self) -> None:
        for name in PIPELINE:
            with tempfile.TemporaryDirectory() as folder:
                [loss] = re.findall(r"^loss ([0-9.]+),", self.start(2, str(ROOT / "docs/examples" / name), folder), re.MULTILINE)
                self.assertLess(float(loss), 2.0)

    @unittest.skipUnless(hasattr(torch.optim, "Muon"), "this torch.optim has no Muon")
    def test_three_lines_around_optimizers(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, mistakes in CHECKED.items():
                text = (ROOT / "docs/examples" / name).read_text(encoding="utf-8")
                self.assertRegex(self.start(3, str(ROOT / "docs/examples" / name), folder), r"(?m)^PASSED  /.*run\.rank\*\.safetensors$")
                for mistake, (right, wrong, verdict) in mistakes.items():
                    with self.subTest(mistake):
                        self.assertEqual(text.count(right), 1)
                        Path(folder, "wrong.py").write_text(text.replace(right, wrong), encoding="utf-8")
                        told = self.start(3, f"{folder}/wrong.py", folder, status=1)
                        self.assertRegex(told, rf"(?s)First divergence: step 1, phase {verdict}")
                        if name == "check_adamw.py":
                            self.assert_shown(told, (ROOT / "README.md").read_text(encoding="utf-8"))

    def test_the_verdict_on_an_optimizer_behind_ddp(self) -> None:
        for name in VERDICT:
            program = ROOT / "docs/examples" / name
            with tempfile.TemporaryDirectory() as folder:
                self.assertRegex(self.start(3, str(program), folder), r"(?m)^PASSED  run\.safetensors$")
                for mistake, (right, wrong, phase) in MISTAKES.items():
                    with self.subTest(mistake):
                        text = program.read_text(encoding="utf-8")
                        self.assertEqual(text.count(right), 1)
                        Path(folder, "wrong.py").write_text(text.replace(right, wrong), encoding="utf-8")
                        told = self.start(3, f"{folder}/wrong.py", folder)
                        self.assertRegex(told, r"(?m)^FAILED  run\.safetensors$")
                        self.assertRegex(told, rf"(?m)^ +first divergence: step \d+, phase {phase}, ")
                        if phase == "exchange":
                            self.assert_shown(told, (ROOT / VERDICT[name]).read_text(encoding="utf-8"))

    @unittest.skipIf(not needs.fsdp2(), "no FSDP2")
    def test_the_verdict_on_a_sharded_model(self) -> None:
        for name in SHARDED:
            program = ROOT / "docs/examples" / name
            with tempfile.TemporaryDirectory() as folder:
                self.start(3, str(program), folder)
                result = truestep.verify(f"{folder}/run.rank*.safetensors", level="rel")
                self.assertTrue(result.passed, result.text)
                Path(folder, "wrong.py").write_text(program.read_text(encoding="utf-8").replace("betas=(0.9, 0.95)", "betas=(0.9, 0.999)"), encoding="utf-8")
                self.start(3, f"{folder}/wrong.py", folder)
                found = truestep.verify(f"{folder}/run.rank*.safetensors", level="rel").first_divergence
                self.assertEqual((found["step"], found["phase"], found["tensor"]), (2, "update", "0.weight"))

    def assert_shown(self, told: str, page: str) -> None:
        """What the page shows below its command is printed, in that order, whatever the figures are."""
        masked = [re.sub(r"\d+", "#", line) for line in told.splitlines()]
        shown = page.partition("    $ torchrun ")[2].partition("\n\n")[0].splitlines()[1:]
        at = [masked.index(re.sub(r"\d+", "#", line[4:])) for line in shown if line.strip() != "..."]
        self.assertGreater(len(at), 2)
        self.assertEqual(at, sorted(at))

    def start(self, ranks: int, program: str, folder: str, status: int = 0) -> str:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        if int(torch.__version__.split(".")[0]) >= 2:
            commands = [([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks), program], environment)]
        else:  # whose torchrun does not start under Python 3.11; it would set these
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            commands = [([sys.executable, program], environment | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                                                                   "MASTER_PORT": str(port)}) for rank in range(ranks)]
        started = [subprocess.Popen(command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                   for command, variables in commands]
        told = ""
        for process in started:
            said, _ = process.communicate(timeout=300)
            self.assertEqual(process.returncode, status, said)
            told += said
        return told


if __name__ == "__main__":
    unittest.main()
