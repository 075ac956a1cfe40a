"""Prints branch and line coverage by file from llvm-cov's summary; exit status 1 if branches are below the limit."""

import json
import os
import sys


def main():
    summary, least = sys.argv[1], float(sys.argv[2])
    with open(summary, encoding="utf-8") as file:
        data = json.load(file)["data"][0]
    print(f"{'file':<60} {'branches':>14} {'%':>6} {'lines %':>8}")
    for entry in data["files"]:
        print_row(os.path.relpath(entry["filename"]), entry["summary"])
    print_row("all", data["totals"])
    branches = data["totals"]["branches"]
    if branches["count"] == 0:
        print("no branch was found: the measurement is wrong")
        return 1
    if branches["percent"] < least:
        print(f"branch coverage {branches['percent']:.1f} % is below {least} %")
        return 1
    return 0


def print_row(name, summary):
    branches = summary["branches"]
    covered = f"{branches['covered']}/{branches['count']}"
    print(f"{name:<60} {covered:>14} {branches['percent']:6.1f} {summary['lines']['percent']:8.1f}")


sys.exit(main())
