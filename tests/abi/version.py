#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""version.py SOURCE VERSION LIBRARY PC CMAKE: everything that names the version says VERSION, which meson.build does: the
headers, the change log, the library's name and soname, and what pkg-config and CMake read. The soname's number is the
major version, as docs/stability.md promises, and the name of Debian's package has it."""
import os
import re
import subprocess
import sys

SOURCE, VERSION, LIBRARY, PC, CMAKE = sys.argv[1:6]
MAJOR, MINOR, PATCH = VERSION.split(".")
wrong = []


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def expect(what, pattern, text, wanted):
    found = re.search(pattern, text, re.M)
    if found is None or found[1] != wanted:
        wrong.append(f"{what}: {found[1] if found else 'nothing'} instead of {wanted}")


header = read(SOURCE, "include/stint/stint.h")
for name, wanted in (("_MAJOR", MAJOR), ("_MINOR", MINOR), ("_PATCH", PATCH), ("", f'"{VERSION}"')):
    expect(f"STINT_VERSION{name}", rf"^#define STINT_VERSION{name} (\S+)$", header, wanted)
# The newest heading; changes since a release stand above it.
expect("CHANGELOG.md", r"^## \[(\d[^\]]*)\]", read(SOURCE, "CHANGELOG.md"), VERSION)
expect("README.md", r"libstint\.so\.(\d+\.\d+\.\d+)", read(SOURCE, "README.md"), VERSION)
expect("the library's file", r"libstint\.so\.(.*)$", os.path.basename(LIBRARY), VERSION)
dynamic = subprocess.run(["readelf", "-dW", LIBRARY], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
expect("soname", r"SONAME.*\[libstint\.so\.(.*)\]", dynamic, MAJOR)
expect("stint.pc", r"^Version: (.*)$", read(PC), VERSION)
expect("CMake", r'^set\(PACKAGE_VERSION "(.*)"\)$', read(CMAKE), VERSION)
debian = os.path.join(SOURCE, "scripts/debian")
expect("scripts/debian/control", r"^Package: libstint(\d+)$", read(debian, "control"), MAJOR)
expect("the symbols of Debian's package", r"^libstint\.so\.(\d+) libstint\1 ", read(debian, f"libstint{MAJOR}.symbols"), MAJOR)
# The library exports what the package lists.
listed = set(re.findall(r"^ (\w+)@Base ", read(debian, f"libstint{MAJOR}.symbols"), re.M))
exported = set(re.findall(r" DEFAULT +\d+ (\w+)$", subprocess.run(
    ["readelf", "--dyn-syms", "-W", LIBRARY], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout, re.M))
for name in sorted(listed - exported):
    wrong.append(f"{name}: in the symbols file of scripts/debian, and not in the library")
for name in sorted(exported - listed):
    wrong.append(f"{name}: exported, and not in the symbols file of scripts/debian")
# The headers of this version are frozen at its release; before that a release is not one.
if not os.path.exists(os.path.join(SOURCE, "tests/abi", f"stint-{VERSION}.h")):
    wrong.append(f"tests/abi/stint-{VERSION}.h is missing: tests/abi/abi.py freeze include tests/abi/stint-{VERSION}.h")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
