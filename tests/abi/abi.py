#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the public headers, and the library, with those of an earlier release (docs/stability.md).

abi.py freeze INCLUDE FILE
    Writes what INCLUDE/stint/stint.h declares in C, and what the C++ header calls beside that, without comments, as one
    header: at a release, as tests/abi/stint-VERSION.h, which is never changed after that.
abi.py compare FILE INCLUDE [LIBRARY]
    Says what a program that was compiled with FILE would miss: structs, enums, functions, variables, macros, and the
    LIBRARY's symbols. Exit status 1: something. What a release may change is not said: new names, new values of enums,
    more at the end of a struct that begins with its size, or that callbacks alone are given. In one version there is
    none of that.

Needs gcc and gdb."""
import json
import os
import re
import subprocess
import sys
import tempfile

GCC, GDB = ["gcc"], "gdb"
HEAD = """/* SPDX-License-Identifier: MIT
 *
 * The public declarations of stint {version}, as tests/abi/abi.py froze them at its release. Never changed. */
/* clang-format off */
"""
HEADERS = ["stint/stint.h", "stint/detail/exception.h"]
VERSIONS = re.compile(r"STINT_VERSION(_\w+)?$")
GUARD = re.compile(r"STINT_\w+_H$")
GDB_SCRIPT = r"""
import gdb, json, re
def of(type):
    real = type.strip_typedefs()
    found = {"kind": str(real.code), "is": str(real)}
    if real.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        found["kind"] = "struct"
        found["size"] = real.sizeof if real.fields() else None
        found["align"] = real.alignof if real.fields() else None
        found["fields"] = [[f.name, f.bitpos, f.type.sizeof, str(f.type)] for f in real.fields()]
    elif real.code == gdb.TYPE_CODE_ENUM:
        found["kind"] = "enum"
        found["size"] = real.sizeof
        found["values"] = {f.name: f.enumval for f in real.fields()}
    return found
types = {}
for line in gdb.execute("info types .", to_string=True).split("\n"):
    name = re.search(r"\b(stint_\w+);$", line)
    if name:
        tag = re.search(r"\b(struct|union|enum) (stint_\w+);$", line)
        types[name[1]] = of(gdb.lookup_type(tag[1] + " " + tag[2] if tag and "typedef" not in line else name[1]))
print("JSON" + json.dumps(types))
"""


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **options)
    if done.returncode != 0:
        sys.exit(f"abi.py: {' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def freeze(include, path):
    """One header: system headers by name, and our lines after the preprocessor, with the macros that they define."""
    include = os.path.realpath(include)
    text = run(GCC + ["-E", "-dD", "-I", include] + [word for header in HEADERS for word in ("-include", header)] +
               ["-x", "c", "/dev/null"])
    system, lines, ours = [], [], False
    for where, _, names in sorted(os.walk(include)):
        for name in sorted(names):
            if name.endswith(".h"):
                with open(os.path.join(where, name), encoding="utf-8") as file:
                    system += re.findall(r"^#include (<(?!stint/).*>)", file.read(), re.M)
    version = "?"
    for line in text.split("\n"):
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            ours = os.path.realpath(marker[1]).startswith(include + os.sep)
        elif ours and line.strip():
            lines.append(line.rstrip())
            version = (re.match(r'#define STINT_VERSION "(.*)"', line) or [None, version])[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD.format(version=version))
        file.write("".join(f"#include {name}\n" for name in sorted(set(system))))
        file.write("\n".join(lines) + "\n")
    print(f"{path}: stint {version}, {len(lines)} lines")


def variables(text):
    """What a preprocessed header declares that is no function."""
    text = re.sub(r"__attribute__ *\(\((?:[^()]|\([^()]*\))*\)\)", "", re.sub(r"^#.*", "", text, flags=re.M))
    return {match[2]: " ".join(match[1].split()) for match in re.finditer(r"\bextern ([^;(){}]*?\b(stint_\w+)) *;", text)}


def facts(include, headers):
    """(types, prototypes and variables, macros) that these headers declare."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = os.path.join(folder, "it.c"), os.path.join(folder, "it.o")
        with open(source, "w") as file:
            file.write("".join(f"#include {header}\n" for header in headers))
        flags = ["-I", include, "-std=gnu11"]
        run(GCC + flags + ["-g", "-fno-eliminate-unused-debug-types", "-aux-info", made + ".aux", "-c", source, "-o", made])
        with open(made + ".gdb", "w") as file:
            file.write("python\n" + GDB_SCRIPT + "end\n")
        told = run([GDB, "-batch", "-nx", "-x", made + ".gdb", made])
        if "JSON" not in told:
            sys.exit("abi.py: gdb has no Python, or found nothing")
        types = json.loads(told[told.index("JSON") + 4:])
        with open(made + ".aux") as file:
            prototypes = {match[2]: match[1] for match in re.finditer(
                r"\*/ extern (.*?\b(stint_\w+) \(.*\));", file.read())}
        prototypes.update(variables(run(GCC + flags + ["-E", source])))
        macros = {}
        for line in run(GCC + flags + ["-E", "-dM", source]).split("\n"):
            match = re.match(r"#define (STINT_\w+)(\(.*?\))? ?(.*)", line)
            if match and not GUARD.match(match[1]) and not VERSIONS.match(match[1]):
                # Of a macro with arguments, and of a private one, that it is there; its text may be mended.
                macros[match[1]] = match[3] if not match[2] and not match[1].endswith(("_INIT", "STINT_API")) else None
        return types, prototypes, macros


def for_callbacks_alone(types, prototypes):
    """Structs that only callbacks are given, by a pointer to what they cannot change."""
    callbacks = " ".join(of["is"] for of in types.values() if of["kind"] != "struct")
    others = " ".join(prototypes.values()) + " ".join(field[3] for of in types.values() for field in of.get("fields", []))
    return {name for name in types if re.search(rf"const (struct )?{name} \*", callbacks) and
            not re.search(rf"\b{name}\b", others)}


def compare(old, new, exported):
    """Yields what a program of the old headers would miss."""
    types, prototypes, macros = old
    new_types, new_prototypes, new_macros = new
    given = for_callbacks_alone(types, prototypes)
    for name, was in sorted(types.items()):
        now = new_types.get(name)
        if now is None:
            yield f"{name}: the type is gone"
        elif was["kind"] == "struct" and was["size"] is not None:
            fields = now.get("fields", [])[:len(was["fields"])]
            for before, after in zip(was["fields"], fields + [None] * len(was["fields"])):
                if before != after:
                    yield f"{name}: the field {before} is now {after}"
            grows = name in given or (was["fields"][0][0] == "size" and "STINT_" + name[6:].upper() + "_INIT" in macros)
            size = now.get("size") or 0
            if size < was["size"] or (size > was["size"] and not grows):
                yield f"{name}: {was['size']} bytes are now {size}"
            elif now["align"] > was["align"]:
                yield f"{name}: it was aligned to {was['align']} bytes, and is to {now['align']}"
            elif len(now["fields"]) > len(was["fields"]) and now["fields"][len(was["fields"])][1] < 8 * was["size"]:
                yield f"{name}: the new field {now['fields'][len(was['fields'])][0]} lies in what was padding"
        elif was["kind"] == "enum":
            for value, number in was["values"].items():
                if now.get("values", {}).get(value) != number:
                    yield f"{name}: {value} was {number}, and is {now.get('values', {}).get(value)}"
        elif was["kind"] != "struct" and was["is"] != now["is"]:
            yield f"{name}: {was['is']} is now {now['is']}"
    for name, was in sorted(prototypes.items()):
        if new_prototypes.get(name) != was:
            yield f"{name}: {was} is now {new_prototypes.get(name)}"
        elif exported is not None and name not in exported:
            yield f"{name}: the library does not export it"
    for name, was in sorted(macros.items()):
        if name not in new_macros or new_macros[name] != was:
            yield f"{name}: {was} is now {new_macros.get(name, 'gone')}"


def version_of(header):
    with open(header, encoding="utf-8") as file:
        return re.search(r'^#define STINT_VERSION "(.*)"', file.read(), re.M)[1]


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0
    if sys.argv[1] == "freeze" and len(sys.argv) == 4:
        freeze(*sys.argv[2:])
        return 0
    if sys.argv[1] != "compare" or len(sys.argv) not in (4, 5):
        sys.exit("abi.py: unknown arguments (see --help)")
    frozen, include = os.path.realpath(sys.argv[2]), os.path.realpath(sys.argv[3])
    exported = None
    if len(sys.argv) == 5:
        exported = set(re.findall(r"^\w+ [TWBDVi] (\w+)", run(["nm", "-D", "--defined-only", sys.argv[4]]), re.M))
    old = facts(os.path.dirname(frozen), [f'"{frozen}"'])
    new = facts(include, [f"<{header}>" for header in HEADERS])
    wrong = list(compare(old, new, exported))
    if not wrong and version_of(frozen) == version_of(os.path.join(include, "stint/stint.h")):
        wrong = [f"{difference} (of one version; once that is released, the headers need a later one; before that, freeze"
                 " them again)" for difference in compare(new, old, None)]
    print("\n".join(wrong + [f"{len(old[0])} types, {len(old[1])} functions and variables, and {len(old[2])} macros of "
                             f"{os.path.basename(frozen)}: {len(wrong)} differ"]))
    return 1 if wrong else 0


sys.exit(main())
