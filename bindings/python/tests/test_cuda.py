"""What holds on the CPU holds of tensors on a CUDA device: tests of the other files, run anew with TRUESTEP_TEST_DEVICE=cuda. Ranks share the device over
gloo; a rank alone has NCCL."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import needs

needs.torch()
import torch  # noqa: E402
import truestep.torch  # noqa: E402

if not torch.cuda.is_available():
    needs.skip(f"torch {torch.__version__} sees no CUDA device")


class OnTheDevice(unittest.TestCase):
    def again(self, name: str, *tests: str) -> None:
        done = subprocess.run([sys.executable, str(Path(__file__).with_name(name)), *tests], env=os.environ | {"TRUESTEP_TEST_DEVICE": "cuda"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^OK$")  # nothing was skipped

    def test_optimizers_that_are_checked(self) -> None:
        self.again("test_checking.py", "OneProcess.test_a_right_run_passes_and_leaves_nothing", "OneProcess.test_a_wrong_optimizer_is_named",
                   "OneProcess.test_a_run_that_goes_on", "Ranks.test_each_rank_is_judged_by_its_own_number_of_micro_batches")

    def test_collectives(self) -> None:
        self.again("test_watch.py", "OfRanks.test_a_gradient_that_is_never_reduced_is_found")

    @unittest.skipUnless(hasattr(torch.distributed.ProcessGroup, "register_pre_hook"), "this PyTorch shows no collective that C++ calls")
    def test_collectives_of_wrappers(self) -> None:
        self.again("test_watch.py", "OfRanks.test_data_parallel_runs_hold", "OfRanks.test_one_rank_holds")

    def test_sharded_parameters(self) -> None:
        self.again("test_sharded.py", "Sharded.test_one_rank_is_true")

    def test_fingerprints_are_those_of_the_host(self) -> None:
        torch.manual_seed(7)
        for values in (torch.randn(100_003), torch.randn(513).to(torch.bfloat16), torch.randn(40, 30).t(), torch.randn(9).half(), torch.randn(50)[::3]):
            for begin in (0, 17):
                self.assertEqual(truestep.torch.fingerprint(values.cuda(), begin), truestep.torch.fingerprint(values, begin))

    def test_what_steps_on_the_cpu_refuses_a_device(self) -> None:
        for kind, options in ((truestep.torch.Scape, {"density": 0.1}), (truestep.torch.GASLoC, {"inner_steps": 1})):
            with self.assertRaisesRegex(truestep.Error, "is on cuda:0; truestep.torch.[A-Za-z]+ steps on the CPU: keep the parameters there"):
                kind(torch.nn.Linear(3, 2).cuda().parameters(), lr=0.1, **options)

    def test_work_on_a_stream_of_its_own_is_waited_for(self) -> None:
        """Gradients that come late, on another stream than the default one, are those that are recorded."""
        parameter = torch.nn.Parameter(torch.zeros(1 << 20, device="cuda"))
        optimizer = torch.optim.SGD([("late", parameter)], lr=0.5)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), truestep.torch.checking(optimizer) as checked:
            for step in range(3):
                torch.cuda._sleep(20_000_000)
                optimizer.zero_grad()
                (parameter * (step + 1.0)).sum().backward()
                optimizer.step()
        self.assertTrue(checked.result.passed)


if __name__ == "__main__":
    unittest.main()
