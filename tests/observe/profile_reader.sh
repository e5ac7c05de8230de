#!/bin/sh
# SPDX-License-Identifier: MIT
# profile_reader.sh PROGRAM: pprof, Go's, opens a profile; its sums, those of the collapsed stacks and those that the
# program read are the same.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

"$(realpath "$1")" write "$scratch/pprof.gz" "$scratch/allocated" "$scratch/inuse" >"$scratch/totals"
read -r alloc_objects alloc_bytes inuse_objects inuse_bytes <"$scratch/totals"
[ "$alloc_bytes" -gt 1000000 ] && [ "$inuse_bytes" -gt 100000 ] && [ "$alloc_bytes" -gt "$inuse_bytes" ] ||
  fail "the totals are $(cat "$scratch/totals")"

sum() {
  awk '{ sum += $NF } END { printf "%.0f\n", sum }' "$1"
}
[ "$(sum "$scratch/allocated")" = "$alloc_bytes" ] || fail "the collapsed stacks have $(sum "$scratch/allocated") bytes"
[ "$(sum "$scratch/inuse")" = "$inuse_bytes" ] ||
  fail "the collapsed stacks have $(sum "$scratch/inuse") bytes in use"
grep -q '^\[account tenant:one\];\[task committed\];.*;main;.*;work;allocate_and_keep [0-9]*$' "$scratch/inuse" ||
  fail "a function, task or account is missing in $(cat "$scratch/inuse")"
grep -q '^\[account tenant:one\];\[task rolled back\];.*;allocate_and_keep [0-9]*$' "$scratch/allocated" ||
  fail "what was rolled back is missing in $(cat "$scratch/allocated")"
if grep -q 'rolled back\|allocate_and_free' "$scratch/inuse"; then
  fail "what has ended is in use in $(cat "$scratch/inuse")"
fi

go tool pprof -raw -symbolize=none "$scratch/pprof.gz" >"$scratch/raw"
awk '/^Samples:/ { inside = 1; next } /^Locations/ { inside = 0 }
  inside && /^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+: / {
    sub(":", "", $4)
    for (i = 1; i <= 4; i++) sum[i] += $i
  }
  END { printf "%.0f %.0f %.0f %.0f\n", sum[1], sum[2], sum[3], sum[4] }' "$scratch/raw" >"$scratch/read"
cmp -s "$scratch/read" "$scratch/totals" || fail "pprof read $(cat "$scratch/read"), not $(cat "$scratch/totals")"

grep -qF 'alloc_objects/count alloc_space/bytes[dflt] inuse_objects/count inuse_space/bytes' "$scratch/raw" ||
  fail "the types of the values are wrong"
grep -q 'account:\[tenant;one\] task:\[committed\]' "$scratch/raw" || fail "pprof knows no labels"
grep -q 'M=[0-9]* allocate_and_keep ' "$scratch/raw" || fail "pprof knows no function"
# With its build id, which a reader can find symbols by.
grep -q "/$(basename "$1") [0-9a-f]\{40\} \[FN\]" "$scratch/raw" || fail "pprof knows no build id of the program"

go tool pprof -top -symbolize=none -sample_index=inuse_space "$scratch/pprof.gz" >"$scratch/top" 2>/dev/null
grep -q ' allocate_and_keep$' "$scratch/top" ||
  fail "pprof's list lacks the function that keeps memory"
