#!/usr/bin/env bash
# `truestep NAME` is the program truestep-NAME, beside the tool or in PATH; one of the house that is not there is named with its target.
# Usage: own_programs_test.sh TOOL
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/alone" "$work/path"
tool=$work/alone/truestep
ln "$1" "$tool" 2>/dev/null || cp "$1" "$tool"
export PATH=$work/path:$PATH ASAN_OPTIONS=detect_leaks=0

# expect STATUS TEXT COMMAND...: how it ends, and all that it prints.
expect() {
    local status=0 said
    said=$("${@:3}" 2>&1) || status=$?
    [ "$status" -eq "$1" ] && [ "$said" = "$2" ] || { echo "FAILED: ${*:3}: status $status: $said"; exit 1; }
}
# missing NAME COMMAND...
missing() {
    expect 2 "truestep: truestep-$1 was not found beside this program or in PATH; ci/build release truestep-$1 builds it" "${@:2}"
}
missing train "$tool" train --help
missing model "$tool" model scale
missing converge "$tool" check --converge --pairs 2
missing converge "$tool" planted --converge
if "$tool" --help | grep -E '^  (model|train) ' || "$tool" man | grep 'SS truestep \(model\|train\)'; then
    echo "FAILED: what is not there is listed"; exit 1
fi

program() {
    printf '#!/bin/sh\n[ "$1" = --says ] && exec echo "about %s"\necho "%s got $*"; exit 5\n' "$2" "$2" >"$1"
    chmod +x "$1"
}
program "$work/path/truestep-hello" hello
expect 5 "hello got a --b" "$tool" hello a --b
program "$work/path/truestep-train" far
expect 5 "far got --help" "$tool" train --help
program "$work/alone/truestep-train" near
expect 5 "near got --help" "$tool" train --help
"$tool" --help | grep -q '^  train  *about near' || { echo "FAILED: what is there is not listed"; exit 1; }
program "$work/alone/truestep-converge" whole
expect 5 "whole got check --converge --pairs 2" "$tool" check --converge --pairs 2
