"""The pytest plugin (docs/pytest.md): ``@pytest.mark.world(3)`` runs a test on three ranks, which are processes over gloo; the fixtures
``rank`` and ``world_size``; ``truestep_run``, which records a run and verifies it.

A rank is a pytest process that runs this one test. So fixtures, conftest.py, parameters and rewritten asserts work as in any test.
"""

import ctypes
import faulthandler
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .testing import Run

_VARIABLE = "TRUESTEP_WORLD"  # in the environment of a rank: what it is, in JSON
_START = 120.0  # seconds until all ranks have loaded PyTorch and joined the group; a test's own time counts from then on
_GRACE = 5.0  # seconds for the others, once a rank has failed
_FRAMES = ("/_pytest/", "/pluggy/", 'File "<string>"')  # pytest's own frames, which a traceback leaves out
# Options that a rank ignores, because the pytest that started it writes reports, distributes and chooses tests, and starts the debugger.
_NOT_ON_RANKS = ("xmlpath", "htmlpath", "report_log", "usepdb", "trace", "lf", "failedfirst", "newfirst", "stepwise", "cacheclear",
                 "numprocesses", "tx")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("truestep_timeout", "seconds that a test with the marker world may take; the marker's timeout= comes first", default="60")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "world(size, timeout=None): run the test on that many ranks, processes over torch.distributed's gloo, "
                            "and stop it after that many seconds (default: the ini option truestep_timeout)")
    world = os.environ.pop(_VARIABLE, None)
    config.pluginmanager.register(_World() if world is None else _Rank(config, json.loads(world)), "truestep_world")


@pytest.fixture(scope="session")
def rank(pytestconfig: pytest.Config) -> int:
    """This process's rank; 0 in a test without the marker world."""
    return _place(pytestconfig)[0]


@pytest.fixture(scope="session")
def world_size(pytestconfig: pytest.Config) -> int:
    """The number of ranks; 1 in a test without the marker world."""
    return _place(pytestconfig)[1]


@pytest.fixture
def truestep_run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Records one run, ``truestep_run.record(optimizer)``, for ``truestep.testing.assert_true(truestep_run)``."""
    rank, size, folder = _place(request.config)
    run = Run(request.getfixturevalue("tmp_path") if folder is None else Path(folder, "run"), rank, size)
    yield run
    if run.recorded and not run.verified:
        pytest.fail("truestep_run has recorded a run that nothing has verified; call truestep.testing.assert_true(truestep_run)", pytrace=False)


def pytest_exception_interact(node: Any) -> None:
    """A test that has failed need not verify its run."""
    run = getattr(node, "funcargs", {}).get("truestep_run")
    if isinstance(run, Run):
        run.verified = True


def _place(config: pytest.Config) -> tuple[int, int, str | None]:
    plugin = config.pluginmanager.get_plugin("truestep_world")
    return (plugin.rank, plugin.size, str(plugin.folder)) if isinstance(plugin, _Rank) else (0, 1, None)


class _World:
    """In the pytest that a person starts: runs ranks in place of the test, and fails or skips as they did."""

    def pytest_itemcollected(self, item: Any) -> None:
        if item.get_closest_marker("world") is not None and hasattr(item, "fixturenames"):
            item.fixturenames = ["tmp_path"]  # the others are made on the ranks

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> object:
        mark = pyfuncitem.get_closest_marker("world")
        if mark is None:
            return None
        size, timeout = _arguments(*mark.args, **mark.kwargs)
        if not isinstance(size, int) or size < 1:
            pytest.fail(f"the marker world: its size is {size!r}; give a number of ranks, 1 or more", pytrace=False)
        _Ranks(pyfuncitem, size, float(pyfuncitem.config.getini("truestep_timeout") if timeout is None else timeout)).run()
        return True


def _arguments(size: int, timeout: float | None = None) -> tuple[int, float | None]:
    """Of the marker."""
    return size, timeout


class _Ranks:
    """The processes of one test."""

    def __init__(self, item: Any, size: int, timeout: float) -> None:
        self._item, self._size, self._timeout, self._folder = item, size, timeout, item.funcargs["tmp_path"]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._reports: dict[int, dict[str, Any]] = {}
        self._ended: dict[int, float] = {}  # by itself, and when
        self._why = ""  # of those that have not ended by themselves
        self._through = False  # all have reported that they passed

    def run(self) -> None:
        (self._folder / "run").mkdir()
        try:
            for rank in range(self._size):
                self._start(rank)
            self._wait()
        finally:
            for process in self._processes:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # and what it has started
                except ProcessLookupError:
                    pass
                process.wait()
        for rank in range(self._size):
            output = self._read(rank, "txt")
            if output:
                print(f"---- output of rank {rank} of {self._size} ----\n{output.rstrip()}")
        self._judge()

    def _start(self, rank: int) -> None:
        config = self._item.config
        arguments = [*map(str, config.invocation_params.args), "--capture=no"]
        if config.pluginmanager.hasplugin("_cov"):
            arguments.append("--no-cov")
        world = {"node": self._item.nodeid, "path": str(self._item.path), "folder": str(self._folder), "rank": rank, "size": self._size}
        environment = {"OMP_NUM_THREADS": "1"} | os.environ | {
            _VARIABLE: json.dumps(world), "PYTHONUNBUFFERED": "1", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self._size),
            "LOCAL_WORLD_SIZE": str(self._size)}
        # With the path of this process, which is another for `pytest` than for `python -m pytest`.
        program = "import sys; sys.path[:] = sys.argv.pop(1).split(':'); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
        with open(self._folder / f"rank{rank}.txt", "wb") as output:
            self._processes.append(subprocess.Popen(
                [sys.executable, "-c", program, ":".join(sys.path), *arguments], cwd=config.invocation_params.dir, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True))

    def _wait(self) -> None:
        """Until all have ended; until all have reported, if one has failed; until the time is over, which is short once one has failed."""
        deadline, ready = time.monotonic() + _START + self._timeout, False
        self._why = f"did not end within {self._timeout:g} s, and was stopped"
        while len(self._ended) < self._size:
            time.sleep(0.02)
            now = time.monotonic()
            for rank, process in enumerate(self._processes):
                if rank not in self._ended and process.poll() is not None:
                    self._ended[rank] = now
                if rank not in self._reports and (self._folder / f"rank{rank}.json").exists():
                    self._reports[rank] = json.loads(self._read(rank, "json"))
            failed = any(map(self._failed, range(self._size)))
            if len(self._reports) == self._size and not self._through:
                if failed:
                    return
                self._through, deadline, self._why = True, now + _START, "did not exit, and was stopped"
            elif not ready and all((self._folder / f"rank{rank}.ready").exists() for rank in range(self._size)):
                ready, deadline = True, now + self._timeout
            elif failed and deadline > now + _GRACE:
                deadline, self._why = now + _GRACE, f"was stopped {_GRACE:g} s after another rank had failed"
            if now > deadline:
                for rank in set(range(self._size)) - set(self._ended):
                    if (self._folder / f"rank{rank}.trace").exists():
                        os.kill(self._processes[rank].pid, signal.SIGUSR1)  # writes where it is
                time.sleep(0.5)
                return

    def _failed(self, rank: int) -> bool:
        return self._reports[rank]["outcome"] != "passed" if rank in self._reports else rank in self._ended

    def _read(self, rank: int, kind: str) -> str:
        path = self._folder / f"rank{rank}.{kind}"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _judge(self) -> None:
        reports = list(self._reports.values())
        if len(reports) == self._size and all(report["outcome"] == "skipped" for report in reports):
            pytest.skip(reports[0]["head"].removeprefix("Skipped: "))
        found: dict[tuple[str, str], list[int]] = {}  # ranks with the same message share it; the first to fail comes first
        for _, rank, head, text in sorted(filter(None, map(self._failure, range(self._size)))):
            found.setdefault((head, text), []).append(rank)
        if found:
            pytest.fail("\n\n".join(f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, sorted(ranks)))} of {self._size} {head}\n{text}".rstrip()
                                    for (head, text), ranks in found.items()), pytrace=False)

    def _failure(self, rank: int) -> tuple[float, int, str, str] | None:
        report, status = self._reports.get(rank), self._processes[rank].returncode
        if report is not None and report["outcome"] != "passed":
            return report["time"], rank, f"{report['outcome']}: {report['head']}", report["text"]
        before = "" if report is None else "passed, and then "
        if rank not in self._ended:
            waits = report is not None and not self._through  # for a rank that has failed
            return None if waits else (float("inf"), rank, before + self._why, self._trace(rank))
        if report is not None and status == 0:
            return None
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status} and without a report"
        return self._ended[rank], rank, before + how, self._trace(rank)

    def _trace(self, rank: int) -> str:
        return "\n".join(line for line in self._read(rank, "trace").splitlines() if not any(part in line for part in _FRAMES))


class _Rank:
    """In the process of a rank: runs the one test inside the process group, and reports."""

    def __init__(self, config: pytest.Config, world: dict[str, Any]) -> None:
        self.rank, self.size, self.folder, self._node = world["rank"], world["size"], Path(world["folder"]), world["node"]
        self._report = {"outcome": "passed", "head": "", "text": ""}
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no rank outlives the pytest that started it
        for name in _NOT_ON_RANKS:
            if hasattr(config.option, name):
                setattr(config.option, name, None)
        config.option.dist, config.option.runxfail = "no", True
        if config.option.tbstyle == "auto":
            config.option.tbstyle = "short"  # several ranks' tracebacks, often deep in PyTorch
        config.option.basetemp = str(self.folder / f"rank{self.rank}")
        config.args = [world["path"]]
        config.pluginmanager.set_blocked("terminalreporter")  # its output is what the test prints

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        chosen = [item for item in items if item.nodeid == self._node]
        yield
        items[:] = chosen  # even where -k or another plugin has deselected it
        if not chosen and self._report["outcome"] == "passed":
            self._write("failed", "the test was not collected on this rank; its name has to be the same in each process")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("failed", "the test could not be collected on this rank", report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        import torch.distributed as dist

        self._trace_file = open(self.folder / f"rank{self.rank}.trace", "w", encoding="utf-8")
        faulthandler.enable(self._trace_file)
        faulthandler.register(signal.SIGUSR1, self._trace_file)
        dist.init_process_group("gloo", init_method=f"file://{self.folder}/store", rank=self.rank, world_size=self.size)
        (self.folder / f"rank{self.rank}.ready").touch()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._report["outcome"] == "passed" and not report.passed:
            crash = getattr(report.longrepr, "reprcrash", None)
            head = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else crash.message if crash else report.longreprtext)
            place = "" if report.when == "call" else f"in {report.when}, "
            self._report = {"outcome": report.outcome, "head": place + head.splitlines()[0], "text": report.longreprtext}
        if report.when == "teardown":
            self._write(**self._report)

    def _write(self, outcome: str, head: str, text: str = "") -> None:
        self._report = {"outcome": outcome, "head": head, "text": text}
        path = self.folder / f"rank{self.rank}.json"
        path.with_suffix(".partial").write_text(json.dumps(self._report | {"time": time.monotonic()}), encoding="utf-8")
        path.with_suffix(".partial").replace(path)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """The group is left when all ranks are through, so that none loses what another has sent. They are stopped if one is not."""
        while not all((self.folder / f"rank{rank}.json").exists() for rank in range(self.size)):
            time.sleep(0.01)
        if "torch" in sys.modules:
            import torch.distributed as dist
            gc.collect()  # DistributedDataParallel and its hooks, before the interpreter ends under gloo's threads
            if dist.is_initialized():
                dist.destroy_process_group()
