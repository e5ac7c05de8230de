#!/bin/sh
# SPDX-License-Identifier: MIT
# The program that the README shows is the example that is built, without its first comment.
# usage: readme.sh README.md first.c
set -eu
shown=$(awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$1")
built=$(awk '/^#include/ { code = 1 } code' "$2")
if [ "$shown" != "$built" ]; then
  echo "the C program in $1 is not the one in $2" >&2
  exit 1
fi
