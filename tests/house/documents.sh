#!/bin/sh
# SPDX-License-Identifier: MIT
# documents.sh SCRIPT: what scripts/documents --check finds wrong in a tree of a few lines, and what it lets pass.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/scripts" "$scratch/alloc/platform" "$scratch/executor/pool" "$scratch/docs" "$scratch/include/stint"
cp "$1" "$scratch/scripts/documents"
echo '    "stint-first": "examples/first/main.c",' >"$scratch/scripts/reference"
touch "$scratch/include/stint/first.h"
touch "$scratch/meson_options.txt"
cat >"$scratch/alloc/platform/first.c" <<'CODE'
/* The first. */
int sti_first(void)
{
    return 1;
}
CODE
cat >"$scratch/executor/pool/second.c" <<'CODE'
int sti_second(void)
{
    return sti_first();
}
CODE

fail() {
  echo "$*" >&2
  exit 1
}

# page TEXT: what the tree has for a document.
page() {
  printf '%s\n' "$1" >"$scratch/docs/page.md"
}

passes() {
  page "$1"
  "$scratch/scripts/documents" --check >"$scratch/said" || fail "does not let pass: $1: $(cat "$scratch/said")"
}

finds() { # NAME TEXT
  page "$2"
  if "$scratch/scripts/documents" --check >"$scratch/said"; then fail "lets pass: $2"; fi
  grep -qF -- "$1" "$scratch/said" || fail "does not name $1: $(cat "$scratch/said")"
}

passes '`sti_first()` is in `alloc/platform/first.c`, and `sti_second` calls it. See [above](#above).

# Above'
finds 'sti_third()' 'There is no `sti_third()`.'
finds 'sti_third' 'There is no `sti_third`.'
finds 'sti_third' '```
sti_third();
```'
finds 'alloc/platform/third.c' 'There is no `alloc/platform/third.c`.'
finds 'third.md' 'There is no [page](third.md).'
finds '#above' 'There is nothing [above](#above).'
passes '| `alloc/platform/first.c` | `sti_first()` | and no `sti_second()` |'
finds 'sti_first' '| `executor/pool/second.c` | `sti_first()` | called there, but not defined |'
passes 'See `stint(7)`, `stint-first(1)` and `stint-first(7)`.'
finds 'stint-third(1)' 'There is no `stint-third(1)`.'
finds 'stint-third(7)' 'There is no `stint-third(7)`.'
