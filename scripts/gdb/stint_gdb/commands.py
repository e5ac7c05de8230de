# SPDX-License-Identifier: MIT
"""The command stint, and the names of tasks in backtraces."""
import re

import gdb
from gdb.FrameDecorator import FrameDecorator

from stint_gdb.memory import (UNLIMITED, Trouble, account_name, array_text, known, linked, names_of, pointer_to, since, size)
from stint_gdb.scopes import counted_locks, describe_scope, scope_title
from stint_gdb.tasks import (frames_on, is_future, pools, record_of, running_on, sleepers, slots, state_text, task_title, thread_text,
                             waiting_in)


def scope_of_boundary(frame):
    """The scope whose function this frame has called; None: it is none of sti_boundary_run."""
    record = record_of(gdb.selected_thread()) if frame.name() == "sti_boundary_run" else None
    if record is None:
        return None
    # The scope has the frame address of sti_scope_run_resumable, which is the caller: below its return address and a register.
    end = int(frame.older().older().read_register("rsp")) & UNLIMITED
    found = [scope for scope in linked(record["scope"], "below") if int(scope["frame"]) == end - 16]
    return found[0] if found else None


def task_of_scope(scope):
    """(task, worker) of a scope that a worker opened for one, or None."""
    for pool in pools():
        for worker in slots(pool):
            if int(worker["record"]) != int(scope["thread"]):
                continue
            # Its frame lies in that of the function that runs it: the nearest above the scope.
            above = [frame for frame in frames_on(worker) if int(frame) > int(scope["frame"])]
            if above and bool(scope["request"]["tally"]) and not bool(above[0]["stolen"]):
                return above[0]["task"], worker
    return None


def boundary_text(scope):
    found = task_of_scope(scope)
    if found is None:
        return scope_title(scope)
    task, worker = found
    return (f"task {task_title(task)}, future {hex(int(task))}, on worker {int(worker['index'])} of pool "
            f"{array_text(worker['pool']['label'])}")


class TaskFrame(FrameDecorator):
    def function(self):
        name = super().function()
        try:
            scope = scope_of_boundary(self.inferior_frame())
            return name if scope is None else f"sti_boundary_run [{boundary_text(scope)}]"
        except (gdb.error, gdb.MemoryError, Trouble):
            return name


class TaskFrames:
    """Names the task where a backtrace comes to its boundary."""

    def __init__(self):
        self.name, self.priority, self.enabled = "stint", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        return (TaskFrame(frame) if frame.inferior_frame().name() == "sti_boundary_run" else frame for frame in frames)


def frame_text(level, frame):
    line = frame.find_sal()
    where = f" at {line.symtab.filename}:{line.line}" if line.symtab is not None and line.line else ""
    return f"#{level:<3} {frame.name() or hex(frame.pc())}{where}"


def is_ours(frame):
    return re.match(r"(sti|stint)_", frame.name() or "") is not None or "libstint.so" in (gdb.solib_name(frame.pc()) or "")


class Stint(gdb.Command):
    """Tasks of stint.

stint tasks      what runs and what waits, in each pool
stint scopes     the tasks that the selected thread is in: limits, interrupt, masks, holds, guards
stint futures    unresolved futures and who waits for them, and those in variables of the selected thread
stint backtrace  the selected thread's backtrace, with its tasks and without frames of the library"""

    def __init__(self):
        super().__init__("stint", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE, True)


class Tasks(gdb.Command):
    """What runs and what waits, in each pool, or in the one that is named."""

    def __init__(self):
        super().__init__("stint tasks", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        shown = [pool for pool in pools() if argument in ("", array_text(pool["label"]))]
        if not shown:
            print(f"no pool is called {argument}" if argument else "there is no pool")
        for pool in shown:
            self.show(pool)

    def show(self, pool):
        waiting = list(waiting_in(pool))
        running = [(worker, frame) for worker in slots(pool) for frame in frames_on(worker)]
        print(f"pool {array_text(pool['label'])}: {int(pool['worker_count'])} workers, {len(running)} running, "
              f"{len(waiting)} waiting")
        for worker, frame in running:
            self.show_running(worker, frame, int(frame) == int(worker["running"]))
        for task, where in waiting:
            age = since(int(task["submitted_ns"]))
            account = account_name(task["options"]["account"])
            print(f"  waiting {hex(int(task))} {task_title(task)}: {where}{f', for {age}' if age else ''}"
                  f"{f', account {account}' if account else ''}")

    @staticmethod
    def show_running(worker, frame, on_top):
        task, record = frame["task"], worker["record"]
        said = [f"worker {int(worker['index'])}", thread_text(record)]
        if bool(frame["stolen"]):
            said.append("a subtask of it")
        if not on_top:
            said.append("below another task")
        elif int(record) != 0:
            ago = since(int(record["started"]))
            said += [f"for {ago}"] if ago else []
            number, held = divmod(int(record["held"]), 1 << 48)  # of which task, and how much (meter/global.c)
            is_its = number == int(record["task"]) % (1 << 16)
            said.append(f"held {size(held if is_its else 0)} when last measured")
            deferral = names_of("deferral").get(int(record["deferral"]), "none")
            said += [f"an interrupt was deferred: {deferral}"] if deferral != "none" else []
        account = account_name(task["options"]["account"])
        said += [f"account {account}"] if account else []
        print(f"  running {hex(int(task))} {task_title(task)}: {', '.join(said)}")


class Scopes(gdb.Command):
    """The tasks that the selected thread is in, innermost first: limits, interrupt, masks, holds, guards."""

    def __init__(self):
        super().__init__("stint scopes", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        known()
        thread = gdb.selected_thread()
        if thread is None:
            raise Trouble("stint: no thread is selected")
        record = record_of(thread)
        scopes = list(linked(record["scope"], "below")) if record is not None else []
        if not scopes:
            print(f"thread {thread.num} is in no scope")
        counted = counted_locks(record) if scopes else None
        for number, scope in enumerate(scopes):
            for line in describe_scope(number, scope.cast(known()["scope"].type), record, counted if number == 0 else 0):
                print(line)


class Futures(gdb.Command):
    """Unresolved futures and who waits for them, and those in variables of the selected thread's frames."""

    def __init__(self):
        super().__init__("stint futures", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        running = running_on()
        task_type = known()["delayed"].dereference()["task"].type.pointer()
        named = self.in_variables(task_type)
        known_ones = {address: gdb.Value(address).cast(task_type) for address in running}
        known_ones.update((int(task), task) for pool in pools() for task, _ in waiting_in(pool))
        awaited = {}
        for sleeper in sleepers():
            if int(sleeper["task"]) != 0:
                awaited.setdefault(int(sleeper["task"]), []).append(sleeper)
                known_ones[int(sleeper["task"])] = sleeper["task"]
        known_ones.update((address, gdb.Value(address).cast(task_type)) for address in named)
        for address, task in sorted(known_ones.items()):
            said = [state_text(task, running)]
            said += [f"awaited by worker {int(s['worker']['index'])} ({thread_text(s['worker']['record'])})"
                     for s in awaited.get(address, [])]
            followers = sum(1 for _ in linked(task["first_continuation"]))
            said += [f"{followers} continuation{'s' if followers > 1 else ''}"] if followers else []
            said += [f"variable {name}" for name in named.get(address, [])]
            print(f"{hex(address)} {task_title(task)}: {'; '.join(said)}")

    @staticmethod
    def in_variables(task_type):
        """{address: names} of initialised variables of the type stint_future *, as far as they can be told."""
        found, seen = {}, set()
        frame = gdb.selected_frame() if gdb.selected_thread() is not None else None
        while frame is not None:
            try:
                block = frame.block()
            except RuntimeError:
                block = None
            while block is not None and not block.is_global and not block.is_static:
                for one in block:
                    kind = one.type.strip_typedefs() if (one.is_variable or one.is_argument) and one.type else None
                    if kind is None or kind.code != gdb.TYPE_CODE_PTR or kind.target().unqualified(
                    ).strip_typedefs().tag != "stint_future":
                        continue
                    try:
                        address = int(one.value(frame))
                        task = gdb.Value(address).cast(task_type)
                        if address != 0 and is_future(task):
                            found.setdefault(address, []).append(f"{one.name} in {frame.name()}")
                    except (gdb.error, gdb.MemoryError):
                        pass
                block = None if block.function is not None else block.superblock
            frame = frame.older()
        return found


class Backtrace(gdb.Command):
    """The selected thread's backtrace, with its tasks and without frames of the library."""

    def __init__(self):
        super().__init__("stint backtrace", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        known()
        try:
            frame = gdb.newest_frame()
        except gdb.error:
            raise Trouble("stint: no thread is selected")
        level, left_out, has_task = 0, 0, False
        while frame is not None:
            scope = scope_of_boundary(frame)
            if scope is not None:
                print(f"---- {boundary_text(scope)}")
                has_task = True
            elif not is_ours(frame):
                print(frame_text(level, frame))
            level, left_out = level + 1, left_out + (1 if is_ours(frame) else 0)
            frame = frame.older()
        print(f"({left_out} frames of the library left out{'' if has_task else '; the thread is in no task'})")


def load():
    TaskFrames()
    for command in (Stint, Tasks, Scopes, Futures, Backtrace):
        command()
