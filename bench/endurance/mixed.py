# SPDX-License-Identifier: MIT
"""An hour of mixed load, for run --mixed: stint-sqld with clients that hang up, stint-worker with runs of jobs that are cancelled,
one stint-batch after the other, tasks and walled tasks that are cancelled, and libraries that are stopped at random points.
Memory, descriptors, threads and processes of each are watched; then the load ends, and what is left is looked at again."""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from watching import GROWTH, MIB, draw, read, resident, write_table

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BOMBS = os.path.join(ROOT, "examples/bombs")
sys.path[:0] = [os.path.join(ROOT, "tests/server"), os.path.join(ROOT, "tests/cluster")]
import programs  # noqa: E402
import running  # noqa: E402

HEAD = "| what | how often | cancelled | outcomes | memory, MiB | descriptors | threads | processes below | kept bytes | |"
KINDS = ("memory", "descriptors", "threads", "processes")
SLACK = {"memory": GROWTH, "descriptors": 8, "threads": 4, "processes": 4}  # from the second tenth to the last
AT_REST = {"memory": 192 * MIB, "descriptors": 4, "threads": 4, "processes": 2}  # more than before the load
REST = 20  # seconds without load
GOOD = "SELECT name FROM country ORDER BY name LIMIT 10"
CRIMES = ["null-write.bad", "abort.bad", "exit.bad", "locked-loop.bad", "growing-table.lua", "endless-loop.lua",
          "long-search.sql", "billion-laughs.xml"]


def below(pid):
    """The processes that descend from it."""
    found, left = [], [pid]
    while left:
        one = left.pop()
        for thread in os.listdir(f"/proc/{one}/task") if os.path.exists(f"/proc/{one}/task") else []:
            left += [int(child) for child in read(f"/proc/{one}/task/{thread}/children").split()]
        found.append(one)
    return found[1:]


def look_at(pid):
    """Resident bytes, descriptors, threads, processes below; None: it has gone."""
    try:
        return resident(pid), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")), len(below(pid))
    except OSError:
        return None


class Load:
    """Threads that do one thing again and again, and the process that they load."""

    of_tenth = staticmethod(lambda seen: sorted(seen)[len(seen) // 2])

    def __init__(self, name, what):
        self.name, self.what, self.pid = name, what, None
        self.done = self.cancelled = 0
        self.faults, self.samples, self.kept = [], [], []
        self.first = self.rest = None
        self.ended = threading.Event()
        self.threads = []
        self.lock = threading.Lock()

    def note(self, done=0, cancelled=0, fault=None):
        with self.lock:
            self.done += done
            self.cancelled += cancelled
            if fault:
                self.faults.append(fault)

    def begin(self, count, act):
        def loop(dice):
            while not self.ended.is_set():
                try:
                    act(dice)
                except (OSError, AssertionError, ValueError, AttributeError, subprocess.SubprocessError) as error:
                    self.note(fault=f"{type(error).__name__}: {error}")
                    self.ended.wait(1)
        self.first = look_at(self.pid) if self.pid else None
        self.threads = [threading.Thread(target=loop, args=(random.Random(index),)) for index in range(count)]
        for thread in self.threads:
            thread.start()

    def sample(self, at):
        seen = look_at(self.pid) if self.pid else None
        if seen and seen[0] > 0:
            self.samples.append((at, *seen))

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def end(self):
        """What is done after the rest."""

    def look_kept(self):
        """Bytes that roots keep, where the process tells."""


def metric(text, name):
    found = re.search(rf"^{name} (\S+)$", text, re.M)
    return int(float(found[1])) if found else None


class ServerLoad(Load):
    def __init__(self, build, folder):
        super().__init__("server", "`stint-sqld`: good queries, endless and growing ones, clients that hang up or read nothing")
        running.PROGRAM = os.path.join(build, "examples/server/stint-sqld")
        self.server = running.Server("--timeout", "2s", "--idle", "5s")
        self.pid = self.server.process.pid
        self.good = self.server.ask(GOOD).json()["rows"]
        self.begin(6, self.act)

    def act(self, dice):
        what = dice.randrange(10)
        if what < 5:
            answer = self.server.ask(GOOD)
            self.note(1, fault=None if answer and answer.status == 200 and answer.json()["rows"] == self.good else
                      f"a good query: {answer and answer.status}")
        elif what < 7:
            answer = self.server.ask(running.ENDLESS if what == 5 else running.GROWING, Stint_Timeout="100ms")
            self.note(1, fault=None if answer and answer.status in (422, 504) else f"a bad query: {answer and answer.status}")
        else:
            with self.server.connect(**({"SO_RCVBUF": 4096} if what == 9 else {})) as connection:
                connection.query((running.ENDLESS, running.GROWING, "SELECT a.name, b.name FROM language a, subdivision b")[what - 7])
                time.sleep(dice.random() / 10)
            self.note(1, 1)
        time.sleep(dice.random() / 20)

    def look_kept(self):
        return metric(self.server.get("/metrics").body.decode(), "stint_kept_bytes")

    def end(self):
        self.server.wait_for_queries(0)
        status, said = self.server.stop()
        self.note(fault=None if status == 0 else f"it ended with {status}: {said}")


class WorkerLoad(Load):
    def __init__(self, build, folder):
        super().__init__("worker", "`stint-worker`: runs of 110 jobs, bombs and crimes among them, of which some are cancelled")
        self.folder = folder
        self.dispatch = os.path.join(build, "examples/cluster/stint-dispatch")
        self.cluster = programs.Cluster(os.path.join(folder, "servers"), 1)
        self.cluster.__enter__()
        made = programs.Dispatch(self.dispatch, self.cluster.urls, "--create", "--max-bytes", "64M", "--keep", "1m").end()
        programs.check(made[0] == 0, made)
        self.port = programs.free_ports(1)[0]
        self.worker = programs.Worker(os.path.join(build, "examples/cluster/stint-worker"), self.cluster, "-c", "4",
                                      "--timeout", "500ms", "--memory", "64M", "--health", f"127.0.0.1:{self.port}")
        self.worker.wait_for("ready:")
        self.pid = self.worker.process.pid
        self.good = programs.write_documents(os.path.join(folder, "good"), 100)
        self.bad = [os.path.join(BOMBS, name) for name in CRIMES]
        self.begin(1, self.act)

    def act(self, dice):
        del self.worker.lines[:]
        sent = programs.Dispatch(self.dispatch, self.cluster.urls, *self.good, *self.bad)
        if dice.randrange(3) == 0:
            time.sleep(dice.random())
            sent.process.send_signal(signal.SIGINT)
            status, lines, _, errors = sent.end()
            self.note(len(lines), 1, fault=None if status in (0, 1, 2, 130, -signal.SIGINT) else
                      f"a cancelled run: {status} {errors}")
            return
        status, lines, _, errors = sent.end()
        wrong = [path for path in self.good if lines.get(path, {}).get("outcome") != "ok"]
        wrong += [path for path in self.bad if lines.get(path, {}).get("outcome") != "error"]
        self.note(len(lines), fault=None if status == 1 and not wrong else f"a run: {status} {wrong[:3]} {errors}")
        time.sleep(dice.random())

    def look_kept(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            text = b""
            while got := client.recv(65536):
                text += got
        return metric(text.decode(), "stint_kept_bytes")

    def end(self):
        status = self.worker.stop()
        self.note(fault=None if status == 0 else f"it ended with {status}")
        self.cluster.__exit__()


class BatchLoad(Load):
    """One process after the other: what they have at their most, and nothing at rest."""

    of_tenth = max

    def __init__(self, build, folder):
        super().__init__("batch", "`stint-batch`: 308 files or less, behind the wall and in place; one in three gets SIGINT")
        self.program = os.path.join(build, "examples/batch/stint-batch")
        self.good = programs.write_documents(os.path.join(folder, "batch"), 300)
        self.runs = 0
        self.begin(1, self.act)

    def act(self, dice):
        self.runs += 1
        in_place = self.runs % 2 == 0
        # Crimes end a process, and a search in SQLite that calls nothing has its end behind the wall only.
        bad = [os.path.join(BOMBS, name) for name in CRIMES
               if not (in_place and (name.endswith(".bad") or name == "long-search.sql"))]
        paths = self.good + bad
        process = subprocess.Popen([self.program, "--quiet", "--json", "-", "--timeout", "2s", "--memory", "64M", "-j", "2",
                                    *(["--in-place"] if in_place else []), *paths], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.pid = process.pid
        stopped = dice.randrange(3) == 0
        if stopped:
            time.sleep(0.1 + dice.random() / 2)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
        self.pid = None
        lines = [json.loads(line) for line in out.splitlines()]
        ends = {line["file"]: line["outcome"] for line in lines if "file" in line}
        if process.returncode != 130 or not stopped:
            bad_ones = [path for path in paths if (ends.get(path) == "ok") != (path in self.good)]
            self.note(fault=None if process.returncode == 1 and not bad_ones else f"{process.returncode}, {bad_ones[:3]}")
        self.note(len(ends), 1 if stopped else 0)
        time.sleep(dice.random())


class ProgramLoad(Load):
    """A process that says at its end what it has done."""

    def __init__(self, name, what, seconds, *command):
        super().__init__(name, what)
        self.process = subprocess.Popen(["nice", "-n", "5", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.until = None if seconds is None else time.monotonic() + seconds
        self.said = ""
        self.begin(1, self.act)
        self.first = None

    def act(self, _):
        self.said += self.process.stdout.readline()
        if self.process.poll() is not None:
            self.ended.set()

    def stop(self):
        if self.until is None or time.monotonic() < self.until:  # or the run has been interrupted
            self.process.terminate()
        status = self.process.wait(600)
        super().stop()
        self.said += self.process.stdout.read()
        self.note(fault=None if status == 0 else f"it ended with {status}: {self.said[-500:]}")
        self.pid = None
        found = re.search(r"(\d+) done, (\d+) cancelled, (\d+) bytes kept", self.said)
        if found:
            self.note(int(found[1]), int(found[2]))
            self.kept.append((0, int(found[3])))
        found = re.search(r"(\d[\d,]*) interrupts", self.said)
        if found:
            self.note(int(found[1].replace(",", "")), int(found[1].replace(",", "")))


def tenth(load, kind, number, whole):
    index = 1 + KINDS.index(kind)
    seen = [sample[index] for sample in load.samples if number <= sample[0] * 10 / whole <= number + 1]
    return load.of_tenth(seen) if seen else 0


def judge(load, whole):
    """The row of the table, and what grew."""
    cells, grew = [], []
    for kind in KINDS:
        scale = MIB if kind == "memory" else 1
        index = KINDS.index(kind)
        early, late = tenth(load, kind, 1, whole), tenth(load, kind, 9, whole)
        most = max((sample[1 + index] for sample in load.samples), default=0)
        text = f"{early / scale:.0f} → {late / scale:.0f}, most {most / scale:.0f}"
        if late > early + SLACK[kind]:
            grew.append(f"{kind} {early / scale:.0f} -> {late / scale:.0f}")
        if load.first and load.rest:
            text += f", at rest {load.rest[index] / scale:.0f}"
            if load.rest[index] > load.first[index] + AT_REST[kind]:
                grew.append(f"{kind} at rest {load.first[index] / scale:.0f} -> {load.rest[index] / scale:.0f}")
        cells.append(text)
    kept = max((bytes_kept for _, bytes_kept in load.kept), default=None)
    faults = sorted(set(load.faults))
    row = (f"| {load.what} | {load.done:,} | {load.cancelled:,} | {'**' + str(len(load.faults)) + ' wrong**' if faults else 'right'} "
           f"| {' | '.join(cells)} | {'' if kept is None else kept} | {'**grew**' if grew else 'flat'} |")
    return row, [f"{load.name}: {fault}" for fault in faults[:5] + grew]


def run(build, seconds):
    rows, bad = [], []
    with tempfile.TemporaryDirectory(prefix="stint-mixed-") as folder:
        loads = []
        try:
            # Walls first: what is started later is heard by none of their processes.
            endurance = os.path.join(build, "bench/stint-endurance")
            loads += [ProgramLoad("walls", "walled tasks that crash, exit, hang, are killed or cancelled", None, endurance, "walls",
                                  "1000000000"),
                      ProgramLoad("cancels", "trees of forks, of which one in three is cancelled", None, endurance, "cancels",
                                  "1000000000"),
                      ProgramLoad("chaos", "`chaos`: interrupts at random points in nine libraries", seconds,
                                  os.path.join(build, "tests/chaos/chaos"), "--seconds", str(int(seconds))),
                      ServerLoad(build, folder), BatchLoad(build, folder)]
            if os.path.exists(os.path.join(build, "examples/cluster/stint-worker")):
                loads.append(WorkerLoad(build, folder))
            begun, told = time.monotonic(), 0
            while time.monotonic() - begun < seconds:
                at = time.monotonic() - begun
                for load in loads:
                    load.sample(at)
                    if at >= told:
                        kept = load.look_kept()
                        if kept is not None:
                            load.kept.append((at, kept))
                if at >= told:
                    print(f"{at / 60:.0f} of {seconds / 60:.0f} minutes; " + ", ".join(
                        f"{load.name} {load.samples[-1][1] / MIB if load.samples else 0:.0f} MiB" +
                        (f", {len(load.faults)} wrong" if load.faults else "") for load in loads), flush=True)
                    told += max(60, seconds / 20)
                time.sleep(0.25)
        finally:
            for load in loads:
                load.stop()
        time.sleep(min(REST, seconds / 3))
        for load in loads:
            load.rest = look_at(load.pid) if load.pid else None
        for load in loads:
            try:
                load.end()
            except (AssertionError, OSError) as error:
                load.note(fault=str(error))
        programs.kill_all()
    for load in loads:
        row, wrong = judge(load, seconds)
        rows.append(row)
        bad += wrong
        print(row)
    for fault in bad:
        print(f"wrong: {fault}", file=sys.stderr)
    if seconds >= 1200:
        settings = {kind: f"set ylabel '{kind}{', MiB' if kind == 'memory' else ''}'" for kind in KINDS}
        settings[KINDS[0]] += "\nset key"
        settings[KINDS[1]] += "\nset key off"  # one key is enough
        settings[KINDS[-1]] += "\nset xlabel 'minutes'"
        lines = [(settings[kind], load.name,
                  [(sample[0] / 60, sample[1 + index] / (MIB if kind == "memory" else 1)) for sample in load.samples])
                 for index, kind in enumerate(KINDS) for load in loads]
        draw("endurance-mixed.svg", "set key outside right vertical\nset rmargin 18\nset lmargin 10\nset multiplot layout 4,1",
             lines, 1000)
        write_table(HEAD, rows)
    return bool(bad)
