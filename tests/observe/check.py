#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A strict reader of traces (stint/observe.h), in place of Perfetto's, which is packaged nowhere: check(path) gives what is
in one, or says what is wrong with it."""
import json

PHASES = {"B", "E", "X", "i", "M"}
COMMON = {"ph", "pid", "tid", "name", "cat", "args"}
FIELDS = {
    "B": {"ts", "bind_id", "flow_in"},
    "E": {"ts"},
    "X": {"ts", "dur", "bind_id", "flow_in", "flow_out"},
    "i": {"ts", "s"},
    "M": set(),
}


class Slice:
    def __init__(self, event, depth, parent):
        self.name, self.category, self.begin, self.end = event["name"], event["cat"], event["ns"], None
        self.depth, self.parent, self.arguments, self.instants, self.marks = depth, parent, {}, [], []
        self.tid = event["tid"]
        self.flow = event.get("bind_id")


class Trace:
    def __init__(self):
        self.slices, self.instants, self.marks, self.threads = [], [], [], {}
        self.lost, self.text = 0, None

    def named(self, name):
        return [one for one in self.slices if one.name == name]


def fail(event, what):
    raise AssertionError(f"{what}: {event}")


def no_twice(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key twice: {keys}"
    return dict(pairs)


def nanoseconds(event):
    """Three digits behind the point: exact."""
    whole, point, rest = event["ts"].partition(".")
    if not (whole.isdigit() and point and rest.isdigit() and len(rest) == 3):
        fail(event, "not so many nanoseconds")
    return int(whole) * 1000 + int(rest)


def check_fields(event):
    phase = event.get("ph")
    if phase not in PHASES:
        fail(event, "no such phase")
    extra = set(event) - COMMON - FIELDS[phase]
    if extra:
        fail(event, f"fields that such an event has not: {extra}")
    if phase != "M":
        event["ns"] = nanoseconds(event)
        if not isinstance(event.get("tid"), int):
            fail(event, "on no thread")
    if phase != "E" and not event.get("name"):
        fail(event, "has no name")
    if ("flow_in" in event or "flow_out" in event) != ("bind_id" in event):
        fail(event, "half a flow")


def read_events(document, trace):
    pid = document["traceEvents"][0]["pid"]
    open_slices, last = {}, {}
    for event in document["traceEvents"]:
        check_fields(event)
        if event["pid"] != pid:
            fail(event, "of another process")
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                trace.threads[event["tid"]] = event["args"]["name"]
            continue
        tid = event["tid"]
        stack = open_slices.setdefault(tid, [])
        # What a thief has taken is marked on the track of whom it took it from, which others write too; so is what a
        # thread has submitted, when that has been started.
        if event["ph"] == "X" and (event["cat"] == "fork" or event["name"] == "submit"):
            trace.marks.append(event)
            continue
        if event["ns"] < last.get(tid, 0):
            fail(event, "earlier than what comes before it on its track")
        last[tid] = event["ns"]
        if event["ph"] == "B":
            one = Slice(event, len(stack), stack[-1] if stack else None)
            stack.append(one)
            trace.slices.append(one)
        elif event["ph"] == "E":
            if not stack:
                fail(event, "ends nothing")
            one = stack.pop()
            one.end, one.arguments = event["ns"], event.get("args", {})
        else:
            (trace.marks if event["ph"] == "X" else trace.instants).append(event)
            if stack:
                (stack[-1].marks if event["ph"] == "X" else stack[-1].instants).append(event)
        if event["ph"] == "i" and event["name"] == "lost":
            trace.lost += int(event["args"]["events"])
    for tid, stack in open_slices.items():
        assert not stack, f"on {tid} {stack[0].name} never ends"
        assert tid in trace.threads, f"track {tid} has no name"


def check_flows(trace, total):
    begins = {}
    for mark in trace.marks:
        if mark.get("flow_out") and not mark.get("flow_in"):
            assert mark["bind_id"] not in begins, f"begins twice: {mark}"
            begins[mark["bind_id"]] = mark["ns"]
            assert mark["name"] != "submit" or mark["tid"] in trace.threads, f"track has no name: {mark}"
    ends = [(one.flow, one.begin, one.name) for one in trace.slices if one.flow]
    ends += [(mark["bind_id"], mark["ns"], mark["name"]) for mark in trace.marks if mark.get("flow_in")]
    for flow, ns, name in ends:
        assert flow in begins, f"nothing leads to {name} by {flow}"
        assert begins[flow] <= ns, f"{name} by {flow} comes before what leads to it"
    trace.flows = len(ends)
    assert total == trace.lost or trace.lost <= total, "less is lost in all than on the tracks"


def check(path):
    with open(path, encoding="utf-8") as file:
        # Numbers stay text, so that no digit of a time is lost.
        document = json.load(file, object_pairs_hook=no_twice, parse_float=str)
    assert set(document) == {"displayTimeUnit", "traceEvents", "otherData"}, set(document)
    trace = Trace()
    read_events(document, trace)
    other = document["otherData"]
    assert other["producer"].startswith("stint ")
    # The first event is the process's name, before any is counted.
    assert other["written_events"] == len(document["traceEvents"]) - 1, other
    check_flows(trace, other["lost_events"])
    trace.lost = other["lost_events"]
    for one in trace.slices:
        if one.category == "task" and "unfinished" not in one.arguments:
            commits = [event for event in one.instants if event["name"] == "commit"]
            assert one.arguments["outcome"] in ("ok", "error", "cancelled"), one.arguments
            assert len(commits) == (one.arguments["committed_bytes"] > 0), one.arguments
            assert (one.arguments["outcome"] == "ok") == (one.arguments["reason"] == "none"), one.arguments
    return trace
