#!/usr/bin/env bash
# A standard output that is full or closed is no success, and who is interrupted, or finds the disk full, leaves no half of a file.
# Usage: tool/tests/streams_test.sh TOOL
set -uo pipefail
truestep=${1:?usage: tool/tests/streams_test.sh TOOL}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

one_line_and_2() { # one_line_and_2 WHAT STATUS PART: errors are in $folder/errors
    [ "$2" = 2 ] || fail "$1: status $2, not 2"
    [ "$(wc -l <"$folder/errors")" = 1 ] || fail "$1: not one line: $(cat "$folder/errors")"
    grep -q "^truestep: .*$3" "$folder/errors" || fail "$1: $(cat "$folder/errors")"
}

for arguments in --version --help 'check --help' 'check --list' 'model predict --size 1e9 --ranks 4'; do
    # shellcheck disable=SC2086
    "$truestep" $arguments >/dev/full 2>"$folder/errors"
    one_line_and_2 "$arguments >/dev/full" $? 'did not take everything'
    # shellcheck disable=SC2086
    "$truestep" $arguments >&- 2>"$folder/errors"
    one_line_and_2 "$arguments >&-" $? 'standard output is closed'
done

# A variable by its old name is named with its new one; nothing else changes.
SCAPE_SCRATCH=/nowhere "$truestep" record -o "$folder/old" 2>"$folder/errors" >/dev/null || fail "an old name of a variable ends a command"
[ "$(cat "$folder/errors")" = "truestep: SCAPE_SCRATCH is not read any more; its name is TRUESTEP_SCRATCH" ] || fail "old name: $(cat "$folder/errors")"

# What is opened later would get the number of the closed stream, and what is printed.
"$truestep" record -o "$folder/a" >&- 2>"$folder/errors"
one_line_and_2 'record >&-' $? 'standard output is closed'
[ ! -e "$folder/a" ] || fail "a trace was written nonetheless"

# A signal that a shell ignores for its background jobs stays ignored: not INT, then.
for signal in TERM HUP; do
    "$truestep" record -o "$folder/b" --steps 100000 >/dev/null 2>&1 &
    recorder=$!
    until [ -e "$folder/b.partial" ]; do
        kill -0 $recorder 2>/dev/null || fail "record ended before it began to write"
    done
    kill -$signal $recorder
    wait $recorder
    [ $? -gt 128 ] || fail "record was not ended by $signal"
    [ -z "$(ls "$folder" | grep '^b')" ] || fail "$signal leaves $(ls "$folder")"
done
# As on a disk that takes 1 KiB of a file, and then no more.
"$truestep" record -o "$folder/run" >/dev/null
mkdir "$folder/full"
for option in --report --json --junit; do
    (trap '' XFSZ; ulimit -f 1; "$truestep" verify $option "$folder/full/$option" "$folder/run" >/dev/null 2>"$folder/errors")
    one_line_and_2 "verify $option on a full disk" $? 'could not be written'
    [ -z "$(find "$folder/full" -type f)" ] || fail "verify $option on a full disk leaves $(find "$folder/full" -type f)"
done
# A link stays one, and what is no file is written in place: a trace goes through a pipe.
mkdir "$folder/links"
ln -s links/later "$folder/link"
for steps in 2 3; do
    "$truestep" record -o "$folder/link" --steps $steps >/dev/null
    [ -L "$folder/link" ] || fail "record -o replaces a link"
    "$truestep" record -o /dev/stdout --steps $steps | cmp - "$folder/links/later" || fail "record -o /dev/stdout is another trace"
done
[ "$(ls "$folder/links")" = later ] || fail "record -o through a link leaves $(ls "$folder/links")"
echo "streams and interruptions: as they should be"
