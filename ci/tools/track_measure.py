"""What ci/track measures: programs over Google Benchmark, and what they print."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import benchmark_out  # noqa: E402

# Which rows of which program are tracked: small ones, so that all of it takes minutes.
TRACKED = {
    "bench_kernels": r"^(((local_pass|local_pass_watching|select|fold|mask_encode|mask_decode|update)/d:4194304/.*density:100)|"
                     r"((local_pass|local_pass_watching|mask_decode|update)/d:4194304/.*density:10/))",
    "bench_step": r"^(sharded_step|whole_step|whole_step_using_up)/d:1048576/P:(1|2)/1/density:100",
    "bench_storage": r"^checkpoint_(write|read)/d:1048576/",
    "bench_verifier": r"^(verify_exact|verify_rel)/d:100000/|^cases/reference",
}
# Whole steps beside their limit.
PEERS = "bench_peers"
PEER_ROWS = {f"peers/{peer}/d:1048576/P:2": peer for peer in ("dense", "adamw", "scape:0.01", "scape:0.1")}
PROGRAMS = [*TRACKED, PEERS]
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def plain(name):
    """"fold/d:8/iterations:201/manual_time" without the suffixes about timing."""
    return re.sub(r"/(iterations:\d+|repeats:\d+|min_time:[\d.]+|manual_time|real_time|process_time)\b", "", name)


class Refused(Exception):
    """Wrong usage, or impossible work: one line."""


def let_be_interrupted():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)


def run(command, **settings):
    """The command's output. The command ends when this process does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # or it could start, and we not know it
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, preexec_fn=let_be_interrupted, **settings)
    except BaseException:
        let_be_interrupted()
        raise
    try:
        let_be_interrupted()
        output, errors = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
        raise
    if process.returncode != 0:
        last = ([line for line in errors.splitlines() + output.splitlines() if line.strip()] or ["no output"])
        told = next((line for line in last if "error" in line.lower() or "fatal" in line.lower()), last[0])
        raise Refused(f"{' '.join(map(str, command[:3]))} failed with {process.returncode}: {told.strip()}")
    return output


class Side:
    """One of the two compared sides: programs, and their outputs."""

    def __init__(self, programs, environment=None):
        self.programs = pathlib.Path(programs)
        self.environment = dict(os.environ, **(environment or {}))
        self.environment.pop("TMPDIR", None)  # or there would be a disk in the figures
        self.tenth = {}  # seconds of an iteration, of each row one a run: its quickest tenth, where the program says so
        self.mean = {}
        self.share = {}
        self.goal = {}  # the least share that the program wants, where it states one

    def rows(self, program):
        """Names used for the comparison, each with the program's own."""
        if not (self.programs / program).exists():
            return {}
        if program == PEERS:  # of before it wrote what others read: its rows are new in the working tree
            return {name: name for name in PEER_ROWS} if "--benchmark_out" in run([self.programs / program, "--help"]) else {}
        names = run([self.programs / program, "--benchmark_list_tests", f"--benchmark_filter={TRACKED[program]}"],
                    env=self.environment).split()
        return {plain(name): name for name in names}

    def command_of(self, program, rows):
        """What measures the rows. Peers are over no library, and take turns in one run; their time is wall time, since ranks are threads."""
        if program == PEERS:
            return [self.programs / program, "--size", "1048576", "--ranks", "2", "--steps", "25", "--warm-up", "25", "--peers",
                    ",".join(PEER_ROWS[name] for name in rows)]
        wanted = "|".join(row.replace(".", "[.]") for row in rows.values())
        return [self.programs / program, "--benchmark_min_time=0.1", f"--benchmark_filter=^({wanted})$"]

    def measure(self, program, rows):
        with tempfile.TemporaryDirectory() as folder:
            figures = pathlib.Path(folder, "figures.json")
            run([*self.command_of(program, rows), f"--benchmark_out={figures}"], env=self.environment)
            try:
                results = benchmark_out.read(figures)["benchmarks"]
            except ValueError as error:
                raise Refused(f"{program}: {error}") from None
        for row in results:
            if row.get("error_occurred"):
                raise Refused(f"{program}: {row['name']}: {row['error_message']}")
            name = plain(row["name"])
            self.mean.setdefault(name, []).append(row["real_time"] * SECONDS[row["time_unit"]])
            if "tenth_seconds" in row:
                self.tenth.setdefault(name, []).append(row["tenth_seconds"])
            for of in ("floor", "copy", "limit"):
                if f"share_of_{of}" in row:
                    self.share.setdefault(name, (of, []))[1].append(row[f"share_of_{of}"])
                    break
            if "goal_share" in row:
                self.goal[name] = row["goal_share"]


def seconds_of(name, *sides):
    """The same figure for all sides: the quickest tenth if all have it, else the mean."""
    tenths = all(name in side.tenth for side in sides)
    return [side.tenth[name] if tenths else side.mean[name] for side in sides]
