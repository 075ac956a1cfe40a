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
    return re.findall(r"^  (?:-\w,)?(--[a-z][a-z0-9_-]*)", said(*path, "--help"), re.M)


def systems(path):
    """Those for which this command is given, the first of which is meant where none is named."""
    listed = re.search(r"^Systems: ([^;]*);", said(*path, "--help"), re.M)
    return listed[1].split(", ") if listed else []


def all_paths(path=()):
    yield path
    for name in [*subcommands(path), *([] if {*path} & {*systems(path)} else systems(path))]:
        yield from all_paths((*path, name))


def completed(*words):
    """What bash's own machinery makes of these words, the last of which is being typed."""
    script = ('source /dev/stdin <<<"$1"; shift; COMP_WORDS=(truestep "$@"); COMP_CWORD=$#; _truestep; '
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
    for command in ("check", "planted"):
        for system in systems((command,)):
            last = re.search(r"1 to (\d+)", " ".join(said(command, system, "--help").split()))[1]
            listed = re.findall(r"^ ?(\d+) ", said("planted", system, "--list"), re.M)
            if listed != [str(number) for number in range(1, int(last) + 1)]:
                fail(f"{command}: {system} has the mistakes {listed}, and not 1 to {last}")


def expect_refused(expected, *words):
    done = subprocess.run([TOOL, *words], capture_output=True, text=True, check=False)
    if done.returncode != 2 or done.stderr != f"truestep: {expected}\n":
        fail(f"{' '.join(words)} ends with {done.returncode} and says {done.stderr}, not {expected}")


def expect_options_of_each_system():
    """Help has a page of options, the system's and no other's, with values as defaults, and no place of the tool."""
    for command in ("check", "planted", "record"):
        of = {system: set(options((command, system))) for system in systems((command,))}
        if not {"scape", "gasloc", "mapl"} <= set(of):
            fail(f"{command} is given for {of.keys()}")
        written = ("-o", "unwritten") if command == "record" else ()
        for system, own in of.items():
            text = said(command, system, "--help")
            if len(own) > 35 or "=[]" in text or TOOL in text or "--system" in text:
                fail(f"the help of {command} {system} has {len(own)} options, or what it should not have:\n{text}")
            for option in set().union(*of.values()) - own:
                others = [other for other in of if option in of[other]]
                expect_refused(f"{option} is an option of {', '.join(others)}: truestep {command} {others[0]} {option} ...",
                               command, system, *written, option, "1")
    for system, option in (("scape", "--density"), ("gasloc", "--law"), ("averaging", "--local-steps"), ("mapl", "--anchors")):
        having = [other for other in systems(("check",)) if option in said("check", other, "--help")]
        if having != [system]:
            fail(f"{option} is in the help of {having}")
    expect_refused("--law is an option of gasloc: truestep check gasloc --law ...", "check", "--law=ring")


def expect_other_ways_to_name_a_system():
    for ways in ((("check", "gasloc", "--list"), ("check", "--system", "gasloc", "--list"), ("check", "--list", "--system=gasloc")),
                 (("check", "scape", "--list"), ("check", "--list")),
                 (("check", "scape", "--help"), ("check", "--help")),
                 (("planted", "mapl", "--list"), ("planted", "--list", "--system", "mapl"))):
        if len({said(*words) for words in ways}) != 1:
            fail(f"these are not the same: {ways}")
    expect_refused("--system is 'masp'; there are scape, gasloc, averaging, mapl, dense, exchange, storage", "check", "--system", "masp")
    expect_refused("there is no system 'masp'; did you mean 'mapl'? (there are scape, gasloc, averaging, mapl, dense, exchange, storage)", "check", "masp")


def expect_seldom_settings_by_set():
    """What is no option of its own is a key of --set, and an option that help does not show."""
    repeated = [re.findall("--set .*", said("check", "mapl", "--implementation", "host", "--property", "composed", "--cases", "1", "--json", "/dev/stdout", *words))
                for words in (("--set", "replicas=1,2", "micro=3"), ("--replicas", "1,2", "--micro", "3"))]
    if repeated[0] != repeated[1] or not repeated[0]:
        fail(f"--set is another thing than the options: {repeated}")
    expect_refused("--set mirco=3: unknown KEY=VALUES; did you mean 'micro'? (use one of replicas, trainer, vocabulary, "
                   "micro, groups, rounds, subsets, schedule)", "check", "mapl", "--set", "mirco=3")


def main():
    expect_numbers_of_mistakes()
    expect_options_of_each_system()
    expect_other_ways_to_name_a_system()
    expect_seldom_settings_by_set()
    manual = said("man").replace("\\-", "-")
    counted = 0
    for path in all_paths():
        found = options(path)
        if "--help" not in found:
            fail(f"no options are found in the help of {path}")
        part = section(manual, path)
        if named := systems(path): # the options of all systems stand with the first
            command = path if path[-1] not in named else path[:-1]
            part += section(manual, (*command, named[0]))
        offered = completed(*path, "--")
        for option in found:
            counted += 1
            if not re.search(r"^\\fB(?:-\w,)?" + option + r"\\fR", part, re.M):
                fail(f"the manual does not have {option} of {path}")
            if option not in offered:
                fail(f"bash does not offer {option} of {path}")
    for words, expected in ((("ver",), ["verify"]), (("check", "--wor"), ["--workers"]), (("check", "gas"), ["gasloc"]), (("check", "gasloc", "--la"), ["--law"]),
                            (("model", "pre"), ["predict"]),
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
