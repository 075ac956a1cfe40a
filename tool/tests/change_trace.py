#!/usr/bin/env python3
"""A trace in which somebody has gone wrong once, or has recorded something else.

    change_trace.py TRACE OUTPUT --clear-residual 5      no rank holds anything back after step 5
    change_trace.py TRACE OUTPUT --mask-of-next          each step's mask is the one that it makes
    change_trace.py TRACE OUTPUT --next-of-mask          and the other way round
"""

import argparse

from cut_trace import read, write


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("output")
    parser.add_argument("--clear-residual", type=int, default=0, metavar="STEP")
    parser.add_argument("--mask-of-next", action="store_true")
    parser.add_argument("--next-of-mask", action="store_true")
    given = parser.parse_args()
    config, metadata, tensors = read(given.trace)
    for rank in range(config["workers"] if given.clear_residual else 0):
        name = f"step/{given.clear_residual:04d}/residual/rank{rank}"
        kind, data = tensors[name]
        tensors[name] = (kind, bytes(len(data)))
    for step in range(1, config["steps"] + 1):
        mask, coming = f"step/{step:04d}/mask", f"step/{step:04d}/next_mask"
        if given.mask_of_next:
            tensors[mask] = tensors[coming]
        elif given.next_of_mask:
            tensors[coming] = tensors[mask]
    write(given.output, config, metadata, tensors)


if __name__ == "__main__":
    main()
