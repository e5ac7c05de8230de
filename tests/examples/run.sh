#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh STINT-RUN PROGRAM STATIC-PROGRAM OWN-MALLOC OPERATORS ARENA: stint-run from outside. The program is run_program.c,
# the next one the same linked statically, or '' where that cannot be linked, the next one has a malloc of its own. The
# last two are run_operators.cpp.
set -u
run=$1
program=$2
static=$3
own_malloc=$4
operators=$5
arena=$6
unset STINT_DEBUG # whose messages would stand among what is expected
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# expect NAME STATUS PATTERN COMMAND...: the command ends with that status, and all that it prints matches.
expect() {
    local name=$1 status=$2 pattern=$3 output ended
    shift 3
    output=$("$@" 2>&1)
    ended=$?
    # shellcheck disable=SC2053 # a pattern
    if [ $ended != "$status" ] || [[ $output != $pattern ]]; then
        printf '%s: status %s, not %s, and it printed:\n%s\n' "$name" $ended "$status" "$output" >&2
        failed=1
    fi
}

# unless LACK NAME STATUS PATTERN COMMAND...: what is expected, but for a sentence that says why it cannot be.
unless() {
    local lack=$1
    shift
    if [ -n "$lack" ]; then printf 'not tested: %s\n' "$lack"; else expect "$@"; fi
}

no_static=
[ -n "$static" ] || no_static='no static program can be linked here'

# What emulates another processor starts this machine's own shell, and may have threads of its own.
foreign_shell=
[ -z "$(LD_PRELOAD=$(dirname "$run")/stint-run-preload.so /bin/sh -c : 2>&1)" ] ||
    foreign_shell='the shell is a program of another processor'
"$program" sleep 1 &
sleep 0.5
own_threads=
[ "$(find /proc/$!/task -mindepth 1 -maxdepth 1 | wc -l)" = 1 ] ||
    own_threads="this system runs a thread of its own beside the program's only one"
wait $!

line='stint-run: exit status'
expect 'a program runs as without' 7 "held*goodbye*$line 7: *KiB allocated,*" "$run" "$program" goodbye hold 10 return 7
expect 'quiet' 0 held "$run" -q "$program" hold 10
expect 'exit status by exit' 3 "goodbye*$line 3: *allocated*" "$run" "$program" goodbye exit 3
expect 'exit status by _exit' 4 "held*$line 4: *1.*MiB allocated*" "$run" "$program" hold 1024 _exit 4
expect 'a signal of its own' 134 '*stint-run: ended by SIGABRT: *' "$run" "$program" abort
expect 'the allocation limit' 120 "*passed --allocation*" "$run" --allocation 1M "$program" goodbye allocate 2000 hold 1
expect 'just below it' 0 "$line 0: *" "$run" --allocation 3M "$program" allocate 2000
expect 'the memory limit' 121 "refused*passed --memory*" "$run" --memory 1M "$program" hold 2000
expect 'memory that is freed does not count' 0 "$line 0: *" "$run" --memory 1M "$program" allocate 20000
expect 'the status is kept' 5 "refused*passed --memory*" \
    "$run" --preserve-status --memory 1M "$program" hold 2000 return 5
expect 'the limit of a program that aborts' 121 "refused*ended by SIGABRT, passed --memory: *" \
    "$run" --memory 1M "$program" hold 2000 abort
expect 'exit handlers run when a limit was passed' 121 "refused*goodbye*" \
    "$run" --memory 1M "$program" goodbye hold 2000
expect 'time' 124 "stint-run: ended by SIGTERM, passed --timeout: *" "$run" --timeout 100ms "$program" sleep 20
expect 'processor time' 122 "stint-run: ended by SIGTERM, passed --cpu: *" "$run" --cpu 100ms "$program" spin
expect 'descriptors' 0 "no descriptor*" "$run" --files 3 "$program" open
expect 'processes' 123 "*passed --processes*" "$run" --processes 5 "$program" sleepers 20 wait
unless "$own_threads" 'as many processes as may be' 0 "held*$line 0*" "$run" --processes 5 "$program" holders 3 wait
expect 'processes that another thread has started' 123 "*passed --processes*" \
    "$run" --processes 5 "$program" thread_sleepers 20
expect 'processes that have ended do not count' 0 "*$line 0*" "$run" --processes 8 "$program" orphans 20
expect 'processor time of each child' 122 "*passed --cpu: *" "$run" --cpu 200ms "$program" run "$program" spin
expect 'processor time of children that are free' 124 "*passed --timeout: *" \
    "$run" --children free --cpu 200ms --timeout 1s "$program" run "$program" spin
expect 'where ended children are ignored' 3 "*$line 3: *" timeout -s KILL 20 \
    "$program" ignore_children_and_become "$run" "$program" return 3
begin=$SECONDS # who is left behind has the pipe of the output
expect 'a chain of children is killed whole' 124 "*passed --timeout: *" \
    "$run" --timeout 100ms --kill-after 50ms "$program" chain 8
[ $((SECONDS - begin)) -lt 15 ] || {
    echo 'children of children were left behind' >&2
    failed=1
}
expect 'JSON' 0 '{"exited":true,"code":0,"limit":"none",*"allocated":*}' "$run" --json "$program" allocate 10
expect 'a child has the same limits' 0 "refused*$line 0*1 child ended*" \
    "$run" --memory 1M "$program" run "$program" hold 2000
expect 'a child is free' 0 "held*$line 0*" "$run" --children free --memory 1M "$program" run "$program" hold 2000
unless "$foreign_shell" 'children share allocation' 0 "held*refused*" "$run" --children inherit --allocation 3M /bin/sh -c \
    "'$program' hold 2000; '$program' allocate 1; '$program' hold 4000"
unless "$foreign_shell" 'children that share have what is left' 120 "held*refused*passed --allocation*" \
    "$run" --children share --allocation 3M /bin/sh -c "'$program' hold 2000; '$program' hold 2000"
expect 'children that share hold memory together' 121 "*passed --memory*" \
    "$run" --children share --memory 32M "$program" holders 6 sleepers 1 wait
unless "$no_static" 'a static program needs a wall' 126 '*linked statically*--wall' "$run" "$static" hold 10
unless "$no_static" 'a static child is not counted' 0 "held*$line 0: *resident" \
    "$run" --memory 1M "$program" run "$static" hold 2000
unless "$no_static" 'a static program behind one' 6 "held*$line 6: *" \
    "$run" --wall --memory 64M "$static" hold 10 return 6
unless "$no_static" 'memory of a static program' 121 "*passed --memory*" \
    "$run" --wall --memory 64M "$static" hold 400000 sleep 5
expect 'memory of other threads' 121 "*passed --memory*" "$run" --wall --memory 64M "$program" thread 400000 sleep 5
expect 'allocations of other threads count' 0 "held*$line 0: *2.0MiB allocated*" "$run" "$program" thread 2000
expect 'other threads share the allocation limit' 120 "held*refused*passed --allocation*" \
    "$run" --allocation 4M "$program" hold 2000 thread 3000
expect 'the main thread shares it, too' 120 "held*refused*passed --allocation*" \
    "$run" --allocation 4M "$program" thread 3000 hold 2000
expect 'what an ended thread was refused is told' 120 "refused*passed --allocation*" \
    "$run" --allocation 1M "$program" thread 2000 _exit 0
expect 'a thread that ends the program tells what all have allocated' 3 "held*$line 3: *3.*MiB allocated*" \
    "$run" "$program" hold 1000 thread_ends_program 2000
expect 'a thread that ends the program was refused' 120 "refused*passed --allocation*" \
    "$run" --allocation 1M "$program" thread_ends_program 2000
expect 'a thread runs once in the child that it forks' 0 "once $line 0: *" "$run" "$program" thread_forks
expect 'what a refused thread has made stays' 120 "refused*good*passed --allocation*" \
    "$run" --allocation 1M "$program" thread_leaves 2000
expect 'a thread may end in its midst' 0 "held*good*2.0MiB allocated*" "$run" "$program" thread_exits 2000
expect 'other threads live when a limit was passed' 120 "refused*passed --allocation*" \
    "$run" --allocation 8M "$program" living_threads 4 hold 16000
expect 'memory of other threads in place' 121 "*ended by SIGKILL, passed --memory*" \
    "$run" --memory 64M "$program" thread 400000 sleep 5
expect 'memory of the threads of a child' 121 "*passed --memory*" \
    "$run" --memory 64M "$program" run "$program" thread 400000 sleep 5
expect 'a malloc of its own' 126 "*malloc is that of the program itself*--wall" "$run" "$own_malloc"
expect 'a malloc of its own behind a wall' 0 "*$line 0*" "$run" --wall "$own_malloc"
expect 'operators of its own that ask malloc' 121 "refused*passed --memory*" "$run" --memory 256K "$operators"
expect 'operators of its own that do not' 126 "*operator new is that of the program itself*--wall" "$run" "$arena"
expect 'a child that cannot be metered' 0 "held*; 1 child not metered" "$run" "$program" run "$arena"
expect 'set-uid' 126 '*set-uid*' "$run" "$(command -v su)" --version
expect 'not found' 127 '*No such file*' "$run" nothing-of-this-name
expect 'no program' 125 'stint-run: no PROGRAM was given*' "$run" --memory 1M
if unshare --mount true 2>/dev/null; then
    # shellcheck disable=SC2016
    expect 'no limit could be kept without /proc' 125 'stint-run: /proc: is not mounted*' \
        unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh \
        "$run" --memory 1M "$program" hold 2000
fi
expect 'an odd size' 125 "*--memory*'much'*" "$run" --memory much "$program"
expect 'an odd word' 125 "*none of inherit*" "$run" --children few "$program"
expect 'what is behind the program is its own' 99 '*exit status 99*' "$run" "$program" --help
expect 'a report' 121 "*" "$run" --report "$folder/report" --memory 1M "$program" hold 2000
grep -q 'memory-limit' "$folder/report" && grep -q 'hold' "$folder/report" || {
    echo 'the report does not say where it was' >&2
    failed=1
}
expect 'a profile' 0 "*" "$run" --profile "$folder/profile.collapsed" "$program" allocate 100000
grep -q 'main;.*allocate' "$folder/profile.collapsed" || {
    echo 'the profile does not name what allocated' >&2
    failed=1
}
unless "$foreign_shell" 'a script' 0 "held*" "$run" /bin/sh -c "exec '$program' hold 1"

# Signals are passed on; what ignores SIGTERM is killed.
"$run" "$program" sleep 20 2>"$folder/line" &
sleep 0.3
kill $!
wait $!
[ $? = 143 ] && grep -q SIGTERM "$folder/line" || {
    echo "SIGTERM was not passed on: $(cat "$folder/line")" >&2
    failed=1
}
# has_ended PID: it does so within ten seconds.
has_ended() {
    local state
    for _ in {1..200}; do
        state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
        [ -n "$state" ] && [ "$state" != Z ] || return 0
        sleep 0.05
    done
    return 1
}

# What is to end it reaches those that it has started, and a stopped one.
reaches_children() {
    "$run" -q /bin/bash -c 'sleep 20 & echo $! >"$0"; wait; exit 1' "$folder/child" &
    until [ -s "$folder/child" ]; do sleep 0.05; done
    kill -STOP "$(cat "$folder/child")"
    kill $!
    wait $!
    [ $? = 143 ] && has_ended "$(cat "$folder/child")"
}
unless "$foreign_shell" 'SIGTERM reaches a child of the program' 0 '*' reaches_children
expect 'the signal that ended it ends stint-run' 0 '*' python3 -c \
    'import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]) != -6)' \
    "$run" -q "$program" abort
expect 'what ignores SIGTERM is killed' 124 '*SIGKILL*' "$run" --timeout 100ms --kill-after 100ms \
    /bin/bash -c 'trap "" TERM; while :; do sleep 1; done'
exit $failed
