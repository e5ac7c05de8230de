# SPDX-License-Identifier: MIT
"""Shared by the tests of the cluster: the two programs, and a check with a message."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/cluster"))
from servers import Client, Cluster, end_cleanly, free_ports  # noqa: E402,F401

PATIENCE = 150  # seconds for what takes one or two on a quiet machine


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def wait_until(condition, what, seconds=PATIENCE):
    """The message may be a function that makes it."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.02)


started = []


def kill_all():
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


class Worker:
    """A stint-worker whose standard error is read as it comes."""

    def __init__(self, program, cluster, *arguments):
        self.process = subprocess.Popen([program, "--server", cluster.urls, "-v", *arguments], stderr=subprocess.PIPE,
                                        text=True)
        started.append(self.process)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def has_said(self, text):
        return any(text in line for line in self.lines)

    def wait_for(self, text, seconds=PATIENCE):
        wait_until(lambda: self.has_said(text), lambda: f"a worker says '{text}'; it said {self.lines}", seconds)
        return self

    def kill(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(PATIENCE)
        self.reader.join()
        return status

    def stop(self):
        return self.kill(signal.SIGTERM)


class Dispatch:
    """A stint-dispatch that runs."""

    def __init__(self, program, servers, *arguments, input=None):
        self.json = tempfile.NamedTemporaryFile("r", suffix=".json")
        self.process = subprocess.Popen([program, "--server", servers, "--json", self.json.name, *arguments],
                                        stdin=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(self.process)

    def end(self, seconds=PATIENCE):
        """(exit status, lines of JSON by file, summary, standard error)."""
        try:
            self.out, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, errors = self.process.communicate()
            raise AssertionError(f"stint-dispatch did not end within {seconds} s: {errors}")
        lines = [json.loads(line) for line in self.json]
        summary = lines.pop()["summary"] if lines and "summary" in lines[-1] else None
        return self.process.returncode, {line["file"]: line for line in lines}, summary, errors


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def write_documents(folder, count, start=0):
    """Small documents of several kinds, no two the same."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for i in range(start, start + count):
        kind, text = [("json", json.dumps({"number": i, "list": list(range(i % 40))})),
                      ("xml", f"<a n='{i}'>{'<b/>' * (i % 40)}</a>"),
                      ("sql", f"select {i}; select {i} + 1;"),
                      ("lua", f"return {i}, {i} * 2"),
                      ("expr", f"({i} + 1) * 2")][i % 5]
        paths.append(write(folder, f"{i:05}.{kind}", text))
    return paths
