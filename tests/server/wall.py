#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""wall.py STINT-SQLD: with --wall each query runs in a process of its own. What that does is its sender's trouble, and the
server lives on."""
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import running  # noqa: E402
from running import ENDLESS, GROWING, PATIENCE, Server, ServerTest  # noqa: E402


def parents():
    """Maps each process to its parent and its name."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        found[int(process)] = (int(rest.split()[1]), name)
    return found


def children_of(server):
    """Returns the processes of its queries, also idle ones."""
    all_processes = parents()

    def is_below(process):
        while process in all_processes:
            process = all_processes[process][0]
            if process == server.process.pid:
                return True
        return False

    return [process for process, (_, name) in all_processes.items() if name == "stint-child" and is_below(process)]


def time_of(process):
    """Its processor time, in ticks."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[11])
    except OSError:
        return 0


def busy_child(server):
    """Returns the process that computes."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for process in children_of(server):
            if time_of(process) >= 10:
                return process
        time.sleep(0.01)
    raise AssertionError("no query computes")


class Walled(ServerTest):
    OPTIONS = ("--wall", "--answer", "1M")

    def test_rows_come_as_in_place(self):
        statement = "SELECT 1, 2.5, NULL, 'x', x'0102', name FROM country ORDER BY code"
        in_place = Server()
        for accept in ("application/json", "text/csv"):
            expected = in_place.ask(statement, Accept=accept)
            answer = self.server.ask(statement, Accept=accept)
            self.assertEqual((answer.status, answer.body), (200, expected.body))
            self.assertEqual(answer.headers["content-type"], expected.headers["content-type"])
        self.assertEqual(in_place.stop()[0], 0)

    def test_an_answer_comes_whole(self):
        answer = self.server.ask("SELECT a.name FROM language a LIMIT 7000")
        self.assertEqual((answer.status, len(answer.json()["rows"])), (200, 7000))
        self.assertEqual(int(answer.headers["content-length"]), len(answer.body))
        self.assertGreater(int(answer.headers["stint-allocation-used"]), len(answer.body))
        self.assertNotIn("transfer-encoding", answer.headers)

    def test_one_that_is_too_long_is_refused(self):
        answer = self.server.ask("SELECT hex(zeroblob(600000))")
        self.assertEqual((answer.status, answer.json()["reason"]), (422, "failed"))
        self.assertIn("larger", answer.json()["message"])

    def test_what_is_wrong_is_told_as_in_place(self):
        for statement, status, words in (("SELEC", 400, "syntax error"), ("DELETE FROM country", 403, "not authorized"),
                                         ("", 400, "no statement"), ("SELECT 1; SELECT 2", 400, "more than one"),
                                         ("ATTACH '/etc/passwd' AS x", 403, "not authorized")):
            answer = self.server.ask(statement)
            self.assertEqual((answer.status, answer.json()["reason"]), (status, "failed"))
            self.assertIn(words, answer.json()["message"])

    def test_limits_hold(self):
        for statement, limits, status, reason in (
                (GROWING, {"Stint_Memory": "8M"}, 422, "memory-limit"),
                (GROWING, {"Stint_Allocation": "8M"}, 422, "allocation-limit"),
                (ENDLESS, {"Stint_Timeout": "200ms"}, 504, "deadline"),
                ("SELECT trim(hex(zeroblob(500000)), replace(hex(zeroblob(50000)), '0', '1') || '0')",
                 {"Stint_Timeout": "200ms"}, 504, "deadline")):
            answer = self.server.ask(statement, **limits)
            self.assertEqual((answer.status, answer.json()["reason"]), (status, reason), statement)

    def test_a_crash_costs_its_sender_an_error(self):
        for number, status, reason in ((signal.SIGSEGV, 500, "crash"), (signal.SIGABRT, 500, "crash"),
                                       (signal.SIGKILL, 503, "killed")):
            with self.server.connect() as connection:
                connection.query(ENDLESS, Stint_Timeout="5s")
                os.kill(busy_child(self.server), number)
                answer = connection.answer()
            self.assertEqual((answer.status, answer.json()["outcome"], answer.json()["reason"]), (status, "error", reason))
            self.assertIn(number.name, answer.json()["message"])
            self.assertEqual(self.server.ask("SELECT 1").json()["rows"], [[1]])
            self.assertEqual(self.server.get("/debug/stopped").json()[0]["reason"], reason)

    def test_a_query_is_cancelled_on_the_page(self):
        with self.server.connect() as asking, self.server.connect() as page:
            asking.query(ENDLESS)
            page.request("GET", "/events")
            page.head()
            seen = b""
            while b'"running":[{' not in seen:
                seen += page.exactly(int(page.until(b"\r\n"), 16) + 2)
            self.assertIn(b'"statement":"' + ENDLESS.encode(), seen)
            number = seen.partition(b'"running":[{"id":"')[2].partition(b'"')[0].decode()
            self.assertEqual(self.server.get("/cancel/" + number, "POST").status, 204)
            answer = asking.answer()
            self.assertEqual((answer.status, answer.json()["reason"]), (499, "token"))

    def test_who_hangs_up_has_its_query_killed(self):
        with self.server.connect() as connection:
            connection.query(ENDLESS)
            child = busy_child(self.server)
        self.server.wait_until(lambda: child not in children_of(self.server), "its end")


class Tenants(unittest.TestCase):
    def test_accounts_hold(self):
        path = running.write_file("[a]\nkey = 12345678\nallocation = 2M\n[b]\nkey = 87654321\nrunning = 1\nwaiting = 1\n")
        server = Server("--wall", "--tenants", path)
        reasons = set()
        for _ in range(20):
            answer = server.ask("SELECT count(*) FROM language", Authorization="Bearer 12345678")
            reasons.add((answer.status, answer.json().get("reason")))
        self.assertEqual(reasons, {(200, None), (429, "account")})
        with server.connect() as first, server.connect() as second:
            first.query(ENDLESS, Authorization="Bearer 87654321", Stint_Timeout="2s")
            busy_child(server)
            second.query(ENDLESS, Authorization="Bearer 87654321", Stint_Timeout="2s")
            server.wait_for_queries(2)
            answer = server.ask("SELECT 1", Authorization="Bearer 87654321")
            self.assertEqual((answer.status, answer.json()["reason"]), (429, "account"))
            self.assertEqual(first.answer().status, 504)
            self.assertEqual(second.answer().status, 504)
        self.assertEqual(server.stop(), (0, ""))
        os.unlink(path)


class Databases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.db")

    def tearDown(self):
        self.folder.cleanup()

    def check_changes(self, mode):
        database = sqlite3.connect(self.path, isolation_level=None)
        database.execute("PRAGMA journal_mode = " + mode)
        database.execute("CREATE TABLE t (x)")
        server = Server("--wall", database=self.path)
        for number in range(1, 200):
            database.execute("INSERT INTO t VALUES (?)", (number,))
            if number % 40 == 0 and mode == "WAL":
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            answer = server.ask("SELECT count(*), sum(x) FROM t")
            self.assertEqual(answer.json().get("rows"), [[number, number * (number + 1) // 2]], answer.body)
        self.assertEqual(server.stop(), (0, ""))
        database.close()

    def test_one_may_change_under_it(self):
        self.check_changes("DELETE")

    def test_one_with_a_write_ahead_log_may_too(self):
        self.check_changes("WAL")

    def test_one_that_nobody_has_open_is_read(self):
        for mode in ("DELETE", "WAL"):
            database = sqlite3.connect(self.path, isolation_level=None)
            database.execute("PRAGMA journal_mode = " + mode)
            database.execute("CREATE TABLE IF NOT EXISTS t (x)")
            database.close()
            server = Server("--wall", database=self.path)
            self.assertEqual(server.ask("SELECT count(*) FROM t").json().get("rows"), [[0]])
            self.assertEqual(server.stop(), (0, ""))


class Ending(unittest.TestCase):
    def test_nothing_is_left(self):
        server = Server("--wall", "--drain", "100ms", "--timeout", "0")
        with server.connect() as asking:
            asking.query(ENDLESS)
            busy_child(server)
            below = children_of(server)
            server.signal(signal.SIGTERM)
            answer = asking.answer()
            self.assertEqual((answer.status, answer.json()["reason"]), (503, "shutdown"))
        self.assertEqual(server.stop(), (0, ""))
        self.assertEqual([process for process in below if os.path.exists(f"/proc/{process}")], [])

    def test_what_cannot_be_had_is_refused(self):
        for options, named in ((["--wall", "--unbounded"], "--unbounded"), (["--answer", "1M"], "--wall"),
                               (["--wall", "--global-memory", "1G"], "--global-memory"),
                               (["--wall", "--answer", "0"], "--answer")):
            result = subprocess.run([running.PROGRAM, *options], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(named, result.stderr)


if __name__ == "__main__":
    running.main()
