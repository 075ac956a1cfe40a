"""The gate and the speed of a step as ReFrame tests: `reframe -C SETTINGS -c truestep_checks.py -r`, or ci/reframe on this machine.

Adapt `references` to your systems and partitions; settings.py has this machine and a cluster with SLURM. TRUESTEP_BIN names the folder of the
programs, which all nodes see; default: build/release/bin of the source tree."""

import json
import os
import pathlib

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable

BIN = pathlib.Path(os.environ.get("TRUESTEP_BIN") or pathlib.Path(__file__).resolve().parents[3] / "build/release/bin")


class OnRanks(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 2
    num_tasks_per_node = 2
    time_limit = "15m"

    @run_before("run")
    def protocol(self):
        if self.current_partition.launcher_type.registered_name == "srun":
            self.job.launcher.options = ["--mpi=pmix"]


@rfm.simple_test
class Gate(OnRanks):
    """Every property in small cases, ranks as processes: it passes, or ReFrame shows the counterexample."""
    descr = "truestep check --communicator mpi"
    algorithm = parameter(["scape", "gasloc"])
    cases = variable(int, value=2)

    @run_before("run")
    def command(self):
        self.executable = str(BIN / "truestep")
        self.executable_opts = ["check", self.algorithm, "--communicator", "mpi", "--workers", f"1,{self.num_tasks}", "--implementation", "host",
                                "--cases", str(self.cases), "--brief", "--json", "results.json"]

    @sanity_function
    def passed(self):  # the scheduler squeue knows no exit status
        return sn.all([sn.assert_in(self.job.exitcode, (0, None)), sn.assert_found(r"^[1-9]\d* passed, 0 failed", self.stdout)])


class Measured(OnRanks):
    """Reads what the program has written with --benchmark_out."""
    references = {}

    @run_before("run")
    def command(self):
        self.executable = str(BIN / self.program)
        self.executable_opts = [*self.options, "--benchmark_out=rows.json"]

    @sanity_function
    def has_rows(self):
        return sn.all([sn.assert_in(self.job.exitcode, (0, None)), sn.assert_true(sn.defer(self.rows()))])

    def rows(self):
        return json.loads((pathlib.Path(self.stagedir) / "rows.json").read_text(encoding="utf-8"))["benchmarks"]

    @run_before("performance")
    def figures(self):
        self.perf_variables = {}
        for row in self.rows():
            for counter in self.counters:
                if counter in row:  # a colon would name a system
                    self.perf_variables[f"{row['name'].replace(':', '=')} {counter}"] = sn.make_performance_function(sn.defer(row[counter]), "1")
        # A share of what this machine can do is worth comparing; a time of another machine is not.
        self.reference = {where: {name: limits[counter] for name in self.perf_variables for counter in limits if name.endswith(f" {counter}")}
                          for where, limits in self.references.items()}


@rfm.simple_test
class MpiStep(Measured):
    descr = "bench_mpi_step: a whole step, beside a copy of its bytes"
    program = "bench_mpi_step"
    options = ["--benchmark_filter=/d:1048576/", "--benchmark_min_time=0.1"]
    counters = ["share_of_copy"]
    # Value, how far below and above it may be as shares, unit.
    references = {"*": {"share_of_copy": (0.1, -0.99, None, "1")}}


@rfm.simple_test
class Peers(Measured):
    descr = "bench_peers: SCAPE and dense AdamS, beside their limit"
    program = "bench_peers"
    options = ["--communicator", "mpi", "--size", "1048576", "--steps", "9", "--peers", "dense,scape:0.01"]
    counters = ["share_of_limit", "speed_up_over_dense"]
    references = {"*": {"share_of_limit": (0.1, -0.99, None, "1"), "speed_up_over_dense": (1.0, -0.9, None, "1")}}
