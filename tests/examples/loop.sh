#!/bin/sh
# SPDX-License-Identifier: MIT
# loop.sh PROGRAM [SOURCE PAGE]: the example of an event loop answers each line, from a pipe and from a file, and stops what
# takes too long. The lines that the page shows are in the source.
set -eu
export LC_ALL=C
where=$(mktemp -d)
trap 'rm -rf "$where"' EXIT
printf '3\n100\n20\n1000000000000\n' >"$where/lines"
printf '%s\n' '1000000000000: deadline' '100: 25 primes' '20: 8 primes' '3: 1 primes' >"$where/expected"
"$1" <"$where/lines" | sort >"$where/from-file"
cat "$where/lines" | "$1" | sort >"$where/from-pipe"
diff "$where/expected" "$where/from-file"
diff "$where/expected" "$where/from-pipe"
[ $# = 3 ] || exit 0
# The indented lines below the name of this loop, up to the next name.
name=$(basename "$2" .c)
awk -v name="**$name**" 'index($0, "**") == 1 || /^What else/ { mine = index($0, name) == 1 } mine && /^    / { print substr($0, 5) }' \
  "$3" >"$where/shown"
[ "$(wc -l <"$where/shown")" -gt 1 ]
while read -r line; do
  grep -qF -e "$line" "$2" || {
    echo "$3 shows what is not in $2: $line" >&2
    exit 1
  }
done <"$where/shown"
