#!/usr/bin/env python3
"""The page of `truestep verify --report`: its numbers are those of the trace, worked out here from the file, and a
browser finds nothing wrong with it, for a run that passes and one that does not.

Usage: tool/tests/run_page_test.py TOOL LOOK
Exit status: 0 as it should be, 1 not, 77 there is no Chromium (and all else is as it should be).
"""

import html.parser
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TOOL, LOOK = sys.argv[1:3]
STEPS, WORKERS, DENSITY, CLIP = 6, 3, 0.25, 0.5
DENSE, SELECTIVE = 5, 60  # of the tensors below
TENSORS = "a:40,norm:5:dense,b:20"
SELECTED = [*range(0, 40), *range(45, 65)]  # coordinates of the tensors that are not always dense


class Trace:
    """A file of safetensors, read with nothing but its description."""

    def __init__(self, path):
        self.bytes = bytearray(path.read_bytes())
        size = struct.unpack("<Q", self.bytes[:8])[0]
        self.header = json.loads(self.bytes[8:8 + size])
        self.begin = 8 + size

    def place(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self.begin + begin, self.begin + end

    def raw(self, name):
        begin, end = self.place(name)
        return bytes(self.bytes[begin:end])

    def floats(self, name):
        raw = self.raw(name)
        return struct.unpack(f"<{len(raw) // 4}f", raw)

    def mask(self, step):
        raw = self.raw(f"step/{step:04}/mask")
        return {i for i in SELECTED if raw[i // 8] >> (i % 8) & 1}

    def norm(self, name):
        return math.sqrt(sum(x * x for x in self.floats(name)))


class Page(html.parser.HTMLParser):
    """The table of the curves' numbers."""

    def __init__(self, text):
        super().__init__()
        self.heads, self.rows, self.inside, self.cell = [], [], False, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.inside = ("class", "numbers") in attributes
        elif self.inside and tag == "tr":
            self.rows.append([])
        elif self.inside and tag in ("th", "td"):
            self.cell = ""

    def handle_endtag(self, tag):
        if tag in ("th", "td") and self.cell is not None:
            self.rows[-1].append(self.cell)
            self.cell = None
        elif tag == "table":
            self.inside = False

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def column(self, head):
        at = self.rows[0].index(head)
        return [row[at] for row in self.rows[1:]]


def check(what, found, expected):
    if found != expected:
        sys.exit(f"FAILED: {what}: {found}, expected {expected}")


def near(what, found, expected):
    """To the three digits that the page shows; None: not recorded."""
    check(f"{what}: how many", len(found), len(expected))
    for step, (one, other) in enumerate(zip(found, expected), 1):
        if other is None:
            check(f"{what}, step {step}", one, "–")
        elif one == "–" or not math.isclose(float(one), other, rel_tol=6e-3, abs_tol=1e-12):
            sys.exit(f"FAILED: {what}, step {step}: {one}, expected {other}")


def verify(trace, folder, status, *more):
    result = subprocess.run([TOOL, "verify", str(trace), "--report", str(folder), *more], capture_output=True, text=True)
    check(f"exit status of verify {trace.name}", result.returncode, status)
    return (folder / "index.html").read_text(), xml.etree.ElementTree.parse(folder / "junit.xml").getroot()


def least_code(n, k):
    return math.log2(math.comb(n, k)) / 8


def numbers_of_a_good_run(folder):
    path = folder / "good.safetensors"
    subprocess.run([TOOL, "record", "-o", str(path), "--steps", str(STEPS), "--workers", str(WORKERS), "--tensors", TENSORS,
                    "--density", str(DENSITY), "--clip-norm", str(CLIP), "--partition", "by_tensor", "--phases"], check=True,
                   capture_output=True)
    text, junit = verify(path, folder / "good", 0)
    trace, page = Trace(path), Page(text)
    steps = range(1, STEPS + 1)
    for rank in range(WORKERS):
        for what in ("gradient", "residual"):
            near(f"{what} norm of rank {rank}", page.column(f"{what} norm, rank {rank}"),
                 [trace.norm(f"step/{step:04}/{what}/rank{rank}") for step in steps])
    masks = [trace.mask(step) for step in steps]
    near("asked for", page.column("density, asked for"), [DENSITY] * STEPS)
    near("kept", page.column("density, kept"), [len(mask) / SELECTIVE for mask in masks])
    near("overlap", page.column("mask overlap, overlap"),
         [None] + [len(a & b) / len(a | b) for a, b in zip(masks, masks[1:])])
    near("clip factor", page.column("clip factor, factor"),
         [min(1.0, CLIP / (trace.norm(f"step/{step:04}/reconstructed") + 1e-6)) for step in steps])
    sent = [8 * (len(mask) + DENSE) for mask in masks]
    dense = 8 * (SELECTIVE + DENSE)
    near("values sent", page.column("compression, values"), [bytes_sent / dense for bytes_sent in sent])
    # By tensor, each segment is a tensor.
    codes = [least_code(40, len({i for i in mask if i < 40})) + least_code(20, len({i for i in mask if i >= 45})) for mask in masks]
    near("all sent", page.column("compression, values and mask"), [(s + c) / dense for s, c in zip(sent, codes)])
    check("test cases that fail", (junit.get("failures"), junit.get("errors")), ("0", "0"))
    check("cells that differ", text.count('<rect class="bad"'), 0)
    return folder / "good/index.html"


def a_wrong_run(folder):
    """The residual of rank 1 has other values at two places of b at step 3, and the gradient norm curve stays."""
    trace = Trace(folder / "good.safetensors")
    begin, _ = trace.place("step/0003/residual/rank1")
    for at in (50, 51):
        trace.bytes[begin + 4 * at:begin + 4 * at + 4] = struct.pack("<f", 9.0)
    path = folder / "wrong.safetensors"
    path.write_bytes(trace.bytes)
    text, junit = verify(path, folder / "wrong", 1, "--from", "start")
    check("cells that differ", text.count('<rect class="bad"'), 1)
    check("the cell", "<title>step 3, b: 2 of 60 values differ (3 %)</title>" in text, True)
    check("where it began", text.count("<title>the first divergence</title>"), 1)
    failed = [case.get("name") for case in junit.iter("testcase") if case.find("failure") is not None]
    check("test cases that fail", failed, ["verdict", "residual residual"])
    check("the divergence", "first divergence: step 3, phase residual, residual of rank 1, tensor b, index 5" in
          next(junit.iter("failure")).text, True)
    alone = folder / "alone.xml"
    subprocess.run([TOOL, "verify", str(path), "--junit", str(alone)], capture_output=True)
    check("JUnit alone", len(list(xml.etree.ElementTree.parse(alone).getroot().iter("testcase"))), 10)
    return folder / "wrong/index.html"


def what_is_not_recorded(folder):
    """Without the residual of one step: a gap, and no zero."""
    trace = Trace(folder / "good.safetensors")
    for rank in range(WORKERS):
        trace.header["other/" + str(rank)] = trace.header.pop(f"step/0002/residual/rank{rank}")
    header = json.dumps(trace.header).encode()
    header += b" " * (-len(header) % 8)
    path = folder / "gap.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + trace.bytes[trace.begin:])
    text, _ = verify(path, folder / "gap", 0)
    check("a residual that is not there", Page(text).column("residual norm, rank 0")[1], "–")
    check("and it is said", "not recorded, or there is none, at 3 of 18 points" in text, True)
    return folder / "gap/index.html"


def gasloc(folder):
    path = folder / "gasloc.safetensors"
    subprocess.run([TOOL, "record", "gasloc", "-o", str(path), "--workers", "3"], check=True, capture_output=True)
    text, _ = verify(path, folder / "gasloc", 0)
    trace, page = Trace(path), Page(text)
    rounds = json.loads(trace.header["__metadata__"]["config"])["steps"]
    for worker in range(3):
        expected = []
        for step in range(1, rounds + 1):
            all_of = [trace.floats(f"step/{step:04}/parameters/rank{other}") for other in range(3)]
            expected.append(math.sqrt(sum((x[worker] - sum(x) / 3) ** 2 for x in zip(*all_of))))
        near(f"distance of worker {worker}", page.column(f"distance from the mean, worker {worker}"), expected)
    return folder / "gasloc/index.html"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pages = [numbers_of_a_good_run(folder), a_wrong_run(folder), what_is_not_recorded(folder), gasloc(folder)]
        for page in pages:
            look = subprocess.run([LOOK, str(page)], capture_output=True, text=True)
            if look.returncode == 77:
                print(look.stdout)
                sys.exit(77)
            check(f"what ci/look says of {page.parent.name}: {look.stdout}{look.stderr}", look.returncode, 0)
    print("the page's numbers are the trace's, and it looks as it should")


main()
