#!/bin/sh
# SPDX-License-Identifier: MIT
# archive.sh BUILD SOURCE MIMALLOC COMPILER...: links a program with libstint.a by what pkg-config --static says of it, as
# if it were installed, two in which it is unwound, and one with a malloc of its own, which the linker refuses.
set -eu
build=$1 source=$2 mimalloc=$3 # the private one
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/lib/stint"
(cd "$build" && ar rcs "$scratch/lib/libstint.a" $(ar t libstint.a)) # one that is not installed names its object only
if grep -q '^Libs.private:.*{libdir}/stint' "$build/meson-private/stint.pc"; then
    cp "$mimalloc"/lib/libmimalloc.so.* "$scratch/lib/stint/"
fi
flags=$(PKG_CONFIG_PATH=$build/meson-private pkg-config --static --cflags --libs \
    --define-variable=libdir="$scratch/lib" --define-variable=includedir="$source/include" stint)

# linked PROGRAM COMPILER AND SOURCES...
linked() {
    program=$scratch/$1
    shift
    # shellcheck disable=SC2086
    "$@" -o "$program" $flags
}

cd "$source/tests/linking"
linked probe "$@" -D_GNU_SOURCE main.c probe.c
"$scratch/probe" ours
linked unwinding "$@" -D_GNU_SOURCE -fexceptions unwinding.c
"$scratch/unwinding"
# Optimised when it is linked, the program comes behind the library.
if echo 'int main(void) { return 0; }' | "$@" -flto -x c - -o "$scratch/trial" 2>/dev/null; then
    linked optimised "$@" -D_GNU_SOURCE -fexceptions -O2 -flto unwinding.c
    "$scratch/optimised"
fi
if linked own "$@" -D_GNU_SOURCE -fno-builtin main.c probe.c own_malloc.c 2>"$scratch/errors"; then
    echo 'a malloc of its own was linked beside that of libstint.a' >&2
    exit 1
fi
grep -q 'multiple definition of .malloc' "$scratch/errors" || {
    cat "$scratch/errors" >&2
    exit 1
}
