#!/bin/sh
# SPDX-License-Identifier: MIT
# archive.sh BUILD SOURCE MIMALLOC COMPILER...: links programs with libstint.a by what pkg-config --static says of it, as
# if it were installed: one that tries it out, one whose functions no module finds, which the library refuses, two in
# which it is unwound, and those with a malloc or a C++ runtime of their own, which the linker refuses.
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

# refused PROGRAM FUNCTION COMPILER AND SOURCES...
refused() {
    name=$1 function=$2
    shift 2
    if linked "$name" "$@" 2>"$scratch/errors"; then
        printf 'a %s of its own was linked beside that of libstint.a\n' "$function" >&2
        exit 1
    fi
    grep -q "multiple definition of .$function" "$scratch/errors" || {
        cat "$scratch/errors" >&2
        exit 1
    }
}

# exported FILE: what the loader finds in it, but for stint's own functions.
exported() {
    readelf -W --dyn-syms "$1" | awk '$5 != "LOCAL" && $7 ~ /^[0-9]/ && $8 !~ /^stint_/ { print $8 }' | LC_ALL=C sort -u
}

cd "$source/tests/linking"
linked probe "$@" -D_GNU_SOURCE main.c probe.c
"$scratch/probe" ours
# What a module that is loaded later finds in the library it finds in the program too: it would bring its own otherwise.
exported "$build/libstint.so" >"$scratch/by-library"
exported "$scratch/probe" >"$scratch/by-program"
LC_ALL=C comm -23 "$scratch/by-library" "$scratch/by-program" >"$scratch/hidden"
if [ ! -s "$scratch/by-library" ] || [ -s "$scratch/hidden" ]; then
    printf 'the program hides from modules what the library exports: %s\n' "$(tr '\n' ' ' <"$scratch/hidden")" >&2
    exit 1
fi
all_flags=$flags
flags=$(printf '%s\n' "$flags" | sed 's/-Wl,--export-dynamic-symbol=[^ ]*//')
linked hiding "$@" -D_GNU_SOURCE main.c probe.c
if "$scratch/hiding" ours 2>/dev/null; then
    echo 'a program that hides std::terminate from modules is taken for one that is linked well' >&2
    exit 1
fi
flags=$all_flags
linked unwinding "$@" -D_GNU_SOURCE -fexceptions unwinding.c
"$scratch/unwinding"
# Optimised when it is linked, the program comes behind the library.
if echo 'int main(void) { return 0; }' | "$@" -flto -x c - -o "$scratch/trial" 2>/dev/null; then
    linked optimised "$@" -D_GNU_SOURCE -fexceptions -O2 -flto unwinding.c
    "$scratch/optimised"
fi
refused own malloc "$@" -D_GNU_SOURCE -fno-builtin main.c probe.c own_malloc.c
echo 'int main() { throw 1; }' >"$scratch/throwing.cpp"
if "$@" -o "$scratch/trial" "$scratch/throwing.cpp" -l:libstdc++.a -lm 2>/dev/null; then
    refused runtime std::terminate "$@" "$scratch/throwing.cpp" -l:libstdc++.a -lm
fi
