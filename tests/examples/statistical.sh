#!/bin/sh
# SPDX-License-Identifier: MIT
# statistical.sh GUIDE PROGRAM: the guide shows each table that the program prints, as it prints it.
set -eu
printed=$("$2")
shown=$(awk '/^```text$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$1")
if [ "$(printf '%s\n' "$printed" | grep -v '^$')" != "$(printf '%s\n' "$shown" | grep -v '^$')" ]; then
  echo "the tables in $1 are not those that $2 prints" >&2
  exit 1
fi
