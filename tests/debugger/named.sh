#!/bin/sh
# SPDX-License-Identifier: MIT
# named.sh PROGRAM [VALGRIND]: in debug mode a report of valgrind, or of AddressSanitizer in a program
# that is built for it, names the task as its thread, with the callstack.
set -eu
program=$(realpath "$1")
shift
report=$(mktemp)
trap 'rm -f "$report"' EXIT

fail() {
  echo "$*" >&2
  cat "$report" >&2
  exit 1
}

has() {
  grep -q -e "$1" "$report" || fail "nothing like: $1"
}

if [ $# = 0 ]; then
  STINT_DEBUG=1 "$program" inner >/dev/null 2>"$report" && fail "nothing was reported"
  has 'thread T1 (inner-parse)'
  has ' in look '
  has ' in nest '
  has 'sti_boundary_run'
  exit
fi

# check DEBUG WHOSE NAME
check() {
  STINT_DEBUG=$1 "$valgrind" --num-callers=20 --soname-synonyms=somalloc=nouserintercepts "$program" "$2" >/dev/null 2>"$report"
  has "Thread 2 $3:"
}

valgrind=$1
check 1 outer outer-parse
check 1 none books/0
check 0 inner books/0
check 1 inner inner-parse
has 'by 0x.*: nest '
has 'by 0x.*: sti_boundary_run'
has 'by 0x.*: sti_worker_main'
