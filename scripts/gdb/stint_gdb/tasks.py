# SPDX-License-Identifier: MIT
"""Pools, the tasks in them, the threads that run them, and futures."""
import gdb

from stint_gdb.memory import (LONGEST_LIST, account_name, array_text, duration, known, linked, names_of, now,
                              pointer_to, symbol, text)


def pools():
    return linked(known()["pools"].dereference(), "next_pool")


def slots(pool):
    """Workers and substitutes."""
    return [pool["workers"] + i for i in range(min(int(pool["substitutes"]["slots"]), LONGEST_LIST))]


def threads_by_id():
    return {thread.ptid[1]: thread for thread in gdb.selected_inferior().threads()}


def record_of(thread):
    """The sti_thread of one of gdb's threads, or None."""
    for record in linked(known()["threads"].dereference()):
        if int(record["id"]) == thread.ptid[1] and bool(record["owned"]):
            return record
    return None


def thread_text(record):
    thread = threads_by_id().get(int(record["id"])) if int(record) != 0 else None
    return f"thread {thread.num}" if thread is not None else "no thread"


def frames_on(worker):
    """Its tasks, the innermost first."""
    return linked(worker["running"], "below")


def task_name(task):
    name = text(task["options"]["name"])
    return f'"{name}"' if name is not None else "(without a name)"


def task_code(task):
    if int(task["fn"]) != 0:
        return symbol(task["fn"])
    compound = pointer_to("compound", task)
    return f"{'any' if bool(compound['any']) else 'all'} of {int(compound['count'])} futures"


def task_title(task):
    name = task_name(task)
    return f"{task_code(task)}" if name.startswith("(") else f"{name} {task_code(task)}"


def queued_in(pool):
    """(task, where) of those that wait where workers look."""
    queue = pool["queue"]
    for position in range(int(queue["head"]), int(queue["tail"])):
        slot = queue["slots"][position & int(queue["mask"])]
        if int(slot["turn"]) == position + 1:
            yield slot["entry"], "the submission queue"
    for worker in slots(pool):
        deque = worker["deque"]
        count = deque["slots"].type.range()[1] + 1
        for place in range(int(deque["top"]), int(deque["bottom"])):
            yield deque["slots"][place % count], f"the deque of worker {int(worker['index'])}"
    fair = pool["fair_queue"]
    for entry in linked(fair["entries"]["lh_first"], "link", "le_next"):
        entry = entry.cast(known()["fair_entry"].type)
        held = str(entry["state"]) == "STI_FAIR_ENTRY_HELD"
        for task in linked(entry["tasks"]["tqh_first"], "fair_link", "tqe_next"):
            yield task, "the fair queue" + (", held back by its account" if held else "")


def waiting_in(pool):
    """Those and the delayed ones, that nobody has claimed."""
    states = names_of("task_state")
    task_type = known()["delayed"].dereference()["task"].type.pointer()
    for entry, where in queued_in(pool):
        task = entry.cast(task_type)
        if states.get(int(task["state"])) == "queued":
            yield task, where
    for delayed in linked(pool["delays"]["all"]):
        delayed = delayed.cast(known()["delayed"].type)
        start, present = int(delayed["start_ns"]), now()
        if start == 0:
            where = "for a future or its turn"
        elif present is None or start < present:
            where = "for its time"
        else:
            where = f"for its time, in {duration(start - present)}"
        yield delayed["task"].address, where


def sleepers():
    """Tasks that wait for a future, as the library knows them: after some milliseconds."""
    for pool in pools():
        for worker in slots(pool):
            if int(worker["slept"]) != 0:
                yield worker["slept"].cast(known()["sleeper"].type)


def running_on():
    """{task: its worker}, subtasks aside."""
    return {int(frame["task"]): worker for pool in pools() for worker in slots(pool) for frame in frames_on(worker)
            if not bool(frame["stolen"])}


def outcome_text(outcome):
    status = names_of("status").get(int(outcome["status"]), "unknown")
    reason = names_of("reason").get(int(outcome["reason"]), "unknown")
    if status == "ok":
        return f"ok, value {hex(int(outcome['value']))}"
    message = array_text(outcome["message"])
    return f"{status}: {reason}, code {int(outcome['error'])}" + (f', "{message}"' if reason == "exception" else "")


def is_future(task):
    """Of an address that may be any: its memory looks like one that has not been freed."""
    return int(task["state"]) < 64 and 0 < int(task["references"]) < 1 << 20


def state_text(task, running=None):
    states = names_of("task_state")
    state = int(task["state"])
    if states.get(state) == "resolved":
        return outcome_text(task["outcome"])
    if state not in states or states[state] == "ending":
        first = max(states)
        return "about to end unstarted: " + names_of("reason").get(state - first, "unknown")
    worker = (running if running is not None else running_on()).get(int(task))
    if worker is not None:
        return f"running on worker {int(worker['index'])} ({thread_text(worker['record'])})"
    if int(task["fn"]) == 0:
        return "unresolved"
    return {"claimed": "about to run or to resolve", "new": "being submitted"}.get(states[state], states[state])
