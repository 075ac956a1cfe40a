#!/usr/bin/env bash
# Makes one of the mistakes of known_bugs.txt in a run on the simulator: it must be found, and said in the words that stand there.
# Usage: known_bug_test.sh gpu_simulated_test NAME     without NAME the run without any, which must be right
set -uo pipefail
test=$1 name=${2:-}
list=$(dirname "$0")/known_bugs.txt
IFS=$'\t' read -r _ edit says < <([ -z "$name" ] || grep -P "^$name\t" "$list")
if [ -n "$name" ] && [ -z "${says:-}" ]; then
    echo "known_bug_test.sh: $list has no $name"
    exit 2
fi
way=streams run=SmallRunEqualsTheHost
[[ $name != *ties* ]] || run=SmallRunWithTiesEqualsTheHost
[[ $name != *rounded* ]] || run=SmallRunOfRoundedMeansInGroupsEqualsTheHost
[[ $name != *buckets* ]] || run=SmallRunInBucketsEqualsTheHost
[[ $name != *alone* ]] || run=SmallRunAloneEqualsTheHost
[ "$name" != graph_not_updated ] || way=graphs
said=$(TRUESTEP_SIMULATED_BUG=${edit:-} "$test" --gtest_filter="Ways/Cuda.$run/$way" 2>&1)
status=$?
if [ -z "$name" ]; then
    [ "$status" = 0 ] && grep -q 'PASSED.*1 test' <<< "$said"
elif [ "$status" = 1 ]; then
    grep -m1 -oP "$says.*" <<< "$said"
else
    false
fi || { echo "not found: $name (exit status $status)"; head -n 20 <<< "$said"; exit 1; }
