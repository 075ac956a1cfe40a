#!/usr/bin/env python3
"""`truestep train` with ranks as processes: the bits of the one with threads, a divergence that all agree on, checkpoints, one of whose ranks is killed in between, errors in one line.
Usage: train_mpi_test.py CI/RANKS TOOL"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS, TOOL = sys.argv[1:]
OPTIONS = {"text": "synthetic:1,symbols=9,kinds=3,successors=3,learned=4000,measured=2000", "context": 16, "width": 16, "layers": 1, "heads": 2, "batch": 2,
           "steps": 24, "measure-every": 8}


def words(**changes):
    options = OPTIONS | {name.replace("_", "-"): value for name, value in changes.items()}
    listed = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return ["train", *listed, "--optimizer", "adams", "scape:0.1", "diloco:5", "gasloc:5"]


def threads(ranks=3, **changes):
    return [TOOL, *words(ranks=ranks, **changes)]


def processes(ranks=3, **changes):
    return [RANKS, str(ranks), TOOL, *words(communicator="mpi", **changes)]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def curves(folder, command):
    written = pathlib.Path(folder) / "curves"
    done = run([*command, "--json", str(written)])
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(written.read_text())
    assert done.stdout.count("floors counting reaches") == 1, done.stdout  # one rank speaks
    return told["curves"], told["plan"]


def ranks_of(folder):
    """The processes of a run that keeps its checkpoints there, without what has started them."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if command[0] == f"{TOOL}-train".encode() and str(folder).encode() in command:
            found.append(int(process.name))
    return found


def kill_in_between(folder, command, file):
    """One rank, without a word, once that file is there."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        until = time.monotonic() + 240
        while not file.exists() and job.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        ranks = ranks_of(folder)
        assert len(ranks) == 3 and file.exists(), (ranks, job.poll())
        os.kill(ranks[1], signal.SIGKILL)
        job.communicate(timeout=120)
        assert job.returncode != 0


def check_checkpoints(folder):
    long = {"steps": 600, "measure_every": 100}
    expected = curves(folder, threads(**long))[0]
    kept = {**long, "checkpoints": folder / "kept", "checkpoint_every": 25}
    # In the midst of the second of four runs; and again, in the midst of the last.
    for optimizer in ("scape:0.1", "gasloc:5"):
        kill_in_between(folder / "kept", processes(**kept), folder / "kept" / f"{optimizer}.seed-1.safetensors")
    begun = folder / "begun"
    shutil.copytree(folder / "kept", begun)
    written = (folder / "kept" / "adams.seed-1.safetensors").stat().st_mtime_ns
    assert curves(folder, processes(**kept))[0] == expected
    assert (folder / "kept" / "adams.seed-1.safetensors").stat().st_mtime_ns == written  # what has ended is not done again
    # Threads have the same bits, and the same file; another number of ranks has not.
    assert curves(folder, threads(**{**kept, "checkpoints": begun}))[0] == expected
    for command in (processes(ranks=2, **kept), threads(ranks=2, **kept)):
        refused = run(command)
        assert refused.returncode == 2 and refused.stderr.count("ranks is 2 here and 3 there") == 1, refused
    damaged = begun / "adams.seed-1.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    refused = run(processes(**{**kept, "checkpoints": begun}))
    said = [line for line in refused.stderr.split("\n") if line.startswith("truestep: ")]
    assert refused.returncode == 2 and len(said) == 1 and "adams.seed-1.safetensors" in said[0], refused


def main():
    with tempfile.TemporaryDirectory() as folder:
        expected, plan = curves(folder, threads())
        found, plan_there = curves(folder, processes())
        assert expected == found, (expected, found)
        assert plan == plan_there, (plan, plan_there)
        assert len(found) == 4 and all(len(curve["points"]) > 3 for curve in found)
        assert curves(folder, threads(2))[0][1] != found[1]  # ranks are counted
        far = {"learning_rate": 10, "weight_decay": 1, "steps": 60}
        both, alone = curves(folder, processes(**far))[0], curves(folder, threads(**far))[0]
        assert both == alone and both[0]["points"][-1]["loss"] is None, both
    with tempfile.TemporaryDirectory() as folder:
        check_checkpoints(pathlib.Path(folder))
    refused = run(processes(batch=0))
    assert refused.returncode == 2 and refused.stderr.count("the batch is 0") == 1, refused
    lost = run(processes(json="/there/is/none"))
    assert lost.returncode != 0 and "/there/is/none: the result could not be written" in lost.stderr, lost


main()
