#!/bin/sh
# SPDX-License-Identifier: MIT
# plugins.sh PROGRAM MODULE...: what comes of each plugin, good or bad, and that the good ones do as well beside all the bad
# ones. Whether a double free or an overrun is noticed is chance; that the host does not suffer from it is not.
set -eu
export LC_ALL=C
where=$(mktemp -d)
trap 'rm -rf "$where"' EXIT
cat >"$where/expected" <<'END'
17 plugins, and the host lives; nothing is left running
aborts.so: crash (SIGABRT)
crashes_at_load.so: cannot be loaded (the template was ended by signal 6 (Aborted) in its setup)
descriptors.so: failed (Too many open files)
double_free.so: whatever
exits.so: exit (exit status 3)
leaves_process.so: ok (has left a process behind)
lock_loop.so: deadline
memory.so: memory-limit
null_pointer.so: crash (SIGSEGV)
overrun.so: whatever
pauses.so: deadline
recursion.so: crash (SIGSEGV)
sleeping_thread.so: deadline
sort_loop.so: deadline
sum.so: ok (sum 200)
wild_write.so: crash (SIGSEGV)
words.so: ok (9 words)
END
"$@" >"$where/printed"
sort "$where/printed" | sed -E -e 's/ at address [^)]*//' \
  -e 's/^(double_free|overrun)\.so: (ok|crash|deadline)( \(.*\))?$/\1.so: whatever/' >"$where/found"
diff "$where/expected" "$where/found"
