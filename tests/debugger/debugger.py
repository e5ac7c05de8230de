#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""debugger.py GDB PROGRAM LIBRARY: what gdb shows of a program that uses stint, live, in a core file, and where the
library has no debug information. Exits with 77 where gdb may trace nothing."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

GDB, PROGRAM, LIBRARY = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
HEX = r"0x[0-9a-f]+"
TIME = r"[0-9.]+ (?:s|ms|us|ns)"


def gdb(*commands, trusted=os.path.dirname(LIBRARY), before=()):
    """Runs commands, each of which may be (label, command). Returns {label: the output since then}."""
    arguments = [GDB, "-nx", "-batch", "-iex", f"add-auto-load-safe-path {trusted}", "-iex", "set debuginfod enabled off",
                 "-iex", "set startup-with-shell off", "-iex", "set print thread-events off", "-iex", "set width 0",
                 "-iex", "set style enabled off"]
    for command in before:
        arguments += ["-ex", command]
    for command in commands:
        if isinstance(command, tuple):
            arguments += ["-ex", f"echo @@{command[0]}\\n"]
            command = command[1]
        arguments += ["-ex", command]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL)
    if "Could not trace" in run.stderr or "ptrace: Operation not permitted" in run.stderr:
        print("not tested: gdb may trace nothing here")
        sys.exit(77)
    parts = re.split(r"^@@(.*)\n", run.stdout, flags=re.M)
    shown = dict(zip(parts[1::2], parts[2::2]))
    shown["errors"] = run.stderr
    shown["all"] = run.stdout
    return shown


def must_show(shown, label, *patterns):
    """Each pattern on a line of its own, in this order."""
    left = shown[label].splitlines()
    for pattern in patterns:
        while left and not re.fullmatch(pattern, left[0]):
            left.pop(0)
        if not left:
            sys.exit(f"{label}: nothing like\n  {pattern}\nin\n{shown[label]}\n{shown['errors']}")
        left.pop(0)


def check_tasks(shown, age):
    must_show(shown, "tasks",
              r"pool books: 2 workers, 2 running, 3 waiting",
              rf"  waiting {HEX} \"words\" index_words: the submission queue{age}",
              rf"  waiting {HEX} \"billed\" index_words: the fair queue{age}, account acme",
              rf"  waiting {HEX} \"la\\x0ater\\x1b\[1m\" index_words: for its time.*")
    must_show(shown, "tasks", rf"  running {HEX} \"document\" parse_document: worker \d, thread \d.* when last measured.*")
    must_show(shown, "tasks", rf"  running {HEX} \"reader\" wait_for_document: worker \d, thread \d.*")


def check_scopes(shown):
    must_show(shown, "scopes",
              rf"#0 task \"page\" parse_page, scope {HEX}",
              r"   limits: allocated 1.1 MiB, no limit; memory limit 4.0 MiB .*; deadline.*",
              r"   interrupt: token, waiting: masked \(stint_unmask has not been called\)",
              r"   masks 1, keeps 0, blocking regions 0; samples \d+, deferred [1-9]\d*; by jump, grace left .*",
              r"   holds: 1 lock \(only counted\)",
              rf"   guard {HEX}: free_page\({HEX}\)",
              rf"#1 task \"document\" parse_document, scope {HEX}",
              r"   limits: allocation 1.1 MiB of 64.0 MiB",
              r"   interrupt: none requested",
              r"   masks 0.*",
              r"   holds: nothing")


def check_backtraces(shown):
    pool_task = rf"task \"document\" parse_document, future {HEX}, on worker \d of pool books"
    must_show(shown, "backtrace",
              r"#0 +all_is_there at .*debugger_program.c:\d+",
              r"#1 +parse_page at .*",
              r"---- task \"page\" parse_page",
              r"#\d+ +parse_document at .*debugger_program.c:\d+",
              rf"---- {pool_task}",
              r"\(\d+ frames of the library left out\)")
    must_show(shown, "bt",
              r"#0 .*all_is_there.*",
              r"#1 .*parse_page.*",
              r"#2 .* sti_boundary_run \[task \"page\" parse_page\].*",
              r"#\d+ .* stint_run .*",
              r"#\d+ .*parse_document.*",
              rf"#\d+ .* sti_boundary_run \[{pool_task}\].*",
              r"#\d+ .* sti_worker_main .*")


def check_live(core):
    shown = gdb("break all_is_there", "run", ("tasks", "stint tasks"), ("one", "stint tasks books"),
                ("none", "stint tasks films"), ("scopes", "stint scopes"), ("bt", "bt"), ("backtrace", "stint backtrace"),
                ("page", "frame function parse_document"), ("token", "print token"), ("options", "print options"),
                ("main", "thread 1"), ("idle", "stint scopes"), ("away", "stint backtrace"), ("up", "frame function main"),
                ("futures", "stint futures"), ("cover", "print *cover"), ("pointer", "print document"),
                ("stale", "print (stint_future *) &main"),
                ("pool", "print pool"), ("account", "print account"), ("outcome", "print outcome"),
                ("help", "help stint"), f"generate-core-file {core}", "delete", "continue",
                before=[f"file {PROGRAM}", "handle SIG62 SIG63 SIG64 nostop noprint pass"])
    check_tasks(shown, rf", for {TIME}")
    must_show(shown, "one", "pool books: .*")
    must_show(shown, "none", "no pool is called films")
    check_scopes(shown)
    must_show(shown, "scopes", rf"   limits: .*; deadline in {TIME}")
    check_backtraces(shown)
    must_show(shown, "token", rf"\$1 = {HEX} <set>")
    must_show(shown, "options", rf"\$2 = {{budget = {{memory 4.0 MiB, wall_ns 3600.000 s}}, token = {HEX} <set>, "
              rf"name = {HEX} \"page\"}}")
    must_show(shown, "idle", r"thread 1 is in no scope")
    must_show(shown, "away", r"#\d+ +main at .*", r"\(\d+ frames of the library left out; the thread is in no task\)")
    must_show(shown, "futures", rf"{HEX} \"document\" parse_document: running on worker \d \(thread \d\); "
              r"awaited by worker \d \(thread \d\); 1 continuation; variable document in main")
    must_show(shown, "futures", rf"{HEX} \"words\" index_words: queued; 1 continuation; variable words in main")
    must_show(shown, "futures", rf"{HEX} \"la\\x0ater\\x1b\[1m\" index_words: delayed; variable later in main")
    must_show(shown, "futures", rf"{HEX} all of 2 futures: unresolved; variable both in main")
    must_show(shown, "futures", rf"{HEX} \"cover\" draw_cover: error: allocation-limit, code 12; variable cover in main")
    must_show(shown, "cover", r".* = task \"cover\" draw_cover, error: allocation-limit, code 12 .*allocation 1.0 MiB.*")
    must_show(shown, "pointer", rf".* = {HEX} <\"document\" parse_document, running on worker \d \(thread \d\)>")
    must_show(shown, "stale", rf".* = .*{HEX} <no future>")
    must_show(shown, "pool", rf".* = {HEX} <pool books, 2 workers>")
    must_show(shown, "account", rf".* = {HEX} <account acme>")
    must_show(shown, "outcome", r".* = error: allocation-limit, code 12 .*usage = {samples \d+, .*wall_ns .*")
    must_show(shown, "help", "stint tasks .*", "stint scopes .*", "stint futures .*", "stint backtrace .*")
    if "exited normally" not in shown["all"]:
        sys.exit(f"the program did not go on as before:\n{shown['all']}")


def check_core(core):
    shown = gdb(("tasks", "stint tasks"), ("scopes", "stint scopes"), ("bt", "bt"), ("backtrace", "stint backtrace"),
                before=[f"file {PROGRAM}", f"core-file {core}"])
    check_tasks(shown, "")
    check_scopes(shown)
    check_backtraces(shown)


def check_without(scratch):
    """The same without debug information, and before there is a process."""
    library = os.path.join(scratch, os.path.basename(LIBRARY))
    subprocess.run(["objcopy", "--strip-debug", LIBRARY, library], check=True)
    shutil.copy(LIBRARY + "-gdb.py", library + "-gdb.py")
    listed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    mimalloc = re.search(r"libmimalloc\S* => (\S+)/", listed)
    folder = mimalloc.group(1) if mimalloc is not None else scratch
    shown = gdb(f"set environment LD_PRELOAD {library}", f"set environment LD_LIBRARY_PATH {folder}", "break all_is_there", "run", "stint tasks", "stint scopes",
                ("bt", "bt"), before=[f"file {PROGRAM}"], trusted=scratch)
    if shown["errors"].count("libstint.so has no debug information here") != 2:
        sys.exit(f"does not say that there is no debug information:\n{shown['errors']}")
    must_show(shown, "bt", r"#0 .*all_is_there.*", r"#\d+ .* sti_boundary_run .*", r"#\d+ .* sti_worker_main .*")
    shown = gdb("stint tasks", before=[f"file {LIBRARY}"])
    if "Traceback" in shown["errors"] or "does not run" not in shown["errors"]:
        sys.exit(f"does not say that nothing runs:\n{shown['errors']}")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        core = os.path.join(scratch, "core")
        check_live(core)
        check_core(core)
        check_without(scratch)


main()
