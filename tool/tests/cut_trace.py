#!/usr/bin/env python3
"""A part of a trace of SCAPE, as somebody would have recorded it: from some step on, or some segments of it.

    cut_trace.py WHOLE OUTPUT --begin 2          steps 3 and later, with the state at that point
    cut_trace.py WHOLE OUTPUT --segments 0,3     of a run that is not clipped
"""

import argparse
import json
import re
import struct
from pathlib import Path

SIZES = {"F32": 4, "F64": 8, "U8": 1, "U64": 8}


def read(path):
    """Config, source and the tensors, each a pair of type and bytes."""
    data = Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    values = data[8 + size:]
    tensors = {name: (entry["dtype"], values[slice(*entry["data_offsets"])]) for name, entry in header.items()}
    return json.loads(metadata.pop("config")), metadata, tensors


def write(path, config, metadata, tensors):
    header, at = {"__metadata__": metadata | {"config": json.dumps(config)}}, 0
    for name, (kind, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": [len(data) // SIZES[kind]], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def later(config, tensors, begin):
    """What is there after so many steps becomes the initial state."""
    def held(name):
        return tensors[name] if name in tensors else tensors[f"{name}/rank0"]

    before = f"step/{begin:04d}"
    cut = {"learning_rate": ("F64", tensors["learning_rate"][1][8 * begin:]), "density": ("F64", tensors["density"][1][8 * begin:]),
           "initial/parameters": held(f"{before}/parameters"), "initial/first_moment": held(f"{before}/first_moment"),
           "initial/mask": held(f"{before}/next_mask")}
    for rank in range(config["workers"]):
        cut[f"initial/residual/rank{rank}"] = tensors[f"{before}/residual/rank{rank}"]
    for name, tensor in tensors.items():
        if (found := re.fullmatch(r"step/(\d+)/(.*)", name)) and int(found[1]) > begin:
            cut[f"step/{int(found[1]) - begin:04d}/{found[2]}"] = tensor
    return config | {"begin": begin, "steps": config["steps"] - begin}, cut


def sampled(config, tensors, segments):
    ranges = [(config["segments"][i]["begin"], config["segments"][i]["end"]) for i in segments]

    def part(name, kind, data):
        if name in ("learning_rate", "density"):
            return data
        if kind == "F32":
            return b"".join(data[4 * begin:4 * end] for begin, end in ranges)
        bits = [data[i // 8] >> i % 8 & 1 for begin, end in ranges for i in range(begin, end)]
        return bytes(sum(bit << j for j, bit in enumerate(bits[i:i + 8])) for i in range(0, len(bits), 8))

    return config | {"sample": segments}, {name: (kind, part(name, kind, data)) for name, (kind, data) in tensors.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whole")
    parser.add_argument("output")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--segments", type=lambda text: [int(number) for number in text.split(",")])
    given = parser.parse_args()
    config, metadata, tensors = read(given.whole)
    if given.begin:
        config, tensors = later(config, tensors, given.begin)
    if given.segments:
        config, tensors = sampled(config, tensors, given.segments)
    write(given.output, config, metadata, tensors)


if __name__ == "__main__":
    main()
