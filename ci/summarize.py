"""Adds up the results of the stages of ci/test: test reports (JUnit) and a file STAGE.passed or STAGE.failed each.

A stage with a report counts by its tests, one without as a single test. The last line is `N passed, N failed`.
"""

import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def skip_reason(case):
    """The line in which a skipped test says why."""
    lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines()]
    for position, line in enumerate(lines):
        if line.endswith("Skipped"):
            return next((text for text in lines[position + 1:] if text), "no reason given")
    return "no reason given"


def main():
    folder = Path(sys.argv[1])
    passed = failed = skipped = 0
    for mark in sorted(folder.glob("*.passed")) + sorted(folder.glob("*.failed")):
        report = mark.with_suffix(".xml")
        if not report.exists():
            passed += mark.suffix == ".passed"
            failed += mark.suffix == ".failed"
            continue
        failed_before = failed
        for case in xml.parse(report).getroot().iter("testcase"):
            if case.get("status") == "run":
                passed += 1
            elif case.find("skipped") is not None and case.get("status") != "fail":
                skipped += 1
                print(f"SKIPPED {mark.stem}: {case.get('name')}: {skip_reason(case)}")
            else:
                failed += 1
                print(f"FAILED {mark.stem}: {case.get('name')}")
        if mark.suffix == ".failed" and failed == failed_before:
            failed += 1  # the runner itself failed
    if skipped:
        print(f"{skipped} skipped, counted as neither")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


sys.exit(main())
