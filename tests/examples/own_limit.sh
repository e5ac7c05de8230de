#!/bin/sh
# SPDX-License-Identifier: MIT
# own_limit.sh PROGRAM: the example stops the task that leaks, and no other.
[ "$("$1")" = "tidy: ok, none
leaky: error, tracker
tidy again: ok, none" ]
