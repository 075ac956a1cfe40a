#!/usr/bin/env python3
"""Which property catches which known bug, as the table in coverage.md.

Usage: coverage.py RESULTS.json > coverage.md
where RESULTS.json is what `truestep planted --all --cases 30 --clean-cases 0 --json RESULTS.json` wrote.
"""
import json
import sys


# These depend on how ranks interleave: another property may catch them in the next run.
BY_TIMING = {56, 81}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        planted = json.load(file)["planted"]
    planted = [row for row in planted if row["number"] not in BY_TIMING]
    by_bug = {row["number"]: ([row["property"]] if row["caught"] else []) + row["also"] for row in planted}
    names = {row["number"]: row["name"] for row in planted}
    properties = []
    for caught in by_bug.values():
        properties += [name for name in caught if name not in properties]
    properties.sort()

    print("# Which property catches which known bug\n")
    print("Made by `coverage.py` from `truestep planted --all --cases 30 --clean-cases 0 --json`, and held against that by")
    print("`ci/nightly planted`. A bug that is caught by one property alone escapes when that property is removed; every other one is")
    print("covered by those named beside it. 56 and 81 are left out: timing decides which property catches them.\n")
    print("## By bug\n")
    print("| bug | name | caught by |")
    print("|--:|---|---|")
    for number, caught in by_bug.items():
        print(f"| {number} | {names[number]} | {', '.join(sorted(caught)) or '**none in 30 cases**'} |")
    print("\n## By property: what its removal would cost\n")
    print("| property | catches | of those that no other property catches | the least covered of the others, and who covers it |")
    print("|---|--:|---|---|")
    for name in properties:
        caught = [number for number, by in by_bug.items() if name in by]
        alone = [number for number in caught if len(by_bug[number]) == 1]
        shared = [number for number in caught if len(by_bug[number]) > 1]
        rest = ""
        if shared:
            least = min(shared, key=lambda number: (len(by_bug[number]), number))
            rest = f"{least}: {', '.join(sorted(other for other in by_bug[least] if other != name))}"
        print(f"| {name} | {len(caught)} | {', '.join(map(str, alone)) or '-'} | {rest or '-'} |")


main()
