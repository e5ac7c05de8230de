#!/bin/sh
# SPDX-License-Identifier: MIT
# forks.sh FORKS: what the example of fork and join prints.
set -eu
program=$1
[ "$("$program" 8)" = '8 queens: 92 solutions' ]
[ "$("$program" 20)" = '20 queens: error, deadline' ]
