#!/usr/bin/env python3
"""What README and docs show of the tool's output is what it prints.

Runs the commands of the listings that begin with `$ `, each page's in one folder, and looks for the lines below them in what
they print: one after the other from the first on, but for `...`, which stands for any lines. What a listing shows may go on.

Usage: ci/transcripts_test.py TOOL [PAGE...]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/tutorial.md", "docs/recording.md", "docs/using-the-gate.md", "docs/using-the-tool.md", "docs/what-may-be-wrong.md")

# What is not run here, by what its command line has in it.
NOT_RUN = {
    "cmake ": "it builds a project; ci/consumer-test does",
    "at_home/at_home": "it is built by that",
    "truestep planted": "it takes minutes; ci/planted-test holds its table",
    "truestep fingerprints": "its files are of runs with PyTorch",
    "ci/check": "it builds; ci/check_sample.py compares it",
    "torchrun": "it needs PyTorch; bindings/python/tests/test_example.py runs it",
}


def listings(page):
    """The indented blocks of a page that begin with a command, without their indentation."""
    block = []
    for line in [*page.splitlines(), "end"]:
        if line.startswith("    ") or (not line.strip() and block):
            block.append(line[4:].rstrip())
        else:
            if block and block[0].startswith("$ "):
                while not block[-1]:
                    block.pop()
                yield block
            block = []


def is_command(line):
    """The gate prints commands, too: with a seed or a case."""
    return line.startswith("$ ") and not re.search(r" --(seed|case) ", line)


def sessions(listing):
    """Each command of a listing with the lines below it."""
    found = []
    for line in listing:
        if is_command(line):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def missing(shown, printed):
    """The first line shown that is not printed where it should be; None: all are."""
    at, anywhere = 0, False
    for line in shown:
        if line.strip() == "...":
            anywhere = True
            continue
        found = printed.index(line, at) if line in printed[at:] else None
        if found is None or (found > at and not anywhere):
            return line
        at, anywhere = found + 1, False
    return None


def with_another_digit(line):
    return re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit.group()) + 1) % 10), line, count=1)


def main():
    truestep = pathlib.Path(sys.argv[1]).resolve()
    ran, lines, faults = 0, 0, []
    for name in sys.argv[2:] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            for entry in ROOT.iterdir():
                if entry.name not in ("build", ".git"):
                    (here / entry.name).symlink_to(entry)
            commands = here / "build" / "release" / "bin"
            commands.mkdir(parents=True)
            (commands / "truestep").symlink_to(truestep)
            environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "NO_COLOR": "1"}
            for listing in listings((ROOT / name).read_text(encoding="utf-8")):
                for command, shown in sessions(listing):
                    why = next((reason for part, reason in NOT_RUN.items() if part in command), None)
                    if why:
                        print(f"{name}: not run, {why}: {command}")
                        continue
                    ended = subprocess.run(["bash", "-c", command], cwd=here, env=environment, capture_output=True, text=True,
                                           check=False, timeout=300)
                    printed = [line.rstrip() for line in ended.stdout.splitlines()]
                    ran += 1
                    if ended.returncode not in (0, 1):
                        faults.append(f"{name}: status {ended.returncode} of: {command}\n{ended.stderr}")
                    elif (line := missing(shown, printed)) is not None:
                        faults.append(f"{name}: not printed there: '{line}'\n  by: {command}\n" + "\n".join(printed[:400]))
                    else:
                        # A listing that is off by a digit must not pass.
                        for i, line in enumerate(shown):
                            if re.search(r"\d", line):
                                lines += 1
                                if missing([*shown[:i], with_another_digit(line), *shown[i + 1:]], printed) is None:
                                    faults.append(f"{name}: with another digit it passes as well: '{line}'")
    for fault in faults:
        print("FAILED: " + fault, file=sys.stderr)
    print(f"{ran} commands run, {lines} lines with figures are as printed, {len(faults)} faults")
    return 1 if faults or not ran else 0


sys.exit(main())
