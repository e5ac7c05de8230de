#!/bin/sh
# SPDX-License-Identifier: MIT
# walls.sh LINES HOST SERVED: what the programs of the page on walls print, with a template that is a fork and with one that
# is a program; and that the latter says so where it is started by hand.
set -eu
[ "$("$1")" = "2 lines
crash: SIGABRT
1 lines" ]
[ "$("$2" "$3" | sed 's/ at address .*//')" = "shout: HELLO
trip: crash
whisper: No such file or directory" ]
said=$("$3" 2>&1) && exit 1
case $said in "This is a part of another program"*) ;; *) exit 1 ;; esac
