#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""probes.py READELF LIBRARY DOCUMENT: the library has each probe that the document lists and no other, with so many
arguments."""
import re
import subprocess
import sys

READELF, LIBRARY, DOCUMENT = sys.argv[1:4]


def main():
    with open(DOCUMENT, encoding="utf-8") as file:
        rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", file.read(), re.M)
    listed = {name: arguments.count(",") + 1 for name, arguments in rows}
    notes = subprocess.run([READELF, "-nW", LIBRARY], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, arguments in re.findall(r"Provider: stint\s+Name: (\w+)\s+Location: [^\n]*\n\s+Arguments: ([^\n]*)", notes):
        # Each is size@place, such as -4@%eax or 8@-16(%rbp).
        found.setdefault(name, set()).add(len(re.findall(r"(?:^| )-?[1248]@\S+", arguments)))
    if not listed or found != {name: {count} for name, count in listed.items()}:
        sys.exit(f"listed: {listed}\nfound: {found}")


main()
