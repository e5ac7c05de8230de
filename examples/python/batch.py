#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A batch job over files that nobody trusts: how many elements or values each XML or JSON file has.

    batch.py [--memory MEBIBYTES] [--timeout SECONDS] FILE...

Each file is parsed in a process of its own. Whatever it does there, the next one is parsed."""
import argparse
import json
import sys
import xml.etree.ElementTree

import stint


def count(data):
    """Behind the wall: from the bytes of a file to the bytes of its answer."""
    if data.lstrip()[:1] == b"<":
        return b"%d elements" % sum(1 for _ in xml.etree.ElementTree.fromstring(data).iter())
    found, waiting = 0, [json.loads(data)]
    while waiting:
        value = waiting.pop()
        found += 1
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return b"%d values" % found


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description="Count what is in XML and JSON files, each within limits.")
    parser.add_argument("--memory", type=int, default=64, metavar="MEBIBYTES", help="each may hold so much (64)")
    parser.add_argument("--timeout", type=float, default=2, metavar="SECONDS", help="each may take so long (2)")
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    failed = 0
    with stint.Wall(count) as wall:
        futures = wall.map(count, map(read, arguments.files), memory=arguments.memory << 20, timeout=arguments.timeout)
        for path, future in zip(arguments.files, futures):
            try:
                print(f"{path}: {future.result().decode(errors='replace')}")
            except stint.Stopped as stopped:
                failed += 1
                print(f"{path}: {type(stopped).__name__}: {stopped}")
    print(f"{len(arguments.files)} files, {failed} failed", file=sys.stderr)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
