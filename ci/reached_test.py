#!/usr/bin/env python3
"""Can ci/reached fail? It reads the counters of a small program, of which it is known what never runs."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("reached", str(pathlib.Path(__file__).resolve().parent / "reached"))
reached = importlib.util.module_from_spec(importlib.util.spec_from_loader("reached", loader))
loader.exec_module(reached)

PROGRAM = """
#include <stdexcept>
namespace truestep {
enum class Word { one, two };
template <class T> T never(T a) { return a; }
template <class F> int each(F f) { return f(1); }
int fails(int a) {
    try {
        return each([](int b) { return b; }) + a;
    } catch (const std::runtime_error&) {
        return 7;
    }
}
int unused(int a) { return a > 1 ? 2 : 3; }
int used(int a, Word word) {
    if (a < 0)
        throw std::runtime_error("refused");
    const auto later = [](int b) { return b; };
    if (a > 5 && a < 7)
        return 1;
    switch (word) {
    case Word::one: return 2;
    case Word::two: return later(3);
    }
    return never(4.0F) > 3 ? 5 : 6;
}
}
int main() { return truestep::fails(1) + truestep::used(6, truestep::Word::one) + truestep::used(3, truestep::Word::one); }
"""
NEVER = ["distributed/a.cpp:fails: catch (const std::runtime_error&): never", "distributed/a.cpp:never", "distributed/a.cpp:unused",
         "distributed/a.cpp:used: a < 7: never false", "distributed/a.cpp:used: a lambda",
         "distributed/a.cpp:used: case Word::two: never true"]


class Reached(unittest.TestCase):
    def test_what_never_runs_needs_a_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            reached.ROOT, reached.BUILD, reached.TOOL, reached.REASONS = root, root / "build", root / "build/tool", root / "reasons.txt"
            (root / "distributed").mkdir()
            (root / "build").mkdir()
            (root / "distributed/a.cpp").write_text(PROGRAM)
            subprocess.run(["clang++", "-std=c++20", "-fprofile-instr-generate", "-fcoverage-mapping", root / "distributed/a.cpp", "-o", reached.TOOL],
                           check=True, stderr=subprocess.DEVNULL)
            subprocess.run([reached.TOOL], env={**os.environ, "LLVM_PROFILE_FILE": f"{root}/build/a.profraw"}, check=False)

            self.assertEqual(self.told(), (1, NEVER))
            self.assertEqual(self.told("distributed/a.cpp:used*", "*:unused"), (1, NEVER[:2]))
            self.assertEqual(self.told("distributed/*"), (0, []))
            self.assertEqual(self.told("distributed/*", "gpu/*"), (1, ["nothing that is never reached matches gpu/*"]))
            self.assertEqual(self.told("distributed/*", "? gpu/*"), (0, []))

            self.assertEqual(self.told("distributed/*.cpp:used: a < *: never false", "? *::unu*", mode="--names"), (0, []))
            for wrong in ("distributed/a.cpp:used: a < 8: never false", "distributed/b.cpp:used", "*::lost"):
                self.assertEqual(self.told(wrong, "*", mode="--names"), (1, [f"no source has what this names: {wrong}"]))

    def told(self, *reasons, mode="--counted"):
        reached.REASONS.write_text("# why\n" + "\n".join(reasons) + "\n")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = reached.main([mode])
        return status, [line.split(": ", 1)[1] for line in said.getvalue().splitlines() if ": " in line]


if __name__ == "__main__":
    missing = [name for name in ("clang++", "llvm-cov", "llvm-profdata", "c++filt") if shutil.which(name) is None]
    if missing:
        print(f"SKIPPED: there is no {missing[0]}; ci/setup installs it")
        sys.exit(77)
    unittest.main()
