#!/usr/bin/env python3
"""`scape train` with ranks as processes: the bits of the one with threads, a divergence that all agree on, errors in one line.
Usage: train_mpi_test.py CI/RANKS SCAPE"""

import json
import pathlib
import subprocess
import sys
import tempfile

RANKS, SCAPE = sys.argv[1:]
OPTIONS = {"text": "synthetic:1,symbols=9,kinds=3,successors=3,learned=4000,measured=2000", "context": 16, "width": 16, "layers": 1, "heads": 2, "batch": 2,
           "steps": 24, "measure-every": 8}


def words(**changes):
    options = OPTIONS | {name.replace("_", "-"): value for name, value in changes.items()}
    listed = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return ["train", *listed, "--optimizer", "adams", "scape:0.1", "diloco:5", "gasloc:5"]


def threads(ranks=3, **changes):
    return [SCAPE, *words(ranks=ranks, **changes)]


def processes(**changes):
    return [RANKS, "3", SCAPE, *words(communicator="mpi", **changes)]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def curves(folder, command):
    written = pathlib.Path(folder) / "curves"
    done = run([*command, "--json", str(written)])
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(written.read_text())
    assert done.stdout.count("floors counting reaches") == 1, done.stdout  # one rank speaks
    return told["curves"], told["plan"]


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
    refused = run(processes(batch=0))
    assert refused.returncode == 2 and refused.stderr.count("the batch is 0") == 1, refused
    refused = run(processes(checkpoints="none"))
    assert refused.returncode == 2 and "keep no checkpoints yet" in refused.stderr, refused
    lost = run(processes(json="/there/is/none"))
    assert lost.returncode != 0 and "cannot write /there/is/none" in lost.stderr, lost


main()
