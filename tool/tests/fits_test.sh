#!/usr/bin/env bash
# A wrong run is told with the known mistake that makes its values: planted mistakes are recorded, and verify has to name them.
# Usage: tool/tests/fits_test.sh TOOL
set -uo pipefail
truestep=${1:?usage: tool/tests/fits_test.sh TOOL}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

verify_planted() { # verify_planted NUMBER CASE: what verify says of such a run is in $folder/said
    "$truestep" check --planted "$1" --property reference --case "$2" --save "$folder/$1" --brief >"$folder/checked"
    [ $? = 1 ] || fail "the gate finds nothing wrong with planted mistake $1"
    "$truestep" verify "$folder/$1"/*.safetensors --json "$folder/$1.json" >"$folder/said"
    [ $? = 1 ] || fail "verify finds nothing wrong with planted mistake $1"
}

# All that a recorded run of these two kinds shows at all, but for 81, which writes into a payload in flight: what it makes is a matter of time.
common='workers=3,tensors=a:40+b:5:dense,density=0.1,decay=0.1,correction=adam'
named=0
hinted=
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 38 40 42 43 44 54 \
    67 69 76 77 78 79 80 83 84 88 90 91 92 93; do
    case $number in
        17 | 34 | 35 | 42 | 43 | 44 | 69 | 76 | 77 | 78 | 88 | 93) kind=data=ties,steps=6,seed=2,clip=0.5 ;;
        *) kind=data=normal,steps=4,seed=3 ;;
    esac
    verify_planted $number "$common,$kind"
    grep -q "^  matches known bug $number: .* (\([0-9]*\) of \1 wrong values, bit for bit)\(; [0-9]* others* explains* as many\)*$" "$folder/said" ||
        fail "mistake $number is not named: $(cat "$folder/said")"
    grep -q "^    matches known bug $number: .* (\([0-9]*\) of \1 wrong values, bit for bit)\(; [0-9]* others* explains* as many\)*$" "$folder/checked" ||
        fail "the gate does not name mistake $number: $(cat "$folder/checked")"
    grep -q "\"matches known bug $number: " "$folder/$number.json" || fail "the JSON does not name mistake $number"
    named=$((named + 1))
    # What the values have in common is said beside it, and of no other mistake.
    hint=
    case $number in
        2) hint='first_moment of step 1: \([0-9]*\) of \1 wrong values are exactly 1/3 of what they should be: divided by the number of ranks twice?' ;;
        3) hint='first_moment of step 1: \([0-9]*\) of \1 wrong values are exactly 3 times what they should be: a sum instead of a mean?' ;;
    esac
    for said in said checked; do
        [ -z "$hint" ] || grep -q "^ *$hint$" "$folder/$said" || fail "of mistake $number there is no hint: $(cat "$folder/$said")"
    done
    grep -q 'number of ranks\|instead of a mean\|the step makes\|the step used' "$folder/said" && hinted="$hinted $number"
done

[ "$hinted" = ' 2 3 11 93' ] || fail "what the values have in common is said of the mistakes$hinted, and not of 2, 3 and 93, which are of a factor, and 11, whose masks are late"

# Of a part of such a run, too: from a step on, with the state at that point, and some segments of it.
verify_part() { # verify_part NUMBER OPTIONS: of tool/tests/cut_trace.py
    "$(dirname "$0")/cut_trace.py" "$folder/$1"/*.safetensors "$folder/part.safetensors" "${@:2}" || fail "no part of $1"
    "$truestep" verify "$folder/part.safetensors" >"$folder/said"
    [ $? = 1 ] || fail "verify finds nothing wrong with a part (${*:2}) of a run with planted mistake $1"
    grep -q "^  matches known bug $1: .* (\([0-9]*\) of \1 wrong values, bit for bit)\(; [0-9]* others* explains* as many\)*$" "$folder/said" ||
        fail "mistake $1 is not named of a part (${*:2}): $(cat "$folder/said")"
}
for number in 2 3 5 6 7 8 9 11 12 17 22 34 44 54; do
    verify_part $number --begin 1
done
for number in 2 7 8 9 11 12 32 54; do
    verify_part $number --segments 0,2
done
verify_part 9 --begin 1 --segments 0,2

# Of GASLoC, in the same words.
# All that a trace shows but 7, which adds neighbours as they come: what it makes is a matter of time.
common='size=37,steps=2,inner=adamw'
for number in 1 2 3 4 5 6 8 9 10 11 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 34 42 43 45 46; do
    case $number in
        2 | 45) kind=law=exponential,workers=4,rounds=4,eta=0.5 ;;
        16 | 17) kind=law=pairs,workers=3,rounds=4 ;;
        18) kind=law=ring,workers=3,rounds=4 ;;
        19 | 43) kind=law=pairs,workers=3,rounds=4,uneven=1 ;;
        11 | 42) kind=law=exponential,workers=4,rounds=4,gamma=0.5 ;;
        25) kind=law=none,workers=1,rounds=4 ;;
        29) kind=law=complete,workers=4,rounds=4 ;;
        30 | 31) kind=law=exponential,workers=4,rounds=4,skip=2 ;;
        34) kind=law=exponential,workers=4,rounds=4,decay=0.1 ;;
        *) kind=law=exponential,workers=4,rounds=4 ;;
    esac
    "$truestep" check gasloc --planted $number --property reference --case "$kind,$common" --save "$folder/gasloc-$number" --brief >"$folder/checked"
    [ $? = 1 ] || fail "the gate finds nothing wrong with GASLoC's planted mistake $number"
    "$truestep" verify "$folder/gasloc-$number"/*.safetensors >"$folder/said"
    [ $? = 1 ] || fail "verify finds nothing wrong with GASLoC's planted mistake $number"
    texts="said checked"
    case $number in 31 | 43) texts=said ;; esac # the gate sees them by a counter, before it looks at any value
    for said in $texts; do
        grep -q "^ *matches known bug $number: .* (\([0-9]*\) of \1 wrong values, bit for bit)\(; [0-9]* others* explains* as many\)*$" "$folder/$said" ||
            fail "GASLoC's mistake $number is not named: $(cat "$folder/$said")"
    done
    named=$((named + 1))
done

# The gate says it once for a cause, and nothing of gradients that it has made itself.
"$truestep" check --planted 6 --property reference --property mask.order --cases 30 --brief --report "$folder/page" >"$folder/checked"
[ $? = 1 ] || fail "the gate finds nothing wrong with planted mistake 6"
[ "$(grep -c 'matches known bug 6:' "$folder/checked")" = 1 ] || fail "not said once: $(cat "$folder/checked")"
grep -q 'averaged before' "$folder/checked" && fail "the gate doubts its own gradients"
grep -q '<h4>What may be wrong</h4><ul class="lines"><li>matches known bug 6:' "$folder/page/index.html" || fail "the page does not say it"
"$truestep" report --out "$folder/again" "$folder/page/results.json" >/dev/null || fail "the results with what fits are not read"

# Of a program that shares nothing with the planted mistakes, too.
program=$(cd "$(dirname "$0")/../.." && pwd)/docs/examples/programs/scape_plain.py
MISTAKE=residual "$truestep" check --program "python3 $program" --property reference --brief --workers 2,3 --tensors a:13,b:5:dense --cases 3 >"$folder/checked"
grep -q '^    matches known bug 6: ' "$folder/checked" || fail "what is wrong with a program is not said: $(cat "$folder/checked")"

# A mistake that is made once, in a run that is too long, too large, or has a segment that is too large: from the recorded state before it.
changed() { # changed NAME OPTIONS: of tool/tests/change_trace.py; what verify says of it is in $folder/said
    "$(dirname "$0")/change_trace.py" "$folder/$1" "$folder/$1-changed" "${@:2}" || fail "$1 was not changed"
    "$truestep" verify "$folder/$1-changed" >"$folder/said"
    [ $? = 1 ] || fail "verify finds nothing wrong with $1 (${*:2})"
}
made_once() { # made_once NAME STEP SCOPE OPTIONS: of truestep record
    "$truestep" record -o "$folder/$1" "${@:4}" >/dev/null || fail "$1 was not recorded"
    changed "$1" --clear-residual "$2"
    rm "$folder/$1" "$folder/$1-changed"
    grep -q "^  matches known bug 7: .* (\([0-9]*\) of \1 wrong values, bit for bit)\(; [0-9]* others* explains* as many\)*$" "$folder/said" || fail "$1: not named: $(cat "$folder/said")"
    grep -q "^  tried $3" "$folder/said" || fail "$1: not said from where: $(cat "$folder/said")"
}
made_once short 5 'from the recorded state before step 5$' --tensors a:40,b:5:dense --steps 6
made_once long 1540 'from the recorded state before step 1540$' --tensors a:40,b:5:dense --workers 2 --steps 1542
made_once large 2 'from the recorded state before step 2, on 50000 of 1150000 values, the first of them tensor a, index 0 ' \
    --tensors a:50000,b:1000000,c:100000 --workers 2 --steps 2 --partition by_tensor --clip-norm 0.5
made_once segment 1 'on 125000 of 2200000 values, the first of them tensor a, index 0 (coordinate 0): a part of one segment' \
    --tensors a:2200000 --workers 2 --steps 1 --partition by_tensor --clip-norm 0.5

# Of payloads whose means are rounded, too: what is tried begins at the recorded state, and not at a first step.
for payload in bf16 bf16_both e5m2 e5m2_both; do
    "$truestep" record -o "$folder/$payload" --tensors a:12,b:3:dense --workers 2 --steps 3 --density 0.3 --payload $payload >/dev/null || fail "$payload was not recorded"
    changed "$payload" --clear-residual 2
    grep -q 'could not be tried\|known bugs were not tried' "$folder/said" && fail "$payload: nothing could be tried: $(cat "$folder/said")"
    grep -q '^  tried \|^  matches \|^  no known bug matches' "$folder/said" || fail "$payload: nothing was tried: $(cat "$folder/said")"
done

# A recorder that looks a moment too early, or too late.
"$truestep" record -o "$folder/masks" >/dev/null || fail "nothing was recorded"
changed masks --mask-of-next
grep -q '^  mask: what the step makes as its next_mask, in \([0-9]*\) of \1 segments in which it is wrong, at 7 steps: ' "$folder/said" || fail "the slip is not said: $(cat "$folder/said")"
changed masks --next-of-mask
grep -q '^  next_mask: the mask that the step used, in ' "$folder/said" || fail "the other slip is not said: $(cat "$folder/said")"

# A quotient by way of the reciprocal is a rounding, and no more.
verify_planted 36 'workers=3,tensors=a:40,density=1,data=normal,steps=1,seed=3'
grep -q 'only rounding differs; try --level rel' "$folder/said" || fail "a rounding is not said: $(cat "$folder/said")"

# A right run has nothing to explain.
"$truestep" record -o "$folder/right" >/dev/null || fail "nothing was recorded"
"$truestep" verify "$folder/right" >"$folder/said" || fail "a right run does not pass"
grep -q 'what may be wrong' "$folder/said" && fail "a right run is explained"
echo "$named planted mistakes, each named by what it does to a recorded run"
