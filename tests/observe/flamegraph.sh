#!/bin/sh
# SPDX-License-Identifier: MIT
# flamegraph.sh SCRIPT: what the flame graph of known stacks shows.
set -eu
script=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

cat >"$scratch/stacks" <<'STACKS'
[task one];main;parse<T>;grow 3072
[task two];main;parse<T>;grow 3072
main;parse<T>;read & keep 2048
main;tiny 1
[task two];main 4095
STACKS

"$script" --title "A <title>" "$scratch/stacks" >"$scratch/merged.svg"
"$script" --labels <"$scratch/stacks" >"$scratch/labels.svg"
for drawing in "$scratch"/*.svg; do
  python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$drawing"
done

shows() { # FILE TEXT
  grep -qF -- "$2" "$scratch/$1" || fail "$1 does not show $2"
}
shows merged.svg 'A &lt;title&gt;: 12 KiB'
shows merged.svg '<title>all: 12 KiB, 100.00 %</title>'
shows merged.svg '<title>main: 12 KiB, 100.00 %</title>'
shows merged.svg '<title>grow: 6 KiB, 50.00 %</title><rect x="10.0" y="40" width="590.0"'
shows merged.svg '<title>read &amp; keep: 2 KiB, 16.67 %</title><rect x="600.0" y="40" width="196.7"'
shows labels.svg '<title>[task two]: 6.999 KiB, 58.33 %</title>'
if grep -q 'tiny\|task' "$scratch/merged.svg"; then
  fail "merged.svg shows what is too small to be seen, or tasks"
fi

for bad in 'main;work' 'main 12x' ' 12' ''; do
  if printf '%s\n' "$bad" | "$script" >"$scratch/out" 2>"$scratch/error"; then
    fail "accepted '$bad'"
  fi
  [ -s "$scratch/error" ] && [ ! -s "$scratch/out" ] || fail "said nothing of '$bad', or drew it"
done
if "$script" "$scratch/missing" 2>"$scratch/error"; then
  fail "accepted a file that is not there"
fi
grep -q '^stint-flamegraph: .*missing: No such file' "$scratch/error" || fail "did not say which file is not there"
