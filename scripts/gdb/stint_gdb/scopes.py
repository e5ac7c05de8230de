# SPDX-License-Identifier: MIT
"""The scopes of a thread: their limits, and what their interrupts wait for."""
import gdb

from stint_gdb.memory import (UNLIMITED, account_name, duration, known, linked, names_of, now, object_at, size, symbol, text)


def holds_of(scope, counted):
    """In words. counted: locks that no list has."""
    kinds = names_of("hold_kind")
    holds = scope["holds"]
    held = []
    for i in range(int(holds["named"])):
        address = int(holds["objects"][i])
        held.append(f"{kinds.get(address & 3, 'lock')} {object_at(address & ~3)}")
    nameless = int(holds["unnamed"]) + (counted or 0)
    if nameless > 0:
        held.append(f"{nameless} lock{'s' if nameless > 1 else ''} (only counted)")
    return held


def counted_locks(record):
    """Locks of the selected thread that no scope remembers: innermost scope's. None: not known."""
    try:
        count = int(gdb.parse_and_eval("*(int *) &sti_hold_locks"))
    except gdb.error:
        return None
    return max(count, 0)


def deferral_of(scope, record, counted):
    """The rule that an interrupt of this scope has to wait for."""
    if int(scope["masks"]) > 0:
        return "masked (stint_unmask has not been called)"
    held = holds_of(scope, counted)
    if held:
        return "held: " + held[-1]
    noted = names_of("deferral").get(int(record["deferral"]), "none")
    return None if noted == "none" else f"last deferred by: {noted}"


def limits_of(scope, record):
    options = scope["request"]["options"]
    budget = options["budget"]
    used = int(record["used"]) - int(scope["begin"])
    yield f"allocation {size(used)} of {size(int(budget['allocation']))}" if int(
        budget["allocation"]) else f"allocated {size(used)}, no limit"
    if int(scope["memory_limit"]):
        yield f"memory limit {size(int(scope['memory_limit']))} (at most {size(int(scope['peak']))} measured so far)"
    if int(scope["deadline"]) != UNLIMITED:
        present, deadline = now(), int(scope["deadline"])
        yield ("deadline" if present is None else f"deadline passed {duration(present - deadline)} ago"
               if present >= deadline else f"deadline in {duration(deadline - present)}")
    if int(budget["cpu_ns"]) not in (0, UNLIMITED):
        yield f"processor time {duration(int(budget['cpu_ns']))}"
    if int(options["account"]):
        yield f"account {account_name(options['account'])}"


def token_is_set(token):
    return any(bool(one["set"]) for one in linked(token.cast(known()["token"].type), "parent"))


def requested(scope):
    """Why it is to end, as far as is known: (word, whether the task has noticed)."""
    reason = names_of("reason")[int(scope["tripped"])]
    if reason != "none":
        return reason, True
    for field, word in (("stop", "shutdown"), ("token", "token")):
        if token_is_set(scope[field]):
            return word, False
    present = now()
    if present is not None and int(scope["deadline"]) <= present:
        return "deadline", False
    return None, False


def interrupt_of(scope, record, counted):
    reason, noticed = requested(scope)
    if bool(scope["finished"]):
        return "none any more: stint_finish has been called"
    waits = deferral_of(scope, record, counted)
    if reason is None:
        return f"none requested; one would wait, {waits}" if waits and not waits.startswith("last") else "none requested"
    if not noticed:
        return f"{reason} requested, but it has come to no sample point since"
    return f"{reason}, waiting: {waits}" if waits else f"{reason}, delivered at the next sample point"


def scope_title(scope):
    request = scope["request"]
    name = text(request["options"]["name"])
    kind = "subtask" if bool(scope["is_subtask"]) or bool(scope["is_inner_subtask"]) else "task"
    return f"{kind} {chr(34) + name + chr(34) if name is not None else '(without a name)'} {symbol(request['fn'])}"


def describe_scope(number, scope, record, counted):
    yield f"#{number} {scope_title(scope)}, scope {hex(int(scope))}"
    yield "   limits: " + "; ".join(limits_of(scope, record))
    yield "   interrupt: " + interrupt_of(scope, record, counted)
    way = names_of("on_interrupt").get(int(scope["on_interrupt"]), "unknown")
    yield (f"   masks {int(scope['masks'])}, keeps {int(scope['keeps'])}, blocking regions {int(scope['regions'])}; "
           f"samples {int(scope['samples'])}, deferred {int(scope['deferred'])}; by {way}"
           f"{', preemptible' if bool(scope['preemptible']) else ''}, grace left {size(int(scope['grace_left']))}")
    held = holds_of(scope, counted)
    yield "   holds: " + (", ".join(held) if held else "nothing")
    for guard in linked(scope["guards"], "below_"):
        yield f"   guard {hex(int(guard))}: {symbol(guard['function_'])}({hex(int(guard['arg_']))})"
    for mutex in linked(scope["mutexes"], "below_"):
        yield f"   stint_mutex {object_at(mutex)}"
