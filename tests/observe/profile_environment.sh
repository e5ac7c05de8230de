#!/bin/sh
# SPDX-License-Identifier: MIT
# profile_environment.sh PROGRAM: profiles of a program that knows nothing of them, by STINT_PROFILE.
set -eu
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() {
  echo "$*" >&2
  exit 1
}

sum() {
  awk '{ sum += $NF } END { printf "%.0f\n", sum }' "$1"
}

# At the end.
STINT_PROFILE=2k:end.collapsed "$program" >totals 2>errors
[ ! -s errors ] || fail "complained: $(cat errors)"
read -r _ alloc_bytes _ <totals
[ "$(sum end.collapsed)" = "$alloc_bytes" ] || fail "wrote $(sum end.collapsed) of $alloc_bytes bytes"
STINT_PROFILE=2048:end.gz "$program" >totals
gzip -t end.gz
STINT_PROFILE=1m:%p.%p.gz "$program" >totals
ls [0-9]*.[0-9]*.gz >/dev/null || fail "no file is called after the process"
[ ! -e end.gz.part ] || fail "left a part behind"

# How many threads a program has that starts none.
mkfifo input output
"$program" wait <input >output &
child=$!
exec 3>input 4<output
read -r line <&4
threads=$(find "/proc/$child/task" -mindepth 1 -maxdepth 1 | wc -l)
exec 3>&-
wait $child
exec 4<&-

# With its last thread, if the main one has ended before. (ThreadSanitizer's own, or an emulation's, is the last.)
if [ "$threads" != 1 ]; then
  echo "not tested: the end of the last thread: this system runs a thread of its own beside the program's only one"
else
  STINT_PROFILE=2k:last.collapsed timeout 10 "$program" mainless || fail "the process did not end with its last thread"
  grep -q allocate_and_keep last.collapsed || fail "the profile of the last thread is incomplete"
fi

# How often the thread that waits for the signal has slept.
sleeps() { # PID
  for task in "/proc/$1"/task/*; do
    [ "$(cat "$task/comm")" != stint-profile ] || sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' "$task/status"
  done
}

# On the signal, while the program runs on, any number of times; until then the thread sleeps.
STINT_PROFILE=2k:signal.collapsed "$program" wait <input >output &
child=$!
exec 3>input 4<output
read -r line <&4
[ "$line" = ready ]
sleep 1
slept=$(sleeps $child)
sleep 1
[ -n "$slept" ] && [ "$(sleeps $child)" = "$slept" ] || fail "woke up for nothing: $slept, then $(sleeps $child)"
for round in 1 2; do
  rm -f signal.collapsed
  kill -USR2 $child
  waited=0
  while [ ! -e signal.collapsed ]; do
    [ $waited -lt 600 ] || fail "no profile came after signal $round"
    sleep 0.1
    waited=$((waited + 1))
  done
  grep -q allocate_and_keep signal.collapsed || fail "the profile after signal $round is incomplete"
done
exec 3>&-
wait $child || fail "the program did not end well"
exec 4<&-

# A program's own handler stays its own, and so does a signal that is ignored.
STINT_PROFILE=2k:handled.collapsed "$program" handle <input >output &
child=$!
exec 3>input 4<output
read -r line <&4
kill -USR2 $child
read -r line <&4
[ "$line" = mine ] || fail "the program's handler was not called"
exec 3>&-
wait $child
exec 4<&-
(
  trap '' USR2
  STINT_PROFILE=2k:ignored.collapsed "$program" wait <input >output &
  child=$!
  exec 3>input 4<output
  read -r line <&4
  kill -USR2 $child
  exec 3>&-
  wait $child
)

# The child of a fork(2) beside the writing thread is refused everything, and has no profile.
STINT_PROFILE=2k:parent.collapsed "$program" fork >totals
[ "$(wc -l <totals)" = 2 ] && head -n 1 totals | grep -qi 'not supported' || fail "a child has a profile: $(cat totals)"
[ "$(sum parent.collapsed)" = "$(tail -n 1 totals | cut -d ' ' -f 2)" ] || fail "the child wrote the parent's profile"

# Errors are printed, and harm nothing.
complains() { # PATTERN VALUE
  STINT_PROFILE=$2 "$program" >totals 2>errors || fail "$2 made the program fail"
  [ "$(wc -l <errors)" = 1 ] && grep -q "^stint: STINT_PROFILE: .*$1" errors || fail "$2: said $(cat errors)"
}
complains 'No space left' 2k:/dev/full
complains 'No such file' 2k:missing/directory/file
for value in '' 2k 2k: :file 0:file -5:file 2kk:file x:file 99999999999999999999:file 99999999999999999m:file; do
  complains 'interval:path' "$value"
done
complains 'Invalid' 7:small
[ -c /dev/full ] || fail "/dev/full is no device any more"

# A full disk does not destroy an older file.
echo old >full.collapsed
ln -s /dev/full full.collapsed.part
STINT_PROFILE=2k:full.collapsed "$program" >totals 2>errors
grep -q 'No space left' errors || fail "a full disk was not reported"
[ "$(cat full.collapsed)" = old ] || fail "the old profile was lost"

# A program that leaves without ending writes nothing.
STINT_PROFILE=2k:exited.collapsed "$program" exit
[ ! -e exited.collapsed ] || fail "wrote a profile at _exit"
