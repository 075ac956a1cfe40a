#!/usr/bin/env bash
# The lines of gpu/simulator/README.md: the example without its barrier is found out, and with it is right; linked by nvcc and by the host's
# compiler, without this project's CMake.
# Usage: example_test.sh NVCC CXX FOLDER_OF_LIBRARIES
set -euo pipefail
nvcc=$1 cxx=$2 libraries=$3
source=$(dirname "$0")/../example/reduction.cu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=(--no-compress -lineinfo --generate-code=arch=compute_90,code=compute_90)
link=(-L"$libraries" -ltruestep_simulator -ltruestep_machine)

"$nvcc" "${flags[@]}" --cudart=none "$source" -o "$folder/wrong" "${link[@]}"
said=$("$folder/wrong") && { echo "not found: $said"; exit 1; }
echo "$said"
grep -q 'race in shared memory.*sum(float const\*, float\*), block 0.*reduction.cu:' <<< "$said"

"$nvcc" "${flags[@]}" -DWITH_BARRIER -c "$source" -o "$folder/right.o"
"$cxx" "$folder/right.o" -o "$folder/right" "${link[@]}" -lpthread
[ "$("$folder/right")" = "256, no error" ]
