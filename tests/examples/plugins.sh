#!/bin/sh
# SPDX-License-Identifier: MIT
# plugins.sh PROGRAM MODULE...: what comes of each plugin, good or bad, and that the good ones do as well beside all the bad
# ones; with a control group, where one can be made, also those that start threads and processes. Whether a double free or
# an overrun is noticed is chance; that the host does not suffer from it is not.
set -eu
export LC_ALL=C
program=$1
shift
where=$(mktemp -d)
groups=/sys/fs/cgroup/pids/stint-plugins-$$
trap 'rm -rf "$where"; rmdir "$groups" 2>/dev/null || true' EXIT
cat >"$where/expected" <<'END'
17 plugins, and the host lives; nothing is left running
aborts.so: crash (SIGABRT)
crashes_at_load.so: cannot be loaded (the template was ended by signal 6 (Aborted) in its setup)
descriptors.so: failed (Too many open files)
double_free.so: whatever
exits.so: exit (exit status 3)
leaves_process.so: failed (Resource temporarily unavailable)
lock_loop.so: deadline
memory.so: memory-limit
null_pointer.so: crash (SIGSEGV)
overrun.so: whatever
pauses.so: deadline
recursion.so: crash (SIGSEGV)
sleeping_thread.so: failed (Resource temporarily unavailable)
sort_loop.so: deadline
sum.so: ok (sum 200)
wild_write.so: crash (SIGSEGV)
words.so: ok (9 words)
END

check() {
  "$program" "$@" >"$where/printed"
  sort "$where/printed" | sed -E -e 's/ at address [^)]*//' \
    -e 's/^(double_free|overrun)\.so: (ok|crash|deadline)( \(.*\))?$/\1.so: whatever/' >"$where/found"
  diff "$where/expected" "$where/found"
}

check "$@"
mkdir "$groups" 2>/dev/null || exit 0
sed -i -e 's/^leaves_process.*/leaves_process.so: ok (has left a process behind)/' \
  -e 's/^sleeping_thread.*/sleeping_thread.so: deadline/' "$where/expected"
check -g "$groups" "$@"
