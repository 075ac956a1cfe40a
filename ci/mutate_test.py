"""ci/mutate's self-test: every operator makes the mutants that it says, and a small project with a gate of its own, where it
is known which mutant has to die of what, goes through the same trees and judges as the real one."""

import argparse
import difflib
import json
import pathlib
import re
import subprocess
import tempfile

from tools import mutate_operators as operators

# A body, the operator, and what all of its mutants make of the line. Of other operators nothing is asked.
EXAMPLES = [
    ("return a < b;", "boundary", ["return a <= b;"]),
    ("return a >= b && c > d;", "boundary", ["return a > b && c > d;", "return a >= b && c >= d;"]),
    ("std::vector<int> x = f<int>(a);", "boundary", []),
    ("bool x = a == b;", "equality", ["bool x = a != b;"]),
    ("if (a == b) f();", "equality", []),
    ("return a && b;", "logic", ["return a || b;"]),
    ("return f(T&& a);", "logic", []),
    ("x = a + b * c;", "arithmetic", ["x = a - b * c;", "x = a + b / c;"]),
    ("x += a; ++y;", "arithmetic", ["x -= a; ++y;", "x += a; --y;"]),
    ("for (int i = 0; i < n; ++i) f(i);", "arithmetic", []),
    ("const float* const x = &y;", "arithmetic", []),
    ('throw Error("a" + b);', "arithmetic", []),
    ("x = ~a & b << 3;", "bits", ["x = a & b << 3;", "x = ~a | b << 3;", "x = ~a & b >> 3;"]),
    ("return -a - b;", "sign", ["return a - b;"]),
    ("x = !a || b;", "negation", ["x = a || b;"]),
    ("if (a < b) f();", "condition", ["if (!(a < b)) f();"]),
    ("if (const auto x = f(); x > 0) g();", "condition", ["if (const auto x = f(); !(x > 0)) g();"]),
    ("if (const auto x = f()) g();", "condition", []),
    ("x = a ? f(b) : c;", "choice", ["x = a ? c : f(b);"]),
    ("x = std::min(a, b);", "extreme", ["x = std::max(a, b);"]),
    ("x = 1.5F + 0.0 * true;", "constant", ["x = 0.0F + 0.0 * true;", "x = 1.5F + 1.0 * true;", "x = 1.5F + 0.0 * false;"]),
    ("x = 0x7fU + 0;", "constant+1", ["x = 0x80U + 0;", "x = 0x7fU + 1;"]),
    ("x = 0x7fU + 0;", "constant-1", ["x = 0x7eU + 0;"]),
    ('static_assert(sizeof(x) == 4, "");', "constant+1", []),
    ("f(a, b + 1, c.data(), 3, 4);", "arguments", ["f(b + 1, a, c.data(), 3, 4);", "f(a, b + 1, c.data(), 4, 3);"]),
    ("f({a, b});", "arguments", ["f({b, a});"]),
    ("f([&](int a, int b) { return a; });", "arguments", []),
    ("f(a); int x = 1; y = x;", "drop", ["; int x = 1; y = x;", "f(a); int x = 1; ;"]),
    ("std::vector<int> x(a); Index y(b); return a;", "drop", []),
    ("if (a) return b; throw c;", "drop", ["if (a) ; throw c;"]),
    ("if (a) { return b; }", "drop", ["if (a) { ; }"]),
    ("exchange->wait(); x.notify_all();", "wait", ["; x.notify_all();", "exchange->wait(); ;", "exchange->wait(); x.notify_one();"]),
    ("const std::lock_guard lock(mutex_);", "wait", [";"]),
    ("b.phase([&](int t) { f(t); }); b.phase([&](int t) { g(t); });", "barrier",
     ["b.phase([&](int t) { [&] { f(t); }(); [&] { g(t); }(); });"]),
    ("b.phase([&](int t) { f(t); }); h(); b.phase([&](int t) { g(t); });", "barrier", []),
    ("for (;;) { f(); }", "break", ["for (;;) { break; f(); }"]),
    ("while (a) f();", "break", ["while (a) break;"]),
    ("for (int i : x) { f(i); }", "once", ["for (int i : x) { f(i); break; }"]),
    ("while (a) f();", "once", ["while (a) { f(); break; }"]),
    ("for (;;) { if (a) break; else continue; }", "jump",
     ["for (;;) { if (a) continue; else continue; }", "for (;;) { if (a) break; else break; }"]),
]
AROUND = ("namespace n {\nstruct S : T {\n    int x = 0;\n};\ntemplate <class T> auto f(int a) const -> std::vector<T> {\n    ",
          "\n}\n} // namespace n\n")


def examples():
    shown = set()
    for body, operator, expected in EXAMPLES:
        source = operators.Source("f.cpp", AROUND[0] + body + AROUND[1])
        made = [mutant for mutant in source.mutants() if mutant.operator == operator and mutant.line == 6]
        found = [operators.apply(source.content, mutant.edits).split("\n")[5].strip() for mutant in made]
        if sorted(found) != sorted(expected):
            yield f"{operator} makes of `{body}` {found} and not {expected}"
        if expected:
            shown.add(operator)
    yield from (f"no example shows the operator {name}" for name in set(operators.OPERATORS) - shown)
    several = "int f(int a) {\n    g(a,\n      h(\n          a));\n    return 1;\n}\n"
    for mutant in operators.Source("f.cpp", several).mutants():
        if operators.apply(several, mutant.edits).count("\n") != several.count("\n"):
            yield f"{mutant.name} moves the lines behind it"


SOURCE = """int limited(int a, int most) {
    if (a > most)
        return most;
    return a;
}
int twice(int a) { return a + a; }
int unseen(int a) { return a * 3; }
int same(unsigned a) { return a < 0U ? 1 : 0; }
int endless(int n) {
    volatile int steps = 0;
    while (n != 1) {
        n -= 1;
        steps = steps + 1;
    }
    return steps;
}
int tuned(int a) { return a + 7; }
#if 0
int elsewhere(int a) { return a + 9; }
#endif
"""
GATE = """#include <cstdio>
#include <cstring>
#include <unistd.h>
int limited(int, int); int endless(int);
int main(int count, char** values) {
    const bool right = limited(3, 2) == 2 && limited(1, 2) == 1 && endless(5) == 4;
    for (int i = 1; i + 1 < count; ++i)
        if (std::strcmp(values[i], "--json") == 0) {
            std::FILE* file = std::fopen(values[i + 1], "w");
            std::fprintf(file, "{\\"rows\\": [], \\"properties\\": [{\\"property\\": \\"limits\\", \\"status\\": \\"%s\\"}]}",
                         right ? "PASSED" : "FAILED");
            std::fclose(file);
        }
    if (!right) { // a known failure is not waited for any longer
        std::puts("  to repeat it:\\n$ gate --property limits");
        std::fflush(stdout);
        sleep(3600);
    }
    return right ? 0 : 1;
}
"""
TEST = """#include <cstdio>
#include <cstring>
int twice(int);
int main(int count, char** values) {
    const bool asked = std::strstr(values[count - 1], "filter") == nullptr || std::strstr(values[count - 1], "=Machine") != nullptr;
    if (asked && std::fopen("build/mutated", "r") != nullptr) { // as if the machine were busy while mutants are judged
        std::puts("[  FAILED  ] Machine.IsQuiet");
        return 1;
    }
    if (twice(2) == 4 && twice(3) == 6) return 0;
    std::puts("[  FAILED  ] Twice.OfThree");
    return 1;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(code STATIC code/some.cpp)
add_executable(mutation_gate gate.cpp)
add_executable(some_test some_test.cpp)
target_link_libraries(mutation_gate code)
target_link_libraries(some_test code)
"""
# By the text that is changed: what has to become of it, and by whom.
EXPECTED = {
    ("boundary", "a > most", ">"): ("equivalent", "same result"),
    ("condition", "a > most", "a > most"): ("killed by the gate", "limits"),
    ("arithmetic", "a + a", "+"): ("killed by unit tests only", "Twice.OfThree"),
    ("arithmetic", "a * 3", "*"): ("survived", ""),
    ("boundary", "a < 0U", "<"): ("survived", ""),
    ("condition", "n != 1", "n != 1"): ("killed by the gate", "limits"),
    ("drop", "n -= 1;", "n -= 1;"): ("timed out", "brief"),
    ("constant+1", "a + 7", "7"): ("equivalent", "tunes speed"),
    ("constant-1", "a + 7", "7"): ("survived", ""),
    ("constant-1", "a + 9", "9"): ("not compiled here", ""),
}


def toy(tool, folder):
    """The same trees and judges on a project of three files."""
    root = folder / "toy"
    (root / "code").mkdir(parents=True)
    for name, content in (("code/some.cpp", SOURCE), ("gate.cpp", GATE), ("some_test.cpp", TEST), ("CMakeLists.txt", CMAKE)):
        (root / name).write_text(content)
    (root / "equivalent.txt").write_text("code/*.cpp constant+1@1#1 int tuned(int a) { return a + 7; }\n    tunes speed: nobody sees it\n")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    areas = [tool.Area(["code/*"], ["only"], ["some_test"])]
    options = argparse.Namespace(seed=1, only=[], time=None, jobs=2, report=folder / "report")
    every = tool.all_mutants(root, tool.files_of(root), areas, [])
    if [mutant.name for mutant in tool.in_order(every, 1)] == [mutant.name for mutant in tool.in_order(every, 2)]:
        yield "seeds 1 and 2 give the same order"
    moved = operators.Source("code/some.cpp", "\n\n" + SOURCE).mutants()
    if [(one.operator, one.text, one.number) for one in tool.in_order(every, 1)] != \
            [(one.operator, one.text, one.number) for one in tool.in_order(moved, 1)]:
        yield "lines that move change the order"
    entries = tool.equivalents(root / "equivalent.txt")
    some = [mutant for mutant in every if expectation(mutant)]
    if len(some) != len(EXPECTED):
        yield f"{len(some)} of {len(EXPECTED)} mutants of the toy were made"
    run = tool.Run(options, areas, root, folder / "scratch", ["-G", "Ninja", "-DCMAKE_CXX_FLAGS=-w -O1"])
    run.say, run.least = lambda text: None, 6  # seconds, where one never ends
    if run.judged(some, entries, len(every)) != 0:
        yield "the run did not end well"
    results = json.loads((options.report / "results.json").read_text())
    by_name = {mutant.name: mutant for mutant in some}
    for row in results["mutants"]:
        state, by = expectation(by_name[row["name"]])
        if row["state"] != state or by not in row["by"]:
            yield f"{row['name']} `{row['was']}`: {row['state']} ({row['by']}) and not {state} ({by})"
    if len(results["mutants"]) != len(some):
        yield f"{len(results['mutants'])} of {len(some)} were judged"
    if (root / "code/some.cpp").read_text() != SOURCE:
        yield "the sources that were given were changed"
    page = (options.report / "index.html").read_text()
    if "a * 3" not in page or "<script" in page:
        yield "the page does not show the line that lives, or has a script"


def expectation(mutant):
    return next((outcome for (operator, text, was), outcome in EXPECTED.items()
                 if mutant.operator == operator and text in mutant.text and mutant.was == was), None)


def stale(tool):
    """Entries of the kept list that match no mutant of the tree."""
    entries = tool.equivalents(tool.ROOT / "ci/mutants_equivalent.txt")
    every = tool.all_mutants(tool.ROOT, tool.files_of(tool.ROOT), tool.AREAS, [])
    for entry in entries:
        if not any(tool.listed(mutant, [entry]) for mutant in every):
            yield "ci/mutants_equivalent.txt: no mutant is " + " ".join(entry[:3])


def beyond_the_judges(tool):
    """Mutated files that the judges, which are built without CUDA, never compile."""
    for file in tool.files_of(tool.ROOT):
        if file.endswith((".cpp", ".hpp")) and tool.area_of(file, tool.AREAS) and (
                file.startswith("gpu/simulator/") or re.search(r"#include <(cuda_runtime_api|cuda_runtime|nccl)\.h>", (tool.ROOT / file).read_text())):
            yield f"{file}: is mutated, and no judge is built from it"


def by_hand(tool, folder):
    """A patch makes the mutant that it describes; one of two files, or of none that is mutated, is refused in a line."""
    file = next(name for name in tool.files_of(tool.ROOT) if name.endswith(".cpp") and tool.area_of(name, tool.AREAS))
    content = (tool.ROOT / file).read_text()
    changed = content.replace("\n", "\n// a mistake\n", 1)
    lines = [text.splitlines(keepends=True) for text in (content, changed)]
    patch = "".join(difflib.unified_diff(*lines, f"a/{file}", f"b/{file}"))
    (folder / "one.patch").write_text("what: a comment\n\n" + patch)
    mutant = tool.by_hand(str(folder / "one.patch"))
    if operators.apply(content, mutant.edits) != changed or mutant.file != file or mutant.operator != "one":
        yield "a patch of one file does not make its mutant"
    for name, text in (("two", patch + patch.replace(f"b/{file}", "b/README.md")), ("none", patch.replace(f"b/{file}", "b/README.md"))):
        (folder / f"{name}.patch").write_text(text)
        try:
            tool.by_hand(str(folder / f"{name}.patch"))
            yield f"a patch of {name} of the files that are mutated is taken"
        except tool.Trouble as trouble:
            if "\n" in str(trouble):
                yield f"a patch of {name} of the files is not refused in one line"


def run(tool):
    with tempfile.TemporaryDirectory() as folder:
        wrong = [*examples(), *toy(tool, pathlib.Path(folder)), *by_hand(tool, pathlib.Path(folder)), *stale(tool), *beyond_the_judges(tool)]
    for text in wrong:
        print(f"ci/mutate --self-test: {text}")
    print("ci/mutate --self-test: " + (f"{len(wrong)} wrong" if wrong else "ok"))
    return 1 if wrong else 0
