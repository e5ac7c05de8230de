# SPDX-License-Identifier: MIT
"""For run: the servers as processes, with what they take of the machine, and wrk."""
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def make_database(path):
    """The same rows each time: a thousand customers and twenty thousand items."""
    chance = random.Random(1)
    with sqlite3.connect(path) as database:
        database.executescript("CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT);"
                               "CREATE TABLE item(id INTEGER PRIMARY KEY, customer INTEGER, name TEXT, price REAL);")
        database.executemany("INSERT INTO customer VALUES(?, ?)", [(i, f"customer {i}") for i in range(1, 1001)])
        database.executemany("INSERT INTO item VALUES(?, ?, ?, ?)",
                             [(i, chance.randint(1, 1000), f"item {i}", round(chance.uniform(1, 100), 2))
                              for i in range(1, 20201)])
        database.execute("CREATE INDEX item_customer ON item(customer)")
    database.close()


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def statistics_of(pid):
    """parent, processor seconds, resident bytes; None when it is gone."""
    text = read(f"/proc/{pid}/stat")
    if not text:
        return None
    fields = text.rsplit(")", 1)[1].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE


def family(pid):
    """The process and all below it."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = statistics_of(int(name))
            if found:
                parents[int(name)] = found[0]
    members = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in members} - members
        if not more:
            return members
        members |= more


class Server:
    """A server that says where it listens on its first line."""

    def __init__(self, command, with_children=False):
        self.with_children = with_children
        self.errors = []
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.port = None
        for line in self.process.stdout:
            self.errors.append(line)
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        if self.port is None:
            raise SystemExit(f"{command[0]} does not start: {''.join(self.errors)}")
        threading.Thread(target=self._drain, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.port}/query"

    def _drain(self):
        for line in self.process.stdout:
            self.errors.append(line)

    def alive(self):
        return self.process.poll() is None

    def resident(self):
        members = family(self.process.pid) if self.with_children else {self.process.pid}
        return sum((statistics_of(pid) or (0, 0, 0))[2] for pid in members)

    def processor(self):
        """Seconds that its processes have used, those that have ended included as far as they were waited for."""
        fields = read(f"/proc/{self.process.pid}/stat").rsplit(")", 1)[-1].split()
        return sum(int(field) for field in fields[11:15]) / TICKS if fields else 0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settled(self):
        """Descriptors and resident bytes when nobody asks for anything any more: the same for a second."""
        before, same, end = None, 0, time.monotonic() + 20
        while time.monotonic() < end and same < 5:
            now = self.descriptors(), self.resident()
            same = same + 1 if now == before else 0
            before = now
            time.sleep(0.2)
        return before

    def stop(self):
        """Its exit status, or None where it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()


class Peak:
    """The most memory that a server has while it is watched."""

    def __init__(self, server):
        self.server, self.most, self.going_on = server, 0, True
        if not server.with_children:
            # The kernel keeps the most of one process: from now on.
            with open(f"/proc/{server.process.pid}/clear_refs", "w") as file:
                file.write("5")
        self.thread = threading.Thread(target=self._watch)

    def _watch(self):
        while self.going_on:
            self.most = max(self.most, self.server.resident())
            time.sleep(0.1)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.going_on = False
        self.thread.join()
        found = re.search(r"^VmHWM:\s+(\d+) kB", read(f"/proc/{self.server.process.pid}/status"), re.M)
        if found and not self.server.with_children:
            self.most = max(self.most, int(found[1]) * 1024)


class Load:
    """wrk, under way: SHARE of its requests hostile, or "plain"; a connection a thread unless plain."""

    def __init__(self, server, seconds, connections, share, keys=()):
        threads = min(connections, 2) if share == "plain" else connections
        self.process = subprocess.Popen(
            ["wrk", f"-t{threads}", f"-c{connections}", f"-d{max(round(seconds), 1)}s", "--timeout", "30s", "-s",
             os.path.join(HERE, "load.lua"), server.address, "--", str(share), str(server.port), *keys],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def result(self):
        text = self.process.communicate()[0]
        found = re.search(r"^RESULT (.*)$", text, re.M)
        if not found:
            raise SystemExit(f"wrk failed: {text}")
        result = json.loads(found[1])
        result["rate"] = result["good"] / result["seconds"]
        return result


def loaded(*arguments):
    return Load(*arguments).result()
