#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads traces of a program in which everything happens that can be traced, as strictly as check.py does.

trace_read.py PROGRAM"""
import os
import subprocess
import sys
import tempfile

from check import check

PROGRAM = os.path.abspath(sys.argv[1])
LACKING = 77  # the status of the program where the system lacks something


def run(mode, *path, **environment):
    return subprocess.run([PROGRAM, mode, *path], env=os.environ | environment, check=True, capture_output=True, text=True)


def said(answer):
    """Lines on standard error, but for those of a sanitizer."""
    return [line for line in answer.stderr.splitlines() if line and not line.startswith("==")]


def the_one(trace, name):
    assert len(trace.named(name)) == 1, f"{name}: {len(trace.named(name))} slices of {sorted(one.name for one in trace.slices)}"
    return trace.named(name)[0]


def values(one, name, argument):
    return [event["args"][argument] for event in one.instants if event["name"] == name]


def everything_is_on_its_track():
    run("everything", "trace.json")
    trace = check("trace.json")
    assert trace.lost == 0, trace.lost
    workers = {tid for tid, name in trace.threads.items() if name.startswith("traced/")}
    assert 2 <= len(workers) <= 3, trace.threads
    tasks = [one for one in trace.slices if one.category == "task"]
    outermost = [one for one in tasks if one.parent is None and one.name not in ("here", "untimed")]
    assert {one.tid for one in outermost} <= workers
    # Each was submitted, and its arrow ends in it.
    assert len(outermost) == 10, [one.name for one in outermost]
    submitted = {mark["bind_id"]: mark for mark in trace.marks if mark["name"] == "submit"}
    assert all(one.flow in submitted for one in outermost), [one.name for one in outermost]
    for one in outermost:
        waited = one.begin - submitted[one.flow]["ns"]
        # The clock of scopes may be a microsecond behind what comes before it.
        assert abs(waited - one.arguments["queued_ns"]) < 2000, (waited, one.arguments)

    the_one(trace, 'quick "one" \\ \u00e9\ufffd\n')
    the_one(trace, "a name of more bytes than a tra")
    unnamed = [one for one in outermost if one.name.startswith(os.path.basename(PROGRAM)[:17] + "+0x")]
    assert len(unnamed) == 1, [one.name for one in outermost]

    keeps = the_one(trace, "keeps")
    assert keeps.arguments["outcome"] == "ok" and keeps.arguments["committed_bytes"] >= 10000
    assert values(keeps, "commit", "bytes") == [str(keeps.arguments["committed_bytes"])]
    outside, inside = the_one(trace, "outside"), the_one(trace, "inside")
    assert inside.parent is outside and inside.arguments["committed_bytes"] >= 5000
    for name in ("too much", "masked"):
        one = the_one(trace, name)
        assert (one.arguments["outcome"], one.arguments["reason"]) == ("error", "memory-limit"), one.arguments
        assert one.arguments["peak_bytes"] >= 90000 and one.arguments["committed_bytes"] == 0
        assert values(one, "tripped", "reason") == ["memory-limit"]
        assert values(one, "delivered", "way") == ["jump"]
        assert not values(one, "commit", "bytes")
        rollback = the_one(trace, "rollback of " + name)
        assert rollback.tid == one.tid and rollback.begin >= one.end and rollback.arguments == {"kept_bytes": 0}
    masked = the_one(trace, "masked")
    deferred = values(masked, "deferred", "rule")
    assert deferred and set(deferred) == {"mask"}, deferred
    assert masked.arguments["deferred"] >= 1

    # Child and fork ran on another track than the task that made them.
    child, parent = the_one(trace, "child"), the_one(trace, "parent")
    assert child.tid != parent.tid and parent.begin <= child.begin
    steals = [mark for mark in trace.marks if mark["name"] == "steal"]
    assert [mark["tid"] for mark in steals if mark.get("bind_id") == child.flow] == [child.tid]
    forks, part = the_one(trace, "forks"), trace.named("fork of forks")
    assert part and all(one.tid != forks.tid and forks.begin <= one.begin <= forks.end for one in part)
    taken = {mark["bind_id"]: mark for mark in trace.marks if mark["name"] == "stolen from here"}
    assert all(taken[one.flow]["tid"] == forks.tid for one in part)

    parked = trace.named("parked")
    assert parked and {one.tid for one in parked} <= workers and all(one.parent is None for one in parked)
    woken = [mark for mark in trace.marks if mark["name"] == "woken"]
    assert any("unfinished" not in one.arguments for one in parked) and woken
    assert all(mark["tid"] in workers for mark in woken)
    here, untimed = the_one(trace, "here"), the_one(trace, "untimed")
    assert here.tid not in workers and here.end <= untimed.begin <= untimed.end


def what_is_lost_is_counted():
    answer = run("flood", "flood.json").stdout.split()
    tasks, parks = (int(word) for word in answer)
    trace = check("flood.json")
    submits = sum(mark["name"] == "submit" for mark in trace.marks)
    begun = sum(one.category == "task" for one in trace.slices)
    missing = tasks - begun
    # Sleeps and wake-ups may be among the others.
    assert 0 <= missing <= trace.lost <= missing + 4 * parks + 100, (missing, trace.lost, parks)
    assert submits == begun >= 1000, "next to nothing was written"


def the_child_of_a_fork_writes_nothing():
    run("fork", "fork.json")
    names = {one.name for one in check("fork.json").slices}
    assert {"before", "after"} <= names and "in the child" not in names, names


def the_child_of_a_fork_that_tells_nobody_ends():
    answer = run("silent", STINT_TRACE="silent.json")
    assert not said(answer), answer.stderr
    check("silent.json")


def threads_have_tracks_of_their_own():
    run("threads", "threads.json")
    trace = check("threads.json")
    assert len(trace.named("short")) == 20 and trace.lost == 0


def what_goes_on_ends_with_the_trace():
    run("unfinished", "unfinished.json")
    trace = check("unfinished.json")
    one = the_one(trace, "goes on")
    assert one.arguments == {"unfinished": True} and one.flow


def the_environment_asks_for_a_trace():
    answer = run("everything", STINT_TRACE="environment.%p.json")
    assert not said(answer), answer.stderr
    (name,) = [name for name in os.listdir(".") if name.startswith("environment.")]
    assert name.split(".")[1].isdigit()
    trace = check(name)
    assert trace.named("keeps") and trace.named("fork of forks")
    for path in ("/no/such/folder/trace", "/dev/full"):
        answer = run("fork", STINT_TRACE=path)
        lines = said(answer)
        assert len(lines) == 1 and lines[0].startswith("stint: STINT_TRACE: " + path), answer.stderr
    run("fork", STINT_TRACE="")


def a_trace_takes_no_standard_streams_place():
    subprocess.run(["sh", "-c", 'exec "$0" threads 0<&- >&-', PROGRAM], env=os.environ | {"STINT_TRACE": "closed.json"})
    assert len(check("closed.json").named("short")) == 20


def a_process_ends_with_its_last_thread():
    if b"__tsan_init" in open(PROGRAM, "rb").read():
        return  # its own thread is the last
    for mode in ("mainless", *["watched"] * 5):
        environment = os.environ | {"STINT_TRACE": "mainless.json"}
        if (status := subprocess.run([PROGRAM, mode], env=environment, timeout=20).returncode) == LACKING:
            return  # the program has said what
        assert status == 0, status
        assert len(check("mainless.json").named("last")) == 1


def traces_come_and_go():
    run("storm", "storm.json")
    slices = 0
    for name in os.listdir("."):
        if name.startswith("storm.json"):
            slices += len(check(name).slices)
    assert slices > 50, slices


def main():
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for test in (everything_is_on_its_track, what_is_lost_is_counted, the_child_of_a_fork_writes_nothing,
                     threads_have_tracks_of_their_own, what_goes_on_ends_with_the_trace,
                     traces_come_and_go, the_environment_asks_for_a_trace, a_trace_takes_no_standard_streams_place,
                     a_process_ends_with_its_last_thread, the_child_of_a_fork_that_tells_nobody_ends):
            test()


main()
