#!/bin/sh
# SPDX-License-Identifier: MIT
# readme.sh README.md first.c PROGRAM: the program that the README shows is the example's source after its first comment,
# and the built PROGRAM prints what the README says it prints.
set -eu
shown=$(awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$1")
built=$(awk '/^#include/ { code = 1 } code' "$2")
if [ "$shown" != "$built" ]; then
  echo "the C program in $1 is not the one in $2" >&2
  exit 1
fi
# shellcheck disable=SC2016 # the backquotes are the README's
said=$(sed -n 's/^It prints `\([^`]*\)`.*/\1/p' "$1")
printed=$("$3")
if [ "$said" != "$printed" ]; then
  echo "$1 says that the program prints '$said', and it prints '$printed'" >&2
  exit 1
fi
