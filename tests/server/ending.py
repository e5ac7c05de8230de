#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ending.py STINT-SQLD: at SIGTERM queries that run get their time, then they are cancelled, and their clients are told; what
is not usable is said in a line, with exit status 2."""
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import running  # noqa: E402
from running import ENDLESS, Server  # noqa: E402


class Ending(unittest.TestCase):
    def test_queries_get_their_time(self):
        server = Server("--drain", "60s")
        with server.connect() as asking, server.connect() as idle:
            asking.query(ENDLESS, Stint_Timeout="1s")
            server.wait_for_queries(1)
            server.signal(signal.SIGTERM)
            self.assertEqual(asking.answer().status, 504)
            self.assertTrue(idle.is_closed())
        self.assertEqual(server.stop(), (0, ""))

    def test_a_query_that_is_given_more_time_ends_at_the_later_deadline(self):
        for options in ((), ("--wall",)):
            server = Server("--timeout", "2s", *options)
            with server.connect() as asking:
                asking.query(ENDLESS)
                server.wait_for_queries(1)
                self.assertEqual(server.get("/extend/1", "POST").status, 204)
                answer = asking.answer()
                self.assertEqual((answer.status, answer.json()["limit"]), (504, 12000), options)
            self.assertEqual(server.get("/extend/1", "POST").status, 404)
            self.assertEqual(server.stop(), (0, ""))

    def test_a_query_without_a_deadline_is_given_no_more_time(self):
        server = Server("--timeout", "0", "--drain", "100ms")
        with server.connect() as asking:
            asking.query(ENDLESS)
            server.wait_for_queries(1)
            self.assertEqual(server.get("/extend/1", "POST").status, 409)
            self.assertEqual(server.get("/cancel/1", "POST").status, 204)
            self.assertEqual(asking.answer().status, 499)
        self.assertEqual(server.stop(), (0, ""))

    def test_queries_that_take_longer_are_cancelled(self):
        server = Server("--drain", "100ms", "--timeout", "0")
        with server.connect() as asking, server.connect() as late, server.connect() as page:
            page.request("GET", "/events")
            page.head()
            asking.query(ENDLESS)
            server.wait_for_queries(1)
            server.signal(signal.SIGTERM)
            late.query("SELECT 1")
            answer = asking.answer()
            self.assertEqual((answer.status, answer.json()["reason"]), (503, "shutdown"))
            answer = late.answer()
            self.assertIn(answer and answer.status, (None, 200, 503))
            self.assertTrue(page.is_closed())
        self.assertEqual(server.stop(), (0, ""))

    def test_a_second_signal_does_not_wait(self):
        server = Server("--drain", "1h", "--timeout", "0")
        with server.connect() as asking:
            asking.query(ENDLESS)
            server.wait_for_queries(1)
            server.signal(signal.SIGINT)
            with self.assertRaises(ConnectionError):
                for _ in range(10000):
                    server.connect().socket.close()
            server.signal(signal.SIGINT)
            self.assertEqual(asking.answer().status, 503)
        self.assertEqual(server.stop()[0], 0)

    def test_the_sample_is_removed(self):
        folder = tempfile.mkdtemp()
        os.environ["TMPDIR"] = folder
        server = Server()
        self.assertEqual(len(os.listdir(folder)), 1)
        self.assertEqual(server.stop()[0], 0)
        self.assertEqual(os.listdir(folder), [])
        del os.environ["TMPDIR"]
        os.rmdir(folder)


class Unbounded(unittest.TestCase):
    def test_it_answers_without_tasks(self):
        server = Server("--unbounded", "--queue", "1")
        self.assertEqual(server.ask("SELECT 1").json()["rows"], [[1]])
        self.assertEqual(server.ask("SELEC").status, 400)
        self.assertEqual(len(server.ask("SELECT a.name FROM language a, subdivision b LIMIT 9000").json()["rows"]), 9000)
        answer = server.ask("SELECT length(hex(randomblob(8000000)))")
        self.assertEqual(answer.json()["rows"], [[16000000]])
        self.assertNotIn("stint-memory-used", answer.headers)
        self.assertIn("stint-time-used", answer.headers)
        self.assertEqual(server.stop(), (0, ""))


class Databases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.db")

    def tearDown(self):
        self.folder.cleanup()

    def make(self, *pragmas):
        database = sqlite3.connect(self.path, isolation_level=None)
        for pragma in pragmas:
            database.execute(pragma)
        database.execute("CREATE TABLE t (x)")
        database.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t SELECT i FROM n")
        return database

    def test_a_database_may_change_under_it(self):
        """Queries that a jump stops leave no lock for which a writer would wait."""
        for pragmas in ((), ("PRAGMA journal_mode = WAL",)):
            database = self.make(*pragmas)
            server = Server("--timeout", "100ms", database=self.path)
            for number in range(10):
                self.assertEqual(server.ask("SELECT count(*) FROM t").json()["rows"], [[1000 + number]])
                self.assertEqual(server.ask("SELECT count(*) FROM t a, t b, t c, t d WHERE a.x + b.x + c.x = -d.x").status, 504)
                self.assertEqual(server.ask("SELECT hex(zeroblob(8000000)), * FROM t", Stint_Memory="16M").status, 422)
                database.execute("INSERT INTO t VALUES (0)")
            server.wait_for_connections(1)
            before = server.descriptors()
            for number in range(10):
                server.ask("SELECT count(*) FROM t a, t b, t c, t d WHERE a.x + b.x + c.x = -d.x")
            server.wait_for_connections(1)
            self.assertLessEqual(server.descriptors(), before)
            self.assertEqual(server.stop(), (0, ""))
            database.close()
            os.unlink(self.path)

    def test_a_locked_database_is_told(self):
        database = self.make()
        server = Server(database=self.path)
        database.execute("BEGIN EXCLUSIVE")
        answer = server.ask("SELECT * FROM t")
        self.assertEqual(answer.status, 503)
        self.assertIn("locked", answer.json()["message"])
        self.assertIn("retry-after", answer.headers)
        database.execute("COMMIT")
        self.assertEqual(server.ask("SELECT * FROM t").status, 200)
        self.assertEqual(server.stop(), (0, ""))
        database.close()


class Unusable(unittest.TestCase):
    def run_it(self, *arguments):
        done = subprocess.run([running.PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_help_and_version_are_told(self):
        status, text, _ = self.run_it("--help")
        self.assertEqual(status, 0)
        for option in ("--listen", "--workers", "--memory", "--allocation", "--timeout", "--queue", "--global-memory",
                       "--tenants", "--page-key", "--unbounded"):
            self.assertIn(option, text)
        self.assertEqual(self.run_it("--version")[0], 0)

    def test_what_is_wrong_is_said_in_a_line(self):
        text = running.write_file("this is no database, however long it may be " * 100)
        for arguments, words in ((("--listen", "here"), "not an address"), (("--listen", "127.0.0.1:70000"), "not an address"),
                                 (("--listen", "::1:80"), "not an address"), (("--workers", "0"), "--workers"),
                                 (("--memory", "lots"), "not a size"), (("--timeout", "soon"), "not a duration"),
                                 (("--queue", "-1"), "--queue"), (("--statement", "0"), "--statement"),
                                 (("--colour",), "unknown option"), (("--memory",), "needs an argument"), (("--unbounded=1",), "no argument"),
                                 (("a.db", "b.db"), "one DATABASE"), (("/nowhere/a.db",), "unable to open"),
                                 ((text,), "not a database"), (("--tenants", "/nowhere/t.ini"), "No such file"),
                                 (("--page-key", "/nowhere/key"), "No such file"), (("--page-key", "/dev/null"), "must be a key")):
            status, out, said = self.run_it("--listen", "127.0.0.1:0", *arguments)
            self.assertEqual((status, out), (2, ""), (arguments, said))
            self.assertIn(words, said, arguments)
            self.assertEqual(said.count("\n"), 1)
        os.unlink(text)

    def test_a_port_in_use_is_said(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            status, _, said = self.run_it("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertEqual(status, 2)
        self.assertIn("Address already in use", said)


if __name__ == "__main__":
    running.main()
