#!/bin/sh
# SPDX-License-Identifier: MIT
# musl.sh SOURCE COMPILER: stint cannot be configured with a compiler for musl, and meson says why.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if CC=$2 meson setup "$scratch/build" "$1" >"$scratch/said" 2>&1; then
    echo 'it was configured' >&2
    exit 1
fi
grep -q 'this C library is not glibc' "$scratch/said" || {
    cat "$scratch/said" >&2
    exit 1
}
