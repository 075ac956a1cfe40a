#!/usr/bin/env python3
"""The manual page and bash's completion have every option of every subcommand, by what --help says, and bash completes.

Usage: tool/tests/manual_test.py TOOL
"""

import re
import shutil
import subprocess
import sys

TOOL = sys.argv[1]


def said(*words):
    return subprocess.run([TOOL, *words], capture_output=True, text=True, check=True).stdout


def fail(text):
    sys.exit("FAILED: " + text)


def subcommands(path):
    """Those that its --help lists."""
    listed = said(*path, "--help").partition("\nSubcommands:\n")[2]
    return re.findall(r"^  ([a-z]\S*)", listed.partition("\n\n")[0], re.M)


def options(path):
    """The long ones that its --help lists, each at the begin of its line."""
    return re.findall(r"^  (?:-\w,)?(--[a-z][a-z0-9-]*)", said(*path, "--help"), re.M)


def all_paths(path=()):
    yield path
    for name in subcommands(path):
        yield from all_paths((*path, name))


def completed(*words):
    """What bash's own machinery makes of these words, the last of which is being typed."""
    script = ('source /dev/stdin <<<"$1"; shift; COMP_WORDS=(truestep "$@"); COMP_CWORD=$#; _scape; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    out = subprocess.run(["bash", "-euc", script, "bash", said("completion"), *words], capture_output=True, text=True, check=True)
    if out.stderr:
        fail("bash says: " + out.stderr)
    return out.stdout.split()


def section(manual, path):
    head = ".SH DESCRIPTION" if not path else ".SS truestep " + " ".join(path)
    begin = re.search(re.escape(head) + "$", manual, re.M)
    if not begin:
        fail(f"the manual has no section '{head}'")
    return re.split(r"^\.S[SH] ", manual[begin.end():], maxsplit=1, flags=re.M)[0]


def expect_numbers_of_mistakes():
    """Help says how far the numbers of planted mistakes go: to the last that is listed."""
    for words in (("check",), ("planted",)):
        text = " ".join(said(*words, "--help").split())
        named = re.findall(r"1 to (\d+) of ([a-z]+)", text)
        if not {"scape", "gasloc", "mapl"} <= {system for _, system in named}:
            fail(f"the help of {words} numbers the mistakes of {named}")
        for last, system in named:
            listed = re.findall(r"^ ?(\d+) ", said("planted", "--system", system, "--list"), re.M)
            if listed != [str(number) for number in range(1, int(last) + 1)]:
                fail(f"{words}: {system} has the mistakes {listed}, and not 1 to {last}")


def main():
    expect_numbers_of_mistakes()
    manual = said("man").replace("\\-", "-")
    counted = 0
    for path in all_paths():
        found = options(path)
        if "--help" not in found:
            fail(f"no options are found in the help of {path}")
        part = section(manual, path)
        offered = completed(*path, "--")
        for option in found:
            counted += 1
            if not re.search(r"^\\fB(?:-\w,)?" + option + r"\\fR", part, re.M):
                fail(f"the manual does not have {option} of {path}")
            if option not in offered:
                fail(f"bash does not offer {option} of {path}")
    for words, expected in ((("ver",), ["verify"]), (("check", "--wor"), ["--workers"]), (("model", "pre"), ["predict"]),
                            (("model", "predict", "--inn"), ["--inner-steps"]), (("verify", "a.safetensors", "--jun"), ["--junit"]),
                            (("verify", "check", "--wor"), []), (("nonsense", "--wor"), [])):
        if completed(*words) != expected:
            fail(f"{' '.join(words)} completes to {completed(*words)}, expected {expected}")
    if counted < 100:
        fail(f"only {counted} options were found")
    if shutil.which("groff"):
        shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=said("man"), capture_output=True, text=True, check=False)
        if shown.returncode or shown.stderr:
            fail("groff says: " + shown.stderr)
    print(f"{counted} options, each in the manual and in bash's completion")


main()
