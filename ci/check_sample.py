#!/usr/bin/env python3
"""What README shows of ci/check is what it prints, but for the figures and reasons, which are this machine's.

Usage: ci/check_sample.py FILE             compares README's listing with what ci/check has printed into FILE
       ci/check_sample.py --update FILE    puts it into README
Exit status: 0 the same, 1 not, 2 bad input."""

import os
import pathlib
import re
import sys

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
LISTING = re.compile(r"(<!-- made by ci/check_sample.py -->\n\n    \$ ci/check\n)(.*?)(\n<!-- to here -->)", re.S)


def shown(printed):
    """From the first recorded runs on, for what is installed and built before is another's output."""
    lines = printed.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("Recorded runs"))
    return "    ...\n" + "".join(f"    {line}".rstrip() + "\n" for line in lines[begin:])


def without_figures(text):
    return re.sub(r"[\d,.]+", "0", re.sub(r" +", " ", re.sub(r"(?m)^ +\d+ .*\n", "", text)))


def main():
    *update, name = sys.argv[1:] or [""]
    page = README.read_text(encoding="utf-8")
    found = LISTING.search(page)
    if update not in ([], ["--update"]) or not os.path.isfile(name) or not found:
        print("ci/check_sample.py: " + ("give what ci/check printed, as a file; see the head of this script" if found else f"{README} has no listing"),
              file=sys.stderr)
        return 2
    made = shown(pathlib.Path(name).read_text(encoding="utf-8"))
    if update:
        README.write_text(page[:found.start(2)] + made + page[found.end(2):], encoding="utf-8")
    elif without_figures(found.group(2)) != without_figures(made):
        print(f"ci/check prints\n{made}and README shows\n{found.group(2)}To show what it prints: ci/check >FILE; ci/check_sample.py --update FILE")
        return 1
    return 0


sys.exit(main())
