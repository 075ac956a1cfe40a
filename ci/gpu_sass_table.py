"""gpu/sass.txt: the counts of ci/gpu_sass.py as a table, read again, and what has changed in it."""
import math
import re

from gpu_sass import COUNTS

COLUMNS = (COUNTS[0], "by quad", *COUNTS[1:])
HEAD = """\
# What each kernel's machine code for sm_90 asks of a multiprocessor; written by ci/gpu-resources --update. What is counted, and
# on which way through the kernel: ci/gpu_sass.py. `NAME` is the kernel outside of its loops, `NAME 1.2` once through the second
# loop in its first. By quad: instructions for each four values, where accesses of 16 bytes are.
"""
IN_FLIGHT = 4  # quads of a thread at once: quads_in_flight of algorithms/quad.hpp
TOLERANCE = 0.25  # where another compiler made the code
SLACK = 4


def by_quad(counts):
    """Instructions for each quad, or nothing if no access has 16 bytes."""
    accesses = math.gcd(counts["l16"], counts["s16"])
    return f"{counts['instructions'] / math.gcd(accesses, IN_FLIGHT):.0f}" if accesses else "-"


def table_of(rows, nvcc):
    """The text of rows: counts by "file/kernel" and "file/kernel 1.2"."""
    lines = [HEAD + f"# nvcc {nvcc}.", f"{'kernel':<40}" + "".join(f"{name.replace('instructions', 'instr'):>9}" for name in COLUMNS)]
    for name, counts in sorted(rows.items()):
        values = (by_quad(counts) if column == "by quad" else counts[column] for column in COLUMNS)
        lines.append(f"{name:<40}" + "".join(f"{value:>9}" for value in values))
    return "\n".join(lines) + "\n"


def read_table(text):
    """The rows of a table, and the version of the compiler that made its kernels."""
    version = re.search(r"^# nvcc ([\d.]+)\.$", text, re.M)
    rows = {}
    for line in text.splitlines():
        if found := re.match(r"([\w/]+(?: [\d.]+)?) +((?:[\d-]+ *){%d})$" % len(COLUMNS), line):
            rows[found.group(1)] = {column: int(value) for column, value in zip(COLUMNS, found.group(2).split())
                                    if column != "by quad"}
    return rows, version.group(1) if version else None


def whole(rows):
    """Each kernel's counts including its loops, which another compiler may split otherwise."""
    kernels = {}
    for name, counts in rows.items():
        sums = kernels.setdefault(name.split()[0], dict.fromkeys(COUNTS, 0))
        for column in COUNTS:
            sums[column] = max(sums[column], counts[column]) if column == "chain" else sums[column] + counts[column]
    return kernels


def changes(known, found, same_compiler):
    """A line for each kernel or loop with other counts; for another compiler, only large differences."""
    if not same_compiler:
        known, found = whole(known), whole(found)
    lines = []
    for name in sorted(known.keys() | found.keys()):
        if name not in found or name not in known:
            lines.append(f"{name}: " + ("is new" if name in found else "is gone"))
            continue
        off = []
        for column in COUNTS:
            before, now = known[name][column], found[name][column]
            exact = same_compiler or column in ("barriers", "spins")
            if before != now if exact else abs(now - before) > max(SLACK, TOLERANCE * before):
                off.append(f"{column} {before} -> {now}")
        if off:
            lines.append(f"{name}: " + ", ".join(off))
    return lines
