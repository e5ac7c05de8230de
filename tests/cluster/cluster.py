#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stint-worker and stint-dispatch on a JetStream cluster of three servers, on loopback.

cluster.py WORKER DISPATCH BOMBS"""
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request

from programs import (Client, Cluster, Dispatch, Worker, check, end_cleanly, free_ports, kill_all, wait_until, write,
                      write_documents)

WORKER, DISPATCH, BOMBS = sys.argv[1:]
LIMITS = ["--timeout", "4s", "--memory", "32M"]  # so long that a busy machine gets to the memory
LOOP = "while true do end"


def dispatch(cluster, *arguments):
    return Dispatch(DISPATCH, cluster.urls, *arguments)


def make(cluster, *arguments):
    status, _, _, errors = dispatch(cluster, "--create", *arguments).end()
    check(status == 0 and errors == "", errors)


class Stream:
    """Streams with names of their own, so that tests do not meet."""

    def __init__(self, cluster, name, *arguments):
        self.cluster, self.name = cluster, name
        make(cluster, "--stream", name, "--max-bytes", "16M", *arguments)

    def worker(self, *arguments):
        return Worker(WORKER, self.cluster, "--stream", self.name, *arguments).wait_for("ready:")

    def dispatch(self, *arguments):
        return dispatch(self.cluster, "--stream", self.name, *arguments)

    def wait_empty(self):
        wait_until(lambda: self.cluster.count(self.name) == (0, 0), f"{self.name} is empty")

    def letter(self, job):
        """A dead letter's headers and document."""
        client = Client(self.cluster.servers[0])
        answer = client.api(f"STREAM.MSG.GET.{self.name}_DEAD", {"last_by_subj": job})["message"]
        client.close()
        from base64 import b64decode
        return b64decode(answer["hdrs"]).decode(), b64decode(answer["data"]).decode()

    def dead(self):
        client = Client(self.cluster.servers[0])
        state = client.api(f"STREAM.INFO.{self.name}_DEAD", {"subjects_filter": ">"})["state"]
        client.close()
        return sorted(state.get("subjects") or {})


def some_hundred_jobs_end_as_they_do_in_stint_batch(cluster, folder):
    stream = Stream(cluster, "MANY", "--replicas", "3")
    workers = [stream.worker(*LIMITS) for _ in range(2)]
    paths = write_documents(os.path.join(folder, "many"), 300)
    bad = write(os.path.join(folder, "many"), "bad.json", "[1,")
    status, lines, summary, errors = stream.dispatch(os.path.join(folder, "many")).end()
    check(status == 1 and errors == "", (status, errors))
    check(list(lines) == sorted(paths + [bad]), "lines come in the order of the files")
    check(all(lines[path]["outcome"] == "ok" and lines[path]["allocated"] > 0 for path in paths), "all are ok")
    check(lines[bad]["reason"] == "failed" and "line 1" in lines[bad]["detail"], lines[bad])
    check((summary["files"], summary["ok"], summary["error"]) == (301, 300, 1), summary)
    check(summary["workers"] == 2, "both have worked")
    stream.wait_empty()
    check(cluster.count("MANY_DONE") == (301, 301), "one record of each")
    for worker in workers:
        check(worker.stop() == 0, worker.lines)


def equal_files_are_one_job(cluster, folder):
    stream = Stream(cluster, "EQUAL")
    worker = stream.worker()
    for name in ("a.lua", "b.lua", "c.lua"):
        write(folder, name, "return 7")
    other = write(folder, "d.expr", "return 7")  # the same text, but of another kind
    paths = [os.path.join(folder, name) for name in ("a.lua", "b.lua", "c.lua")]
    status, lines, summary, _ = stream.dispatch(*paths, other).end()
    check(status == 1 and summary["ok"] == 3 and summary["error"] == 1, lines)
    check(cluster.count("EQUAL_DONE") == (2, 2), "two jobs")
    # A run that has a name can be gone on with: what it has sent is not sent again.
    for extra in ([], ["e.lua"]):
        for name in extra:
            paths.append(write(folder, name, "return 8"))
        status, lines, summary, _ = stream.dispatch("--run", "twice", *paths).end()
        check(status == 0 and summary["ok"] == len(paths), lines)
    check(cluster.count("EQUAL_DONE") == (4, 4), "two more jobs")
    worker.stop()


def a_bomb_is_a_dead_letter_and_its_worker_lives(cluster, folder):
    stream = Stream(cluster, "BOMBS", "--replicas", "3")
    worker = stream.worker(*LIMITS)
    bomb = os.path.join(BOMBS, "doubling-string.lua")
    loop = os.path.join(BOMBS, "endless-loop.lua")
    good = write(folder, "good.lua", "return 1")
    process = stream.dispatch("--run", "bombs", bomb, loop, good)
    status, lines, _, _ = process.end()
    check(status == 1, status)
    check(lines[bomb]["reason"] == "memory-limit" and lines[loop]["reason"] == "deadline", lines)
    check(lines[good]["outcome"] == "ok", lines)
    check(re.search(r"doubling-string.lua +error +memory-limit +\S+ +\S+\n +\S+ of 32.0 MiB in ", process.out),
          "the table says what it held")
    wait_until(lambda: len(stream.dead()) == 2, "both are dead letters")  # a replica may be late
    letters = [stream.letter(job) for job in stream.dead()]
    letter = next((headers, text) for headers, text in letters if "doubling-string" in headers)
    check('"reason":"memory-limit"' in letter[0] and '"allocated":' in letter[0] and "Stint-Kind: lua" in letter[0],
          letter[0])
    check(letter[1] == open(bomb).read(), "the dead letter has the document")
    stream.wait_empty()
    check(worker.process.poll() is None, "the worker lives")
    check(worker.stop() == 0, worker.lines)


def a_job_whose_workers_die_is_a_dead_letter_and_the_others_go_on(cluster, folder):
    stream = Stream(cluster, "CRASH", "--ack-wait", "1s", "--replicas", "3")
    arguments = ["--max-runs", "2", "--concurrency", "1", "--timeout", "60s"]
    killer = write(folder, "killer.lua", LOOP)
    others = write_documents(os.path.join(folder, "others"), 20)
    process = stream.dispatch(killer, os.path.join(folder, "others"))
    for run in (1, 2):
        stream.worker(*arguments).wait_for(f"delivery {run}: {killer}").kill()
    worker = stream.worker(*arguments)
    status, lines, _, _ = process.end()
    check(status == 1 and lines[killer]["outcome"] == "error", lines[killer])
    check("every worker that ran it died" in lines[killer]["detail"], lines[killer])
    check(all(lines[path]["outcome"] == "ok" for path in others), "the others are ok")
    wait_until(lambda: len(stream.dead()) == 1, "it is a dead letter")
    stream.wait_empty()
    worker.stop()


def a_long_job_is_in_progress_and_runs_once(cluster, folder):
    stream = Stream(cluster, "LONG", "--ack-wait", "2s")
    workers = [stream.worker("--timeout", "4500ms", "--concurrency", "2") for _ in range(2)]
    path = write(folder, "long.lua", LOOP)
    _, lines, _, _ = stream.dispatch(path).end()
    check(lines[path]["reason"] == "deadline", lines)
    check(sum("delivery" in line for worker in workers for line in worker.lines) == 1, "it was delivered once")
    for worker in workers:
        worker.stop()


def write_what_cannot_be_stopped(folder, count):
    """SQLite compares at millions of places, in one call that allocates nothing."""
    text = "SELECT instr(hex(zeroblob(5000000)), hex(zeroblob(500000)) || 'x'); -- "
    return [write(folder, f"stuck{i}.sql", text + str(i)) for i in range(count)]


def a_deadline_holds_and_other_jobs_go_on(cluster, folder):
    stream = Stream(cluster, "STUCK")
    worker = stream.worker("--timeout", "500ms", "--concurrency", "4")
    stuck = write_what_cannot_be_stopped(folder, 4)
    good = write(folder, "after.lua", "return 1")
    _, lines, _, _ = stream.dispatch(*stuck, good).end()
    check(all(lines[path]["reason"] == "deadline" for path in stuck), lines)
    check(all(lines[path]["wall_ns"] < 2e9 for path in stuck), lines)
    check(lines[good]["outcome"] == "ok", lines)
    check(worker.stop() == 0, worker.lines)


def crimes_are_dead_letters_and_the_worker_lives(cluster, folder):
    stream = Stream(cluster, "CRIMES")
    worker = stream.worker("--timeout", "500ms")
    wanted = {"null-write.bad": "crash", "exit.bad": "exit", "locked-loop.bad": "deadline", "fork-bomb.bad": "failed"}
    paths = {os.path.join(BOMBS, name): reason for name, reason in wanted.items()}
    good = write(folder, "innocent.lua", "return 1")
    _, lines, _, _ = stream.dispatch(*paths, good).end()
    check({path: lines[path]["reason"] for path in paths} == paths, lines)
    check("in write_to_null" in lines[os.path.join(BOMBS, "null-write.bad")]["detail"], lines)
    check(lines[good]["outcome"] == "ok", lines)
    stream.wait_empty()
    wait_until(lambda: len(stream.dead()) == 4, "all four are dead letters")
    check(worker.stop() == 0, worker.lines)


def health_tells_of_jobs_that_nothing_stops(cluster, folder):
    stream = Stream(cluster, "OVERDUE")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    # The deadline is so late that a busy machine has reached the comparison, which nothing stops, before it.
    worker = stream.worker("--in-place", "--timeout", "4s", "--concurrency", "2", "--health", address)
    process = stream.dispatch(*write_what_cannot_be_stopped(folder, 2))

    def health():
        try:
            with urllib.request.urlopen(f"http://{address}/healthz") as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
    check(health()[0] == 200, "at first it is of use")
    wait_until(lambda: health()[0] == 503, "it says that it is not")
    check(health()[1].startswith(b"stuck\n2 of 2 jobs in hand run for more than a second"), health())
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        check("stint_worker_overdue_jobs 2\n" in answer.read().decode(), "the metrics say it too")
    worker.kill()
    process.process.kill()


def slow_clients_of_health_delay_nobody(cluster, _folder):
    stream = Stream(cluster, "SLOW")
    port = free_ports(1)[0]
    worker = stream.worker("--health", f"127.0.0.1:{port}")
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    for client in slow[:25]:
        client.sendall(b"GET /heal")
    begun = time.monotonic()
    check(urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read() == b"ok\n", "it is answered")
    # One after the other they would take 50 s.
    check(time.monotonic() - begun < 10, time.monotonic() - begun)
    for client in slow:
        client.settimeout(30)
        check(client.recv(1000)[:20] in (b"", b"HTTP/1.1 408 Request"), "they are let go of")
    check(worker.stop() == 0, worker.lines)


def ctrl_c_cancels_what_runs_and_what_waits(cluster, folder):
    stream = Stream(cluster, "CANCEL", "--replicas", "3")
    worker = stream.worker("--concurrency", "2", "--timeout", "60s")
    loops = [write(folder, f"loop{i}.lua", f"local n = {i} {LOOP}") for i in range(6)]
    process = stream.dispatch(*loops)
    wait_until(lambda: sum("delivery 1" in line for line in worker.lines) == 2, "two run")
    wait_until(lambda: cluster.count("CANCEL")[0] == 6, "six are sent")
    process.process.send_signal(signal.SIGINT)
    status, lines, summary, _ = process.end()
    check(status == 130 and summary["cancelled"] == 6, (status, summary))
    check(sum(line["wall_ns"] > 0 for line in lines.values()) == 2, lines)
    stream.wait_empty()
    check(cluster.count("CANCEL_DEAD")[0] == 0, "a cancelled job is no dead letter")
    check(worker.stop() == 0 and worker.has_said("0 ok, 0 dead letters, 2 cancelled, 0 handed back"), worker.lines)


def sigterm_drains_and_then_hands_jobs_to_another_worker(cluster, folder):
    stream = Stream(cluster, "DRAIN", "--replicas", "3")
    first = stream.worker("--concurrency", "2", "--timeout", "60s", "--drain", "300ms")
    long = write(folder, "drain.lua", LOOP)
    process = stream.dispatch(long)
    first.wait_for("delivery 1")
    check(first.stop() == 0, first.lines)
    check(first.has_said("0 ok, 0 dead letters, 0 cancelled, 1 handed back"), first.lines)
    second = stream.worker("--concurrency", "2", "--timeout", "300ms").wait_for("delivery 2", 10)  # sooner than ack-wait
    _, lines, _, _ = process.end()
    check(lines[long]["reason"] == "deadline", lines)
    # A job that ends in time is no other one's.
    short = write(folder, "short.lua", "local i = 0 while i < 30000000 do i = i + 1 end")
    process = stream.dispatch(short)
    second.wait_for("short.lua")
    second.stop()
    check(second.has_said("0 handed back"), second.lines)
    check(process.end()[0] == (0 if second.has_said("1 ok") else 1), "it has a record")


def a_port_that_is_none_is_refused(cluster, _folder):
    make(cluster, "--stream", "PORT", "--max-bytes", "16M")
    for port in ("65536", "70000", "-1", "99999999999999999999", ""):
        worker = Worker(WORKER, cluster, "--stream", "PORT", "--health", "127.0.0.1:" + port)
        wait_until(lambda: worker.has_said("ready:") or worker.process.poll() is not None, "it begins, or does not")
        check(worker.stop() == 2 and worker.has_said("--health: "), (port, worker.lines))


def health_and_metrics_are_answered(cluster, folder):
    stream = Stream(cluster, "HEALTH")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    worker = stream.worker("--health", address)
    path = write(folder, "health.lua", "return 1")
    check(stream.dispatch(path).end()[0] == 0, "ok")
    check(urllib.request.urlopen(f"http://{address}/healthz").read() == b"ok\n", "ok")
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        check("openmetrics-text" in answer.headers["Content-Type"], answer.headers)
        text = answer.read().decode()
    for line in ('stint_worker_jobs_total{end="ok"} 1', 'stint_pool_tasks_total{pool="documents",reason="none"} 1'):
        check(line + "\n" in text, "there is no line " + line)
    check(text.endswith("# EOF\n"), text[-100:])
    try:
        urllib.request.urlopen(f"http://{address}/other")
        check(False, "there is nothing else")
    except urllib.error.HTTPError as error:
        check(error.code == 404, error)
    worker.stop()


def a_lost_connection_is_told_of_and_made_again(cluster, folder):
    stream = Stream(cluster, "LOST", "--replicas", "3", "--ack-wait", "2s")
    worker = stream.worker("--timeout", "60s", "--concurrency", "1")
    path = write(folder, "lost.lua", "local i = 0 while i < 200000000 do i = i + 1 end")
    process = stream.dispatch(path)
    worker.wait_for("delivery 1")
    client = next(server for server in cluster.servers if any(
        connection.get("name") == "stint-worker" for connection in server.ask("connz")["connections"]))
    client.kill()
    worker.wait_for("connected again")
    status, lines, _, _ = process.end()
    check(status == 0, lines)
    client.start()
    stream.wait_empty()
    # A server that has just come back may tell what it has not heard of yet.
    wait_until(lambda: cluster.count("LOST_DONE") == (1, 1), "one record")
    worker.stop()


def no_server_is_an_error(_, folder):
    url = f"nats://127.0.0.1:{free_ports(1)[0]}"
    path = write(folder, "a.json", "1")
    status, _, _, errors = Dispatch(DISPATCH, url, path).end()
    check(status == 2 and errors == f"stint-dispatch: no server answers at {url}\n", (status, errors))

    class Nowhere:
        urls = url
    worker = Worker(WORKER, Nowhere)
    check(worker.process.wait(10) == 2, "exit 2")
    worker.wait_for(f"stint-worker: no server answers at {url}")


def a_stream_that_is_missing_is_an_error_of_the_worker(cluster, _):
    worker = Worker(WORKER, cluster, "--stream", "MISSING")
    check(worker.process.wait(30) == 2, "exit 2")
    worker.wait_for("there is no stream MISSING: stint-dispatch --create makes it")


def a_stream_of_another_shape_is_an_error_and_nothing_is_made(cluster, folder):
    path = write(folder, "a.json", "1")
    client = Client(cluster.servers[0])
    shapes = {
        "A": ({"retention": "limits"}, "its retention is limits, and has to be workqueue"),
        "B": ({"storage": "memory"}, "it is kept in memory, and has to be in files"),
        "C": ({"subjects": ["C.job.>", "more"]}, "its subjects have to be C.job.> alone"),
        "D": ({"discard": "old"}, "when it is full it drops old jobs, and has to refuse new ones"),
    }
    for name, (shape, said) in shapes.items():
        config = {"name": name, "subjects": [f"{name}.job.>"], "retention": "workqueue", "storage": "file",
                  "discard": "new", "num_replicas": 1, "max_consumers": -1, "max_msgs": -1, "max_bytes": -1}
        config.update(shape)
        check("error" not in client.api(f"STREAM.CREATE.{name}", config), name)
        status, _, _, errors = dispatch(cluster, "--stream", name, path).end()
        check(status == 2 and errors == f"stint-dispatch: the stream {name} exists with other settings: {said}\n",
              (status, errors))
        check(f"{name}_DONE" not in cluster.streams(), "nothing is made")
        worker = Worker(WORKER, cluster, "--stream", name)
        check(worker.process.wait(30) == 2, "exit 2")
        worker.wait_for(said)
    # The last that would be made cannot be: what was made before it goes again.
    check("error" not in client.api("STREAM.CREATE.TAKEN", {"name": "TAKEN", "subjects": ["E.dead.>"]}), "TAKEN")
    status, _, _, errors = dispatch(cluster, "--stream", "E", path).end()
    check(status == 2 and "cannot make the stream E_DEAD: subjects overlap" in errors, errors)
    check(not {"E", "E_DONE", "E_DEAD"} & set(cluster.streams()), cluster.streams().keys())
    status, _, _, errors = dispatch(cluster, "--stream", "F", "--replicas", "5", path).end()
    check(status == 2 and "cannot make the stream F:" in errors, errors)
    client.close()


def a_consumer_that_gives_up_is_an_error(cluster, _):
    make(cluster, "--stream", "GIVES", "--max-bytes", "16M")
    client = Client(cluster.servers[0])
    client.api("CONSUMER.DELETE.GIVES.workers")
    client.api("CONSUMER.DURABLE.CREATE.GIVES.workers", {"stream_name": "GIVES", "config": {
        "durable_name": "workers", "ack_policy": "explicit", "max_deliver": 3}})
    client.close()
    worker = Worker(WORKER, cluster, "--stream", "GIVES")
    check(worker.process.wait(30) == 2, "exit 2")
    worker.wait_for("it gives up after max_deliver")


def a_full_stream_is_an_error_and_nothing_is_sent(cluster, folder):
    for replicas in ("1", "3"):
        name = "FULL" + replicas
        stream = Stream(cluster, name, "--max-jobs", "2", "--replicas", replicas)
        client = Client(cluster.servers[0])
        for i in range(2):
            client.request(f"{name}.job.x.{i}", b"another one's")
        client.close()
        path = write(folder, "a.json", "1")
        status, lines, _, errors = stream.dispatch(path).end()
        check(status == 2 and not lines, (status, lines, errors))
        check(f"stint-dispatch: the stream {name} is full: " in errors, errors)
        check(cluster.count(name)[0] == 2, "nothing is sent")


def a_stream_that_becomes_full_makes_the_dispatcher_wait(cluster, folder):
    stream = Stream(cluster, "NARROW", "--max-jobs", "5", "--replicas", "3")
    write_documents(os.path.join(folder, "narrow"), 60)
    process = stream.dispatch(os.path.join(folder, "narrow"))
    wait_until(lambda: cluster.count("NARROW")[0] == 5, "it is full")
    worker = stream.worker()
    status, _, summary, errors = process.end()
    check(status == 0 and summary["ok"] == 60, (status, summary))
    check("the stream NARROW is full; waiting for room" in errors, errors)
    worker.stop()


def a_job_that_is_none_and_one_that_is_too_large_end_as_errors(cluster, folder):
    stream = Stream(cluster, "ODD")
    worker = stream.worker()
    client = Client(cluster.servers[0])
    client.request("ODD.job.odd.1", b"no headers")
    client.close()
    wait_until(lambda: stream.dead() == ["ODD.dead.odd.1"], "it is a dead letter")
    large = write(folder, "large.json", "[" + "1," * 600000 + "1]")
    status, lines, _, _ = stream.dispatch(large).end()
    check(status == 1 and "max_payload" in lines[large]["detail"], lines)
    worker.stop()


def wrong_credentials_are_an_error(folder):
    users = 'authorization { users: [{user: "worker", password: "right"}] }'
    path = write(folder, "a.json", "1")
    with Cluster(os.path.join(folder, "guarded"), 1, users) as cluster:
        address = cluster.servers[0].url.split("//")[1]
        for who in ("worker:wrong@", ""):
            status, _, _, errors = Dispatch(DISPATCH, f"nats://{who}{address}", path).end()
            check(status == 2 and "the server refuses the credentials" in errors, (status, errors))
            check("wrong" not in errors, "the password is not told")
        status, _, _, errors = Dispatch(DISPATCH, cluster.urls, "--creds", os.path.join(folder, "none"), path).end()
        check(status == 2 and "No such file" in errors, (status, errors))
        check(cluster.streams() == {}, "nothing is made")
        status, _, _, errors = Dispatch(DISPATCH, f"nats://worker:right@{address}", "--create").end()
        check(status == 0, errors)


TESTS = [
    no_server_is_an_error,
    some_hundred_jobs_end_as_they_do_in_stint_batch,
    equal_files_are_one_job,
    a_bomb_is_a_dead_letter_and_its_worker_lives,
    a_job_whose_workers_die_is_a_dead_letter_and_the_others_go_on,
    a_long_job_is_in_progress_and_runs_once,
    a_deadline_holds_and_other_jobs_go_on,
    crimes_are_dead_letters_and_the_worker_lives,
    health_tells_of_jobs_that_nothing_stops,
    slow_clients_of_health_delay_nobody,
    ctrl_c_cancels_what_runs_and_what_waits,
    sigterm_drains_and_then_hands_jobs_to_another_worker,
    health_and_metrics_are_answered,
    a_port_that_is_none_is_refused,
    a_stream_that_is_missing_is_an_error_of_the_worker,
    a_stream_of_another_shape_is_an_error_and_nothing_is_made,
    a_consumer_that_gives_up_is_an_error,
    a_full_stream_is_an_error_and_nothing_is_sent,
    a_stream_that_becomes_full_makes_the_dispatcher_wait,
    a_job_that_is_none_and_one_that_is_too_large_end_as_errors,
    a_lost_connection_is_told_of_and_made_again,  # the last: it kills a server
]


def run(name, test, *arguments):
    try:
        test(*arguments)
        print(f"ok   {name}", flush=True)
        return True
    except AssertionError as error:
        print(f"FAIL {name}: {error}", flush=True)
        return False


def main():
    end_cleanly()
    folder = tempfile.mkdtemp(prefix="stint-cluster-")
    wanted = [test for test in TESTS if os.environ.get("ONLY", "") in test.__name__]
    try:
        with Cluster(os.path.join(folder, "servers"), 3) as cluster:
            good = [run(test.__name__, test, cluster, folder) for test in wanted]
        if not os.environ.get("ONLY"):
            good.append(run("wrong_credentials_are_an_error", wrong_credentials_are_an_error, folder))
    finally:
        kill_all()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(not all(good))


main()
