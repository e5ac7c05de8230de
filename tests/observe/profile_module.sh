#!/bin/sh
# SPDX-License-Identifier: MIT
# profile_module.sh PROGRAM LIBRARY MODULE MIMALLOC: where the library finds the module that writes profiles, and what is
# said where it is not.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/bin" "$scratch/lib/stint"
cp "$1" "$scratch/bin/program"
cp "$2" "$scratch/lib/$(basename "$2" | sed 's/\.so\..*/.so.0/')"
module=$(realpath "$3")
backend=:$4 # where only the build looks for it, if it is not the system's
cd "$scratch"
export LD_LIBRARY_PATH="lib$backend" # relative: the program below leaves this folder

fail() {
  echo "$*" >&2
  exit 1
}

# As it is installed; as it is built.
for place in lib/stint lib; do
  cp "$module" "$place"
  (cd / && "$scratch/bin/program" leave "$scratch/x" 2>"$scratch/errors") && fail "the search path is not relative"
  bin/program write profile.gz profile.collapsed profile.inuse >totals || fail "not found in $place"
  gzip -t profile.gz
  STINT_PROFILE=2k:$scratch/end.collapsed bin/program leave >totals 2>errors
  [ ! -s errors ] || fail "not found in $place by a program that went elsewhere: $(cat errors)"
  grep -q allocate_and_keep end.collapsed || fail "the profile at the end is incomplete"
  rm "$place/$(basename "$module")" profile.* end.*
done

# Without it a program runs on, and can gather and read a profile.
bin/program write profile.gz profile.collapsed profile.inuse >totals 2>errors && fail "written without the module"
grep -q 'profile.gz: Can not access a needed shared library' errors || fail "said $(cat errors)"
read -r _ alloc_bytes _ <totals
[ "$alloc_bytes" -gt 0 ] || fail "nothing was gathered"
STINT_PROFILE=2k:end.gz bin/program >totals 2>errors || fail "made the program fail"
[ "$(cat errors)" = 'stint: STINT_PROFILE: end.gz: Can not access a needed shared library' ] || fail "said $(cat errors)"
[ ! -e end.gz ] && [ ! -e end.gz.part ] || fail "left a file behind"

# A file that is not a module; a module that lacks a library.
echo nonsense >"lib/stint/$(basename "$module")"
bin/program write profile.gz profile.collapsed profile.inuse >totals 2>errors && fail "written by nonsense"
grep -q 'Can not access a needed shared library' errors || fail "said $(cat errors)"
