"""The command `truestep` of the Python package, also `python -m truestep`: verify, join and collectives, as the tool has them, over libtruestep,
and diff of two checkpoints. A wheel has the tool itself inside (ci/wheel), and then this is the tool.

Exit status: 0 all passed, 1 a difference (or too little data to prove anything), 2 bad input or usage.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from . import Error, join, version
from ._verify import add_summary, check_collectives, checked, page_of, result_of


def _run_of(path: str) -> str:
    """The name of the run that a file is of: with a star for the rank's number, if it holds one rank alone (section 9)."""
    try:
        with open(path, "rb") as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        rank = json.loads(head["__metadata__"]["config"]).get("rank")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError):
        return path  # libtruestep says what is wrong with it
    return path if rank is None else re.sub(rf"rank{rank}(?!\d)(?!.*rank{rank}(?!\d))", "rank*", path)


def _verify(options: argparse.Namespace) -> int:
    runs: dict[str, list[str]] = {}
    for path in options.files:
        runs.setdefault(_run_of(path), []).append(path)
    traces: list[dict[str, Any]] = []
    pages: list[dict[str, Any]] = []
    bad_input = False
    for run, files in runs.items():
        start = f" --from {options.start}" if options.start else ""
        command = f"truestep verify {shlex.quote(run)}{start} --level {options.level}"
        print(f"$ {command}", flush=True)
        try:
            handle = checked(files, options.level, options.start)
            result = result_of(handle)
        except Error as error:
            print(f"truestep verify: {error}", file=sys.stderr)
            bad_input = True
            traces.append({"trace": run, "error": str(error)})
            pages.append({"path": run, "error": str(error)})
            continue
        print(result.text, flush=True)
        pages.append(page_of(handle) | {"path": run, "command": command})
        traces.append(result.json)
    statuses = [trace.get("status") for trace in traces]
    counts = {"passed": statuses.count("PASSED"), "failed": len(traces) - statuses.count("PASSED"),
              "mistrusted": statuses.count("MISTRUSTED")}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"command": ["truestep", *sys.argv[1:]], "traces": traces, **counts}, file, indent=2)
    if options.summary:
        add_summary(options.summary, pages)
    if counts["mistrusted"]:
        print(f"{counts['mistrusted']} of the failed only MISTRUSTED: no difference, but no proof")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 2 if bad_input else 1 if counts["failed"] else 0


def _join(options: argparse.Namespace) -> int:
    join(options.files, options.output)
    print(f"joined: {options.output}")
    return 0


def _collectives(options: argparse.Namespace) -> int:
    found = check_collectives(options.files)
    print(found.pop("text"), end="")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"command": ["truestep", *sys.argv[1:]], **found}, file, indent=2)
    return 0 if found["holds"] else 1


def _is_checkpoint(path: str) -> bool:
    """A folder, an index, or safetensors that no recorder has written: what the tool's diff does not read."""
    if os.path.isdir(path) or path.endswith(".index.json"):
        return True
    try:
        with open(path, "rb") as file:
            head = json.loads(file.read(min(int.from_bytes(file.read(8), "little"), os.path.getsize(path))))
        return not head.get("__metadata__", {}).get("format", "").startswith("scape-")
    except (OSError, ValueError, AttributeError):
        return False


def _diff(options: argparse.Namespace) -> int:
    try:
        from . import checkpoints
    except ImportError as error:
        raise Error(f"diff: checkpoints are read by PyTorch ({error}); install it") from None
    return checkpoints.main([options.a, options.b])


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    tool = pathlib.Path(__file__).with_name("bin") / "truestep"
    if tool.exists() and not (arguments[:1] == ["diff"] and any(map(_is_checkpoint, arguments[1:]))):
        os.execv(tool, ["truestep", *arguments])
    parser = argparse.ArgumentParser("truestep", description="Check recorded runs against the reference.", epilog=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"truestep {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("verify", help="check recorded runs against the reference")
    command.add_argument("files", nargs="+", metavar="FILE", help="traces; the files of a run's ranks count as one run")
    command.add_argument("--level", default="exact", help="exact, rel (another arithmetic in fp32) or bf16; default: exact")
    command.add_argument("--from", dest="start", help="recorded or start: where each step of the reference begins")
    command.add_argument("--json", metavar="FILE", help="also write the result to this file")
    command.add_argument("--summary", metavar="FILE", help="also append a Markdown table of the verdicts to this file, such as $GITHUB_STEP_SUMMARY")
    command.set_defaults(run=_verify)
    command = commands.add_parser("join", help="join the files that the ranks of a run wrote into one trace")
    command.add_argument("files", nargs="+", metavar="FILE", help="the files of all ranks")
    command.add_argument("-o", "--output", required=True, help="the trace to write")
    command.set_defaults(run=_join)
    command = commands.add_parser("collectives", help="does each collective of a run do what it is defined to do? From what truestep.torch.watch wrote")
    command.add_argument("files", nargs="+", metavar="FILE", help="a run's files, one a rank")
    command.add_argument("--json", metavar="FILE", help="also write the result to this file")
    command.set_defaults(run=_collectives)
    command = commands.add_parser("diff", help="where do two checkpoints differ, in any bit, however each is sharded? (Of traces the tool says that)")
    command.add_argument("a", metavar="A", help="a folder of torch.distributed.checkpoint, safetensors with an index, or one file")
    command.add_argument("b", metavar="B", help="the one that is compared with it")
    command.set_defaults(run=_diff)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
    except (Error, OSError) as error:
        print(f"truestep: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
