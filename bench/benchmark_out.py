#!/usr/bin/env python3
"""What every benchmark writes for others to read, for the scripts: Google Benchmark's JSON (bench/benchmark_out.hpp is the same for programs).

Usage: bench/benchmark_out.py OUT FILE...     the rows of several such files in one, with the context of the first
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys


def add_option(parser):
    parser.add_argument("--benchmark_out", metavar="FILE", help="also write the rows as Google Benchmark's JSON to this file (bench/README.md)")


def context():
    """Of a script. Google's own keys, and the commit and processor as programs write them."""
    commit = "unknown"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        commit = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "describe", "--always", "--dirty", "--abbrev=12"], check=True,
                                capture_output=True, text=True).stdout.strip()
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"), "host_name": platform.node(), "executable": sys.argv[0],
            "num_cpus": os.cpu_count(), "caches": [], "library_build_type": "release", "commit": commit, "compiler": platform.python_compiler(),
            "processor": model.group(1) if model else platform.machine(), "MPI": "none", "python": platform.python_version()}


def row(name, seconds, cpu_seconds=None, **counters):
    """A row of the times of each iteration. Processor time is that of one iteration; without it, it is the time itself."""
    median = statistics.median(seconds)
    return {"name": name, "run_name": name, "run_type": "iteration", "repetitions": 1, "repetition_index": 0, "threads": 1, "iterations": len(seconds),
            "real_time": median * 1e3, "cpu_time": (median if cpu_seconds is None else cpu_seconds) * 1e3, "time_unit": "ms",
            "tenth_seconds": sorted(seconds)[round(0.1 * (len(seconds) - 1))], **counters}


def write(path, rows, more=None):
    """Does nothing without a path."""
    if path:
        document = {"context": context() | (more or {}), "benchmarks": [{"family_index": number} | one for number, one in enumerate(rows)]}
        pathlib.Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(path):
    """The file's object. Raises ValueError with one line."""
    try:
        document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        for one in document["benchmarks"]:
            float(one["real_time"]), one["name"], one["time_unit"]
        document["context"]["date"]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is not Google Benchmark's JSON; give a file of --benchmark_out") from None
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    try:
        documents = [read(path) for path in options.files]
        rows = [one for document in documents for one in document["benchmarks"]]
        pathlib.Path(options.out).write_text(json.dumps({"context": documents[0]["context"], "benchmarks": rows}, indent=1) + "\n", encoding="utf-8")
    except (ValueError, OSError) as error:
        print(f"benchmark_out.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
