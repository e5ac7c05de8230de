#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many jobs, while workers are killed every few seconds and the leader of the stream twice: each job ends with exactly
one result, and a dead letter if that is an error; none is lost, none is counted twice.

endurance.py WORKER DISPATCH [JOBS]"""
import os
import random
import shutil
import sys
import tempfile
import threading
import time

from programs import Client, Cluster, Dispatch, Worker, check, end_cleanly, kill_all, wait_until, write, write_documents

JOBS = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
WORKERS = 3
KILL_EVERY = 3.0  # seconds
BOMBS_EVERY = 500


def restart_leader(cluster, pause):
    """Kill the server that leads the stream, and start it again."""
    name = cluster.streams()["JOBS"]["leader"]
    server = next(server for server in cluster.servers if server.name == name)
    server.kill()
    time.sleep(pause)
    server.start()


class Chaos(threading.Thread):
    """Kills workers and servers until it is stopped."""

    def __init__(self, cluster, program):
        super().__init__(daemon=True)
        self.cluster, self.program = cluster, program
        self.random = random.Random(1)
        self.ended = threading.Event()
        self.workers = [self.start_worker() for _ in range(WORKERS)]
        self.kills = self.leader_kills = 0

    def start_worker(self):
        return Worker(self.program, self.cluster, "--concurrency", "8", "--timeout", "2s", "--memory", "64M",
                      "--max-runs", "20")

    def kill_worker(self):
        index = self.random.randrange(WORKERS)
        self.workers[index].kill()
        self.kills += 1
        self.workers[index] = self.start_worker()

    def kill_leader(self):
        restart_leader(self.cluster, 5)
        self.leader_kills += 1

    def run(self):
        kill_at = time.monotonic() + KILL_EVERY
        while not self.ended.wait(0.2):
            if time.monotonic() > kill_at:
                self.kill_worker()
                kill_at = time.monotonic() + KILL_EVERY * self.random.uniform(0.5, 1.5)
            # So early that a quick machine is not at the end before the second is killed.
            if self.leader_kills < 2 and self.cluster.count("JOBS_DONE")[0] > JOBS * (self.leader_kills + 1) / 4:
                self.kill_leader()


def write_all(folder):
    paths = write_documents(folder, JOBS - JOBS // BOMBS_EVERY)
    bombs = [write(folder, f"bomb{i:03}.lua", f"local t = {{{i}}} while true do t[#t + 1] = {{}} end")
             for i in range(JOBS // BOMBS_EVERY)]
    return paths, bombs


def records_of(cluster, stream):
    """Every message of a stream, by its subject: (count, its data)."""
    found = {}
    client = Client(cluster.servers[0])
    state = client.api(f"STREAM.INFO.{stream}")["state"]
    for sequence in range(state["first_seq"], state["last_seq"] + 1):
        answer = client.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence})
        if "message" in answer:
            found.setdefault(answer["message"]["subject"].split(".", 2)[2], []).append(answer["message"])
    client.close()
    return found


def nothing_is_due(cluster):
    """Whether the leader of the consumer says that each message was delivered and acknowledged."""
    try:
        client = Client(cluster.servers[0])
        state = client.api("CONSUMER.INFO.JOBS.workers")
        client.close()
    except OSError:  # the servers are choosing a leader
        return False
    return (state.get("num_pending"), state.get("num_ack_pending")) == (0, 0)


def empty_the_leader(cluster):
    """How many acknowledged messages the leader has kept. Such a message is never delivered again, and only takes room:
    nats-server 2.9 removes messages on each replica by itself, and one that was killed may miss some. They go when that
    server is started again (docs/cluster.md)."""
    try:
        wait_until(lambda: cluster.count("JOBS")[0] == 0, "the queue is empty", 20)
        return 0
    except AssertionError:
        behind = cluster.count("JOBS")[0]
        restart_leader(cluster, 1)
        wait_until(lambda: cluster.is_ready() and cluster.count("JOBS")[0] == 0, "the queue is empty")
        return behind


def main():
    end_cleanly()
    folder = tempfile.mkdtemp(prefix="stint-endurance-")
    try:
        paths, bombs = write_all(os.path.join(folder, "jobs"))
        with Cluster(os.path.join(folder, "servers"), 3) as cluster:
            made = Dispatch(sys.argv[2], cluster.urls, "--create", "--replicas", "3", "--ack-wait", "4s").end()
            check(made[0] == 0, made)
            chaos = Chaos(cluster, sys.argv[1])
            begun = time.monotonic()
            dispatch = Dispatch(sys.argv[2], cluster.urls, os.path.join(folder, "jobs"))
            chaos.start()
            status, lines, summary, errors = dispatch.end(3600)
            seconds = time.monotonic() - begun
            chaos.ended.set()
            chaos.join()
            wait_until(lambda: nothing_is_due(cluster), "every message is acknowledged")
            behind = empty_the_leader(cluster)
            for worker in chaos.workers:
                worker.wait_for("ready:")
                check(worker.stop() == 0, f"a worker ends with 0: {worker.lines[-5:]}")
            done, dead = records_of(cluster, "JOBS_DONE"), records_of(cluster, "JOBS_DEAD")
            left = cluster.count("JOBS")[0]
        print(f"{JOBS} jobs in {seconds:.0f} s, {chaos.kills} workers and {chaos.leader_kills} leaders killed: "
              f"{summary['ok']} ok, {summary['error']} errors; {sum(map(len, done.values()))} records of {len(done)} "
              f"jobs, {sum(map(len, dead.values()))} dead letters of {len(dead)}; {left} left in the queue, {behind} "
              "acknowledged ones until their server was started again")
        check(status == 1 and len(lines) == JOBS, (status, len(lines), errors))
        check({path: lines[path]["outcome"] for path in paths} == {path: "ok" for path in paths},
              [lines[path] for path in paths if lines[path]["outcome"] != "ok"])
        check(all(lines[path]["outcome"] == "error" for path in bombs), "every bomb is an error")
        check(len(done) == JOBS and all(len(of) == 1 for of in done.values()), "one record of each job")
        check(len(dead) == len(bombs) and all(len(of) == 1 for of in dead.values()), "one dead letter of each bomb")
        check(left == 0, "the queue is empty")
        check(chaos.leader_kills == 2 or JOBS < 20000, "two leaders were killed")
    finally:
        kill_all()
        shutil.rmtree(folder, ignore_errors=True)


main()
