# SPDX-License-Identifier: MIT
"""Reading the memory of a program that has stopped, or a core, and words for what is found. Nothing is called in it, and
nothing written. All begins at sti_debugger (executor/pool/debugger.c)."""
import re
import time

import gdb

UNLIMITED = 2**64 - 1
SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
NO_TYPES = ("stint: libstint.so has no debug information here (it was stripped, and its separate file is not installed),"
            " so nothing of it can be shown")
LONGEST_LIST = 1 << 20  # memory may be damaged


class Trouble(gdb.GdbError):
    """Shown without a traceback."""


def known():
    """sti_debugger of the process or core."""
    if gdb.selected_inferior().pid == 0:
        raise Trouble("stint: the program does not run")
    try:
        found = gdb.parse_and_eval("sti_debugger")
        found["threads"]  # is its type known?
        return found
    except gdb.error as error:
        loaded = any("libstint.so" in (objfile.filename or "") for objfile in gdb.objfiles())
        raise Trouble(NO_TYPES if loaded else "stint: the program has not loaded libstint.so") from error


def names_of(field):
    """The names of an enum by value, in the words of the library's own functions."""
    fields = known()[field].type.strip_typedefs().fields()
    prefixes = r"^(STI_TASK|STI_HOLD|STINT_REASON|STINT_DEFERRAL|STINT)_"
    return {f.enumval: re.sub(prefixes, "", f.name).lower().replace("_", "-") for f in fields}


def pointer_to(field, address):
    """A pointer of the type of sti_debugger's field."""
    return gdb.Value(int(address)).cast(known()[field].type)


def linked(first, *links):
    count = 0
    while int(first) != 0 and count < LONGEST_LIST:
        yield first
        for link in links or ("next",):
            first = first[link]
        count += 1


def plain(name):
    """Without what would do something to a terminal."""
    return "".join(c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in name)


def text(pointer):
    """A string of the program's that may be nowhere, or already gone."""
    if int(pointer) == 0:
        return None
    try:
        return plain(pointer.string("utf-8", "replace", length=-1))
    except gdb.error:
        return "(unreadable name)"


def array_text(array):
    name = bytes(int(array[i]) & 255 for i in range(array.type.range()[1] + 1)).split(b"\0")[0]
    return plain(name.decode("utf-8", "replace"))


def size(count):
    for unit, name in SIZES:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def duration(ns):
    for unit, name in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= unit:
            return f"{ns / unit:.3f} {name}"
    return f"{ns} ns"


def is_live():
    """The times in memory are of the clock of this machine: no core, and not elsewhere."""
    connection = getattr(gdb.selected_inferior(), "connection", None)
    return connection is not None and connection.type == "native"


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) if is_live() else None


def since(moment):
    """How long ago, of a clock's reading that may be 0 for unknown."""
    present = now()
    return duration(present - moment) if present is not None and 1 < moment <= present else None


def symbol(address):
    """What lies there: a function or variable with its offset, or the address."""
    address = int(address)
    found = gdb.execute(f"info symbol {address}", to_string=True)
    return hex(address) if found.startswith("No symbol") else re.split(r" in section | of ", found)[0].replace(" ", "")


def object_at(address):
    """The same for data, with the address."""
    name = symbol(address)
    return name if name.startswith("0x") else f"{hex(int(address))} <{name}>"


def account_name(account):
    if int(account) == 0:
        return None
    place = int(account) + int(known()["account_name"].dereference())
    return text(gdb.Value(place).cast(gdb.lookup_type("char").pointer())) or "(without a name)"
