"""Adds up the results of the stages of ci/test: test reports (JUnit) and a file STAGE.passed, STAGE.failed or STAGE.skipped each, which
holds the seconds that the stage has taken.

A stage with a report counts by its tests, one without as a single test. What was skipped comes first, by reason, then what took
longest; what failed comes last, first the end of what each test said, then the names, so that the end of a log tells what failed. The last line
is `N passed, N failed`. Every skipped test is in skipped.txt beside the reports.
"""

import sys
import xml.etree.ElementTree as xml
from pathlib import Path

LINES_OF_A_FAILURE = 15
SLOWEST = 12  # tests that are named with their seconds, if they took any to speak of


def lines_of(case):
    return [line.rstrip() for line in (case.findtext("system-out") or "").splitlines() if line.strip()]


def skip_reason(case):
    """The line in which a skipped test says why: GoogleTest's, or a script's last one."""
    lines = [line.strip() for line in lines_of(case)]
    for line, following in zip(lines, lines[1:]):
        if line.endswith("Skipped"):
            return following
    said = [line for line in lines if "skipped" in line.lower()] or lines
    return said[-1] if said else "no reason given"


class Summary:
    def __init__(self):
        self.passed = 0
        self.skipped = []  # (stage, test, reason)
        self.failed = []  # (line, what the test said last)
        self.seconds = []  # (of a stage, its name)
        self.tests_seconds = []  # (of a test, its name)

    def add_stage(self, stage, good, report):
        """A stage's mark, and its report if it has one."""
        failed_before = len(self.failed)
        if report.exists():
            try:
                cases = list(xml.parse(report).getroot().iter("testcase"))
            except xml.ParseError as error:
                self.failed.append((f"FAILED stage {stage}: its report cannot be read ({error})", []))
                return
            for case in cases:
                self.add_test(stage, case)
        else:
            self.passed += good
        if not good and len(self.failed) == failed_before:
            why = "no test of it failed, so what runs them did" if report.exists() else "what it said stands under its name"
            self.failed.append((f"FAILED stage {stage}: {why}", []))

    def add_test(self, stage, case):
        name = case.get("name")
        self.tests_seconds.append((float(case.get("time") or 0), f"{name} ({stage})"))
        if case.get("status") == "run":
            self.passed += 1
        elif case.find("skipped") is not None and case.get("status") != "fail":
            self.skipped.append((stage, name, skip_reason(case)))
        else:
            self.failed.append((f"FAILED {stage}: {name}", lines_of(case)[-LINES_OF_A_FAILURE:]))

    def by_reason(self):
        groups = {}
        for stage, name, reason in self.skipped:
            groups.setdefault((stage, reason), []).append(name)
        return groups


def tell_longest(what, seconds):
    """A table of tests that took a second or more."""
    seconds = sorted((entry for entry in seconds if entry[0] >= 1), reverse=True)
    if seconds:
        print(f"seconds  {what}")
    for taken, name in seconds:
        print(f"{round(taken):7}  {name}")


def tell(summary, listed):
    for (stage, reason), names in summary.by_reason().items():
        count = "1 test" if len(names) == 1 else f"{len(names)} tests"
        print(f"SKIPPED {stage}: {count}, {reason}; {'e.g. ' if len(names) > 1 else ''}{names[0]}")
    if summary.skipped:
        print(f"{len(summary.skipped)} skipped, counted as neither; each of them is in {listed}")
    tell_longest("the slowest tests", sorted(summary.tests_seconds, reverse=True)[:SLOWEST])
    tell_longest(f"the stages, {round(sum(taken for taken, _ in summary.seconds))} s in all", summary.seconds)
    for line, said in summary.failed:
        if said:
            print(f"\n-- {line}, the end of its output:")
            print("\n".join("   " + text for text in said))
    if summary.failed:
        print()
    for line, _ in summary.failed:
        print(line)
    print(f"{summary.passed} passed, {len(summary.failed)} failed")


def main():
    folder = Path(sys.argv[1])
    summary = Summary()
    for mark in sorted(folder.glob("*.passed")) + sorted(folder.glob("*.failed")):
        summary.add_stage(mark.stem, mark.suffix == ".passed", mark.with_suffix(".xml"))
        summary.seconds.append((float(mark.read_text(encoding="utf-8") or 0), mark.stem))
    for mark in sorted(folder.glob("*.skipped")):
        summary.skipped.append((mark.stem, "the stage", "what it said stands under its name"))
    listed = folder / "skipped.txt"
    listed.write_text("".join(f"{stage}: {name}: {reason}\n" for stage, name, reason in summary.skipped), encoding="utf-8")
    tell(summary, listed)
    return 0 if not summary.failed and summary.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
