#!/bin/sh
# SPDX-License-Identifier: MIT
# epoll.sh PROGRAM: the example of an event loop answers each line, from a pipe and from a file, and stops what takes too
# long.
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
