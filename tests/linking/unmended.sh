#!/bin/sh
# SPDX-License-Identifier: MIT
# unmended.sh SOURCE: stint cannot be configured with sources of mimalloc 3.4.3 that lack our patch, and meson says why.
# What is configured is a program with stint as its subproject, beside what looks like these sources.
set -eu
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mimalloc=$scratch/program/subprojects/mimalloc
mkdir -p "$mimalloc/src" "$mimalloc/include"
ln -s "$source" "$scratch/program/subprojects/stint"
printf "project('program', 'c')\nsubproject('stint')\n" >"$scratch/program/meson.build"
cp "$source"/subprojects/packagefiles/mimalloc/* "$mimalloc/"
echo '#define MI_MALLOC_VERSION 30403' >"$mimalloc/include/mimalloc.h"
touch "$mimalloc/src/static.c"
echo 'void* newp = mi_theap_umalloc(theap,newsize,usable_post);' >"$mimalloc/src/alloc.c"
if meson setup -Dstint:mimalloc=bundled "$scratch/build" "$scratch/program" >"$scratch/said" 2>&1; then
    echo 'it was configured' >&2
    exit 1
fi
grep -q "mimalloc lacks mimalloc-zeros.patch" "$scratch/said" || {
    cat "$scratch/said" >&2
    exit 1
}
