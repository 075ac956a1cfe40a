"""Builds ci/mutate's mutants and runs their judges."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from tools import mutate_operators as operators

GATE = "mutation_gate"
PACKAGE = "package"  # as an implementation: Python's package, which the gate drives through C
# As in test_gate.py; MAPL's rows and properties are many.
OF_PACKAGE = {"scape": ["--tensors", "a:13,b:5:dense", "--cases", "20"], "gasloc": ["--cases", "20"], "mapl": ["--cases", "3"]}
# The time is for failures that shrink slowly; a brief run that it ends leaves the verdict to the others.
BRIEF = ["--cases", "3", "--workers", "3", "--density", "0.1", "--timeout", "20", "--time-budget", "10"]
MOST_MEMORY, MOST_FILE = 16 << 20, 2 << 20  # kilobytes; blocks of 512 bytes
# ctest starts the tests of these targets: under mpirun (a second MPI has another program, which is not built here), or with what they read.
BY_CTEST = {"mpi_test": "^distributed\\.mpi_(test|faults)$", "mpi_peers_test": "^distributed\\.mpi_peers_([0-9]+|faults)$",
            "abi_test": "^abi_test\\.all$",
            "truestep_abi": "^python\\.(scape|bad_values|timeline|parts|using_up|gasloc|mapl|mapl_codewords|recording|refused)$"}


class Trouble(Exception):
    """The work cannot be done."""


class Stopped(Exception):
    """The user has interrupted the work."""


# --- trees of its own

class Processes:
    """The running programs, so that all of them can be ended, and no others."""

    def __init__(self):
        self.running, self.lock, self.stopped = set(), threading.Lock(), False

    def run(self, command, limit, folder, environment=None, until=None):
        """The exit status, None after a timeout, and the output. A process that prints `until` is ended, and its status is "stopped"."""
        with tempfile.TemporaryFile() as output:
            with self.lock:
                if self.stopped:
                    raise Stopped
                process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                           start_new_session=True, env={**os.environ, **(environment or {})})
                self.running.add(process)

            def said():
                return os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace")
            try:
                end = time.monotonic() + limit
                while (status := self.wait(process, 0.2)) is None and time.monotonic() < end:
                    if until and until in said():
                        status = "stopped"
                        break
                if process.poll() is None:
                    self.end(process, signal.SIGTERM)  # mpirun has to end its ranks, and the gate to write what it has found
                    self.wait(process, 10)
            finally:
                self.end(process)
                process.wait()
                with self.lock:
                    self.running.discard(process)
            with self.lock:
                if self.stopped:
                    raise Stopped
            return status, said()

    @staticmethod
    def wait(process, seconds):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    @staticmethod
    def end(process, how=signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            pass

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                self.end(process)


class Tree:
    """A copy of the sources with its own build, and a copy of that build to return to."""

    def __init__(self, root, folder, processes, configure):
        self.root, self.folder, self.processes, self.configure = root, folder, processes, configure
        # The build stands where that of a preset does, beside the sources: what ccache knows of theirs it knows of this. Mutants go
        # through it as well, or the objects of tests, which hold their files' names, would differ by the way that they were named.
        self.environment = {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1", "CCACHE_IGNOREOPTIONS": "-w"}
        self.sources, self.build = folder, folder / "build/mutant"
        self.kept, self.mark = folder / "build/kept", folder / "build/mutated"
        # Tests sync their checkpoints to disk, which costs nothing in memory. Two trees have two names.
        self.scratch = pathlib.Path("/dev/shm", f"truestep{folder}".replace("/", "-"))
        if not os.access("/dev/shm", os.W_OK):
            self.scratch = folder / "build/scratch"

    def prepare(self, files, targets):
        self.scratch.mkdir(parents=True, exist_ok=True)
        if self.mark.exists():  # it was killed in the midst of a mutant
            shutil.rmtree(self.build, ignore_errors=True)
            self.mark.unlink()
        here = {str(path.relative_to(self.sources)) for path in self.sources.rglob("*") if path.is_file()}
        for name in here - set(files):
            if not name.startswith("build/"):
                (self.sources / name).unlink()
        for name in files:
            copy = self.sources / name
            if not copy.exists() or copy.read_bytes() != (self.root / name).read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / name, copy)
        for command in (["cmake", "-S", ".", "-B", "build/mutant", *self.configure], ["cmake", "--build", "build/mutant", "--target", *targets]):
            status, said = self.processes.run(command, 3600, self.folder, self.environment)
            if status != 0:
                raise Trouble(f"{' '.join(command)} in {self.folder}: failed\n" + "\n".join(said.splitlines()[-20:]))
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(self.build, self.kept, symlinks=True)

    def make(self, target, limit=600):
        status, said = self.processes.run(["ninja", "-C", "build/mutant", target], limit, self.folder, self.environment)
        return status == 0, said

    def python(self):
        """The interpreter of the tests of Python."""
        _, said = self.processes.run(["ctest", "--test-dir", "build/mutant", "--show-only=json-v1", "-R", "^python.gate$"], 60, self.folder)
        return json.loads(said)["tests"][0]["command"][0]

    def changed(self):
        """Build files that differ from the stored ones."""
        for folder, _, names in os.walk(self.kept):
            for name in names:
                kept = pathlib.Path(folder, name)
                now = self.build / kept.relative_to(self.kept)
                if not now.exists() or now.stat().st_mtime_ns != kept.stat().st_mtime_ns:
                    yield kept, now

    def differs(self):
        """Whether any object has other code now, and whether any was rebuilt at all."""
        objects = [(kept, now) for kept, now in self.changed() if kept.suffix == ".o"]
        return any(kept.read_bytes() != now.read_bytes() for kept, now in objects), bool(objects)

    def compiles(self, mutant):
        """Whether the compiler sees the place at all: no program contains an @."""
        at = mutant.edits[0][0]
        (self.sources / mutant.file).write_text(self.original[:at] + "@" + self.original[at:])
        return not self.make(GATE)[0]

    def put(self, mutant):
        path = self.sources / mutant.file
        content, times = path.read_text(), path.stat()
        self.original = content
        self.mark.touch()
        path.write_text(operators.apply(content, mutant.edits))

        def undo():
            path.write_text(content)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for kept, now in list(self.changed()):
                shutil.copy2(kept, now)
            shutil.rmtree(self.scratch)
            self.scratch.mkdir()
            self.mark.unlink()
        return undo


# --- the judges

def ended(status):
    return status if status == "stopped" else signal.Signals(-status).name if status < 0 else f"ended with {status}"


class Judge:
    """`usual`: each judge's time without a mutant. It may take six times as long and `least` seconds more."""

    def __init__(self, tree, usual, least):
        self.tree, self.usual, self.least = tree, usual, least

    def commands(self, area):
        """Whether the judge is the gate, its name, target and command. The last word of a command names no tree, for its time is
        known by it, and is measured in one."""
        build = self.tree.build

        def gate_of(system):
            return [str(build / "bin" / GATE), *([system] if system else []), "--brief", "--json", str(build / "results.json")]
        gate = gate_of(area.system)
        under_mpi = [str(self.tree.root / "ci/ranks"), "4"] if area.mpi else []
        chosen = [word for name in area.implementations for word in ("--implementation", name)]
        if area.also:
            yield True, area.also, GATE, [*under_mpi, *gate_of(area.also), "--communicator", "mpi" if area.mpi else "in_process"]
        if area.mpi:
            yield True, "mpi", GATE, [*under_mpi, *gate, "--communicator", "mpi", "--cases", "2"]
        elif area.implementations == [PACKAGE]:
            program = f"'{self.tree.python()}' '{self.tree.folder}/bindings/python/tests/gate_recorded.py'"
            yield True, "package", "truestep_abi", [*gate, *OF_PACKAGE[area.system], "--program", program, "--level", "exact"]
        elif area.system:
            yield True, "gate", GATE, gate + chosen
        elif chosen:
            yield True, "brief", GATE, gate + BRIEF + chosen
            for name in area.implementations:
                yield True, name, GATE, [*gate, "--implementation", name]
        for name in area.tests:
            by_ctest = ["ctest", "--test-dir", str(build), "--no-tests=error", "-R", BY_CTEST.get(name)]
            yield False, name, name, by_ctest if name in BY_CTEST else [str(build / "bin" / name), "--gtest_color=no"]

    def run(self, command, limit, until=None):
        results = self.tree.build / "results.json"
        results.unlink(missing_ok=True)
        # A mutant may ask for any memory and write any file; neither is to hurt the machine.
        limited = ["sh", "-c", f'ulimit -v {MOST_MEMORY} && ulimit -f {MOST_FILE} && exec "$@"', "sh", *command]
        return self.tree.processes.run(limited, limit, self.tree.folder, {
            "TMPDIR": str(self.tree.scratch), "TRUESTEP_LIBRARY": str(self.tree.build / "bindings/c/libtruestep.so"),
            "PYTHONPATH": str(self.tree.folder / "bindings/python"), "PYTHONDONTWRITEBYTECODE": "1"}, until)

    def measure(self, area):
        for is_gate, name, _, command in self.commands(area):
            if self.key(area, is_gate, name, command) in self.usual:
                continue
            begin = time.monotonic()
            status, said = self.run(command, 1800)
            if status != 0:
                raise Trouble(f"{name} does not pass as the tree is: {' '.join(command)}\n" + "\n".join(said.splitlines()[-20:]))
            self.usual[self.key(area, is_gate, name, command)] = time.monotonic() - begin

    @staticmethod
    def key(area, is_gate, name, command):
        """Of `usual`. A unit test takes as long for any area."""
        return area.system if is_gate else None, name, command[-1]

    def judge(self, mutant, area):
        undo = self.tree.put(mutant)
        result = self.state(mutant, area)
        undo()  # not where it was stopped: a compiler may still be writing then, and the mark has all be built anew next time
        return result

    def state(self, mutant, area):
        if "avx512" in mutant.file and "avx512_bitalg" not in pathlib.Path("/proc/cpuinfo").read_text():
            return "not compiled here", "and could not run: this processor lacks a part of AVX-512"
        built, _ = self.tree.make(GATE)
        if not built:
            return "does not build", ""
        differs, _ = self.tree.differs()
        commands = list(self.commands(area))
        if not differs:  # a header may be of the tests alone
            commands = [judge for judge in commands if judge[2] != GATE]
            for _, _, target, _ in commands:
                self.tree.make(target)
            differs, anew = self.tree.differs()
            if not anew or not (differs or self.tree.compiles(mutant)):
                return "not compiled here", ""
            if not differs:
                return "equivalent", "same result: the same object code"
        for is_gate, name, target, command in commands:
            if target != GATE:
                built, _ = self.tree.make(target)
                if not built:
                    return "killed by unit tests only", f"{target} does not build"
            limit = self.least + 6 * self.usual[self.key(area, is_gate, name, command)]
            if is_gate:
                status, said = self.run(command, limit, until="  to repeat it:\n")
                if status is None:
                    return "timed out", f"{name}, after {limit:.0f} s"
                if status != 0:
                    return "killed by the gate", self.property_that_failed(name, status, said)
            elif killer := self.test_that_failed(name, command, limit):
                return "killed by unit tests only", killer
        return "survived", ""

    def property_that_failed(self, name, status, said):
        try:
            document = json.loads((self.tree.build / "results.json").read_text())
        except (OSError, ValueError):
            if status == "stopped":
                found = re.search(r"  to repeat it:.*?--property ([\w.]+)|$", said, re.DOTALL)[1]
                return f"{found}, {name}"
            running = re.findall(r"--property ([\w.]+)", said)
            return f"{running[-1] if running else 'the matrix'}, {name}: {ended(status)}"
        failed = [row for row in document["properties"] + document["rows"] if row["status"] not in ("PASSED", "SKIPPED")]
        names = list(dict.fromkeys(row.get("property", "the matrix") for row in failed))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{names[0]}{more}, {name}" if names else f"{name}: {ended(status)}"

    def test_that_failed(self, name, command, limit):
        """The failed test, or "". A test that depends on the machine's load may fail without the mutant,
        too; then the others decide."""
        without = []
        while True:
            status, said = self.run(command + (["--gtest_filter=-" + ":".join(without)] if without else []), limit)
            if status == 0:
                return ""
            failed = re.findall(r"\[  FAILED  \] ([\w./]+)", said)
            if not failed:
                begun = re.findall(r"\[ RUN      \] ([\w./]+)|- ([\w.]+) \(", said)
                return f"{name}: {'timed out' if status is None else ended(status)}" + (f" in {''.join(begun[-1])}" if begun else "")
            unchanged = [str(self.tree.kept / "bin" / name), "--gtest_filter=" + failed[0]]
            if failed[0] in without or all(self.run(unchanged, limit)[0] == 0 for _ in range(2)):
                return f"{name}: {failed[0]}"
            without.append(failed[0])
