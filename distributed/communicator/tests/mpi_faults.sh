#!/bin/bash
# mpi_faults.sh PROGRAM: ranks that hang, die, throw and more, under mpirun. Each run has to end by itself within the
# limit, with a status that is not zero, and with one line that names the rank.
# The program's own timeout is 2 s, and a second at most goes into finding out who is missing.
set -u

program=${1:?usage: mpi_faults.sh PROGRAM}
limit=20
failed=0
passed=0

# check RANKS MODE GUILTY STATUS PATTERN...: STATUS "abort" is the library's, "killed" is mpirun's for a process that died.
# A line of the output matches each PATTERN.
check() {
    local ranks=$1 mode=$2 guilty=$3 status=$4
    local output code lines pattern expected_lines=1 wrong=""
    output=$(timeout --kill-after=5 "$limit" \
        "$(dirname "$0")/../../../ci/ranks" "$ranks" "$program" "$mode" "$guilty" 2>&1)
    code=$?
    lines=$(grep -c '^truestep:' <<<"$output")
    case $status in
    abort) [ "$code" -eq 3 ] || wrong+=" status $code, not 3;" ;;
    killed)
        expected_lines=0
        [ "$code" -ne 0 ] || wrong+=" status 0;"
        ;;
    esac
    [ "$code" -ne 124 ] || wrong+=" not over after $limit s;"
    [ "$lines" -eq "$expected_lines" ] || wrong+=" $lines lines of ours, not $expected_lines;"
    for pattern in "${@:5}"; do
        grep -Eq "$pattern" <<<"$output" || wrong+=" no line like '$pattern';"
    done
    if [ -z "$wrong" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED mpirun -n $ranks $program $mode $guilty:$wrong"
        sed 's/^/    /' <<<"$output"
    fi
}

check 2 --hang 1 abort '^truestep: rank 1 did not answer within 2 s in a payload exchange; all ranks end$'
check 4 --hang 0 abort '^truestep: rank 0 did not answer within 2 s in a payload exchange; all ranks end$'
# Below that line: what each rank waits for, since when and for whom, and its last spans where there is a timeline.
timeline=$(mktemp)
trap 'rm -f "$timeline"' EXIT
TRUESTEP_TIMELINE=$timeline check 3 --hang 2 abort \
    '^truestep: rank 2 did not answer within 2 s in a payload exchange; all ranks end$' \
    '^  rank 0 has waited 2\.[0-9] s for rank 2 in a payload exchange \(number 21\)$' \
    '^  rank 1 has waited [12]\.[0-9] s for rank 2 in a payload exchange \(number 21\)$' \
    '^  rank 2 does not wait, or is dead: it gave no answer$' \
    '^    payload: for [12]\.[0-9]{3} s until now$' '^    mask: for 0\.[0-9]{3} s, ended [12]\.[0-9]{3} s ago$'
python3 - "$timeline" <<'END' || failed=$((failed + 1))
import json, sys
waits = {span["pid"] for span in json.load(open(sys.argv[1])) if span["name"] == "payload" and span["dur"] > 1e6}
if waits != {0, 1}:
    sys.exit(f"FAILED: the timeline has the long waits of ranks {waits}, not of 0 and 1")
END
# By its number among all, not in its group.
check 4 --hang-in-groups 2 abort '^truestep: rank 2 did not answer within 2 s in a (payload|mask) exchange; all ranks end$'
# Open MPI names the rank that was killed, MPICH only the process.
of_the_killed() { echo "rank $1 .*exited on signal 9|Killed \(signal 9\)"; }
check 2 --die 0 killed "$(of_the_killed 0)"
check 4 --die 3 killed "$(of_the_killed 3)"
check 2 --throw 1 abort '^truestep: rank 1: thrown on purpose; all ranks end$'
check 4 --throw 2 abort '^truestep: rank 2: thrown on purpose; all ranks end$'
check 4 --throw all abort '^truestep: rank [0-3]: thrown on purpose; all ranks end$'
check 3 --leave 1 abort '^truestep: rank 1: an error left a mask exchange unfinished; all ranks end$'
check 3 --unwind 1 abort '^truestep: rank 1: ends by an error; all ranks end$'
check 3 --late 1 abort '^truestep: rank 1 did not answer within 2 s in the set-up of the communicator; all ranks end$'
check 3 --lose 1 abort '^truestep: rank 1: a mask exchange was never waited for; all ranks end$'
check 2 --mix 1 abort '^truestep: .* all ranks wait, rank 0 in a payload exchange, rank 1 in a mask exchange; all ranks end$' \
    '^  rank 0 has waited [12]\.[0-9] s( for rank 1)? in a payload exchange' '^  rank 1 has waited [12]\.[0-9] s in a mask exchange'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
