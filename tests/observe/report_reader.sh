#!/bin/sh
# SPDX-License-Identifier: MIT
# report_reader.sh PROGRAM: pprof, Go's, opens the profile of a report: by who held the blocks, where a profile ran, and
# otherwise by where the task was.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

"$(realpath "$1")" "$scratch/held.gz" "$scratch/stopped.gz"
for name in held stopped; do
  go tool pprof -raw -symbolize=none "$scratch/$name.gz" >"$scratch/$name"
  awk '/^Samples:/ { inside = 1; next } /^Locations/ { inside = 0 }
    inside && /^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+: / { sub(":", "", $4); sum += $4; lines++ }
    END { printf "%.0f %.0f\n", sum, lines }' "$scratch/$name" >"$scratch/sum"
  read -r bytes lines <"$scratch/sum"
  # 20,000 blocks that hold 512 bytes each; estimated by 10,000 samples in the one case.
  [ "$bytes" -gt 9700000 ] && [ "$bytes" -lt 10900000 ] || fail "$name: $bytes bytes"
  [ "$lines" -ge 1 ] || fail "$name: no sample"
  grep -q 'task:\[held\]' "$scratch/$name" || fail "$name: pprof knows no label"
  go tool pprof -top -symbolize=none -sample_index=inuse_space "$scratch/$name.gz" >"$scratch/top" 2>/dev/null
  grep -q ' stop$' "$scratch/top" || fail "$name: the task's function is missing"
done
grep -q ' hold_block' "$scratch/held" || fail "who held the blocks is missing"
! grep -q ' hold_block' "$scratch/stopped" || fail "nobody could know who held the blocks"
