# SPDX-License-Identifier: MIT
"""Pretty printers: what the public types hold, and what the opaque ones are."""
import gdb

from stint_gdb.memory import UNLIMITED, Trouble, account_name, array_text, duration, known, size
from stint_gdb.scopes import token_is_set
from stint_gdb.tasks import is_future, outcome_text, state_text, task_title


class OfTask:
    """A stint_future and what it tells."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        task = self.value.address
        try:
            return f"task {task_title(task)}, {state_text(task)}"
        except (Trouble, TypeError):
            return None

    def children(self):
        for field in ("arg", "options", "pool"):
            yield field, self.value[field]


class OfPointer:
    """A pointer to what the headers do not show: what it is, behind its address."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        address = int(self.value)
        if address == 0:
            return "0x0"
        try:
            return f"{hex(address)} {self.tell()}"
        except (gdb.error, gdb.MemoryError, Trouble):
            return hex(address)


class ToTask(OfPointer):
    def tell(self):
        task = self.value.cast(known()["delayed"].dereference()["task"].type.pointer())
        return f"<{task_title(task)}, {state_text(task)}>" if is_future(task) else "<no future>"


class ToPool(OfPointer):
    def tell(self):
        pool = self.value.cast(known()["pools"].type.target().target().pointer())
        return f"<pool {array_text(pool['label'])}, {int(pool['worker_count'])} workers>"


class ToAccount(OfPointer):
    def tell(self):
        return f"<account {account_name(self.value)}>"


class ToToken(OfPointer):
    def tell(self):
        return "<set>" if token_is_set(self.value) else "<not set>"


class OfBudget:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        set_ones = [f"{field.name} {self.one(field.name)}" for field in self.value.type.strip_typedefs().fields()
                    if int(self.value[field.name]) != 0]
        return "{" + (", ".join(set_ones) or "no limit") + "}"

    def one(self, name):
        count = int(self.value[name])
        if not name.endswith("_ns"):
            return size(count)
        return "only measured" if count == UNLIMITED else duration(count)


class OfOptions:
    """Only what is set."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        return None

    def children(self):
        for field in self.value.type.strip_typedefs().fields():
            value = self.value[field.name]
            if field.name == "budget" or (field.name != "size" and int(value) != 0):
                yield field.name, value


class OfOutcome:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return outcome_text(self.value)

    def children(self):
        yield "usage", self.value["usage"]


class OfUsage:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        counts = ("samples", "deferred")
        said = []
        for field in self.value.type.strip_typedefs().fields():
            count = int(self.value[field.name])
            if count != 0:
                told = duration(count) if field.name.endswith("_ns") else str(count) if field.name in counts else size(count)
                said.append(f"{field.name} {told}")
        return "{" + ", ".join(said) + "}"


STRUCTS = {"stint_future": OfTask, "stint_budget": OfBudget, "stint_options": OfOptions, "stint_outcome": OfOutcome,
           "stint_usage": OfUsage}
POINTERS = {"stint_future": ToTask, "stint_pool": ToPool, "stint_account": ToAccount, "stint_token": ToToken}


def printer_of(value):
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_PTR:
        found = POINTERS.get(kind.target().unqualified().strip_typedefs().tag)
    else:
        found = STRUCTS.get(kind.unqualified().tag)
    return found(value) if found is not None else None


printer_of.name = "stint"


def load():
    others = [printer for printer in gdb.pretty_printers if getattr(printer, "name", None) != "stint"]
    gdb.pretty_printers[:] = others + [printer_of]
