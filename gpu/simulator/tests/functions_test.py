#!/usr/bin/env python3
"""Every function of CUDA's runtime, of NCCL and of cuBLAS that the simulator has is asked for by a unit test.

Asked for: its result is compared, EXPECT_EQ(cudaMalloc(...), ...) or ASSERT_, EXPECT_THAT, EXPECT_STREQ; a call whose result is
dropped tests nothing. cuBLAS's header hides a _v2 at a name's end. What nvcc's own code calls (__cuda...) has no caller to compare it.
Usage: functions_test.py NM LIBRARY... -- TEST.cpp...
"""

import re
import subprocess
import sys


def functions(nm, libraries):
    listed = subprocess.run([nm, "--extern-only", "--defined-only", *libraries], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r" T ((?:cuda|nccl|cublas)[A-Z]\w*?)(?:_v2)?$", listed, re.MULTILINE))


def asked_for(text):
    code = re.sub(r"//[^\n]*", "", text)
    return set(re.findall(r"\b(?:EXPECT|ASSERT)_[A-Z]+\(\s*((?:cuda|nccl|cublas)\w+)\(", code))


def main():
    end = sys.argv.index("--")
    have = functions(sys.argv[1], sys.argv[2:end])
    text = "".join(open(file, encoding="utf-8").read() for file in sys.argv[end + 1:])
    asked = asked_for(text)
    wrong = [f"{name} has no unit test" for name in sorted(have - asked)]
    if len(have) < 40:
        wrong.append(f"only {len(have)} functions were found: the libraries are not what they were")
    # It can fail: a call in a comment or with its result dropped is no test.
    if asked_for("// EXPECT_EQ(cudaFree(a), b)\nstatic_cast<void>(cudaFree(a)); EXPECT_EQ(\n    cudaMalloc(a), b)") != {"cudaMalloc"}:
        wrong.append("it takes what is no test for one")
    for line in wrong:
        print(f"functions_test.py: {line}")
    print(f"functions_test.py: {len(have)} functions")
    sys.exit(1 if wrong else 0)


main()
