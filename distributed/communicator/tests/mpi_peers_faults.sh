#!/bin/bash
# mpi_peers_faults.sh PROGRAM: ranks that send each other messages, and one of them throws, hangs, dies and more, under mpirun.
# Each run has to end by itself within the limit, with a status that is not zero and one line that names the rank; and the
# ranks that do not need it have to come to their end.
# The program's own timeout is 2 s: one to notice, another in which the others may go on.
set -u

program=${1:?usage: mpi_peers_faults.sh PROGRAM}
limit=20
failed=0
passed=0

# check RANKS MODE GUILTY STATUS PATTERN [ENDED...]: STATUS "abort" is the library's, "killed" is mpirun's for a process that
# died. ENDED: the ranks that end well all the same, and no others.
check() {
    local ranks=$1 mode=$2 guilty=$3 status=$4 pattern=$5 expected_ends
    local code lines expected_lines=1 ends wrong="" # and output, which is looked at afterwards, too
    expected_ends=$(printf 'rank %s ended\n' "${@:6}")
    [ $# -gt 5 ] || expected_ends=""
    output=$(timeout --kill-after=5 "$limit" \
        "$(dirname "$0")/../../../ci/ranks" "$ranks" "$program" "$mode" "$guilty" 2>&1)
    code=$?
    lines=$(grep -c '^truestep:' <<<"$output")
    ends=$(grep -E '^rank [0-9]+ ended$' <<<"$output" | sort)
    case $status in
    abort)
        [ "$code" -eq 3 ] || wrong+=" status $code, not 3;"
        [ "$ends" = "$expected_ends" ] || wrong+=" ended well: '${ends//$'\n'/, }', not '${expected_ends//$'\n'/, }';"
        ;;
    killed)
        expected_lines=0
        [ "$code" -ne 0 ] || wrong+=" status 0;"
        ;;
    esac
    [ "$code" -ne 124 ] || wrong+=" not over after $limit s;"
    [ "$lines" -eq "$expected_lines" ] || wrong+=" $lines lines of ours, not $expected_lines;"
    grep -Eq "$pattern" <<<"$output" || wrong+=" no line like '$pattern';"
    if [ -z "$wrong" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED mpirun -n $ranks $program $mode $guilty:$wrong"
        sed 's/^/    /' <<<"$output"
    fi
}

late() { echo "^truestep: rank $1 did not send its parameters \(message 3\) to rank $2 within 2 s; all ranks end\$"; }

# Ranks 0 and 1 need each other, and 2 and 3; rank 4 needs 3, and 5 needs 4.
check 2 --throw 1 abort '^truestep: rank 1 has failed: thrown on purpose; all ranks end$'
check 4 --throw 2 abort '^truestep: rank 2 has failed: thrown on purpose; all ranks end$' 0 1
check 6 --throw 3 abort '^truestep: rank 3 has failed: thrown on purpose; all ranks end$' 0 1
check 6 --throw 4 abort '^truestep: rank 4 has failed: thrown on purpose; all ranks end$' 0 1 2 3
check 4 --unwind 1 abort '^truestep: rank 1 has failed: an error has ended it; all ranks end$' 2 3
check 2 --hang 1 abort "$(late 1 0)"
check 4 --hang 0 abort "$(late 0 1)" 2 3
check 6 --hang 2 abort "$(late 2 3)" 0 1
for line in 'rank 3 has waited [2-9]\.[0-9] s for rank 2 in parameters \(message 3\)' 'rank 4 has waited [1-9]\.[0-9] s for rank 3 in parameters \(message [34]\)' \
    'rank 2 does not wait, or is dead: it gave no answer'; do
    grep -Eqx "  $line" <<<"$output" || { failed=$((failed + 1)); echo "FAILED: no line '$line' in"; sed 's/^/    /' <<<"$output"; }
done
check 4 --wrong 2 abort '^truestep: rank 2 sent its parameters \(message 9, 9000 bytes\) where rank 3 awaits its parameters \(message 3, .* bytes\); all ranks end$' 0 1
check 2 --deaf 0 abort '^truestep: rank 0 did not take the parameters \(message 3\) of rank 1 within 2 s; all ranks end$' 1
# Open MPI names the rank that was killed, MPICH only the process.
of_the_killed() { echo "rank $1 .*exited on signal 9|Killed \(signal 9\)"; }
check 2 --die 0 killed "$(of_the_killed 0)"
check 4 --die 3 killed "$(of_the_killed 3)"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
