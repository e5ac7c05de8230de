#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hostile.py STINT-SQLD: whatever a client sends, and however slowly it sends or takes it, costs that client an error or its
connection, and nobody else anything: before and after it all the server has as many descriptors, and answers."""
import random
import struct
import sys
import time

sys.dont_write_bytecode = True
import running  # noqa: E402
from running import ENDLESS, ServerTest  # noqa: E402

SEED = 20240817
LONG = "SELECT a.name, b.name FROM language a, subdivision b"


class HostileTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for _ in range(3):
            cls.server.ask("SELECT 1")
            cls.server.ask(LONG + " LIMIT 5000")
        cls.server.wait_for_connections(1)
        cls.descriptors = cls.server.descriptors()

    def tearDown(self):
        """Other clients are served, and all resources are given back."""
        self.assertEqual(self.server.ask("SELECT 1").json()["rows"], [[1]])
        self.server.wait_for_queries(0)
        self.server.wait_for_connections(1)
        self.server.wait_until(lambda: self.server.descriptors() <= self.descriptors, "the descriptors")


class Clients(HostileTest):
    OPTIONS = ("--idle", "1s", "--timeout", "60s", "--statement", "64k")

    def test_who_hangs_up_has_the_query_stopped(self):
        before = self.server.metric('sqld_queries_total{outcome="cancelled"}')
        for reset in (False, True):
            with self.server.connect() as connection:
                connection.query(ENDLESS)
                self.server.wait_for_queries(1)
                if reset:
                    connection.socket.setsockopt(running.socket.SOL_SOCKET, running.socket.SO_LINGER,
                                                 struct.pack("ii", 1, 0))
            self.server.wait_for_queries(0)
        self.assertEqual(self.server.metric('sqld_queries_total{outcome="cancelled"}'), before + 2)

    def test_who_hangs_up_in_the_midst_of_rows_has_the_query_stopped(self):
        with self.server.connect() as connection:
            connection.query(LONG)
            self.assertEqual(connection.head()[0], 200)
        self.server.wait_for_queries(0)

    def test_slow_readers_hurt_themselves_only(self):
        """There are more of them than workers: their queries sleep, and others run."""
        readers = [self.server.connect(SO_RCVBUF=4096) for _ in range(8)]
        for reader in readers:
            reader.query(LONG, Stint_Timeout="30s")
        self.server.wait_for_queries(8)
        for _ in range(5):
            self.assertEqual(self.server.ask("SELECT count(*) FROM country").json()["rows"], [[249]])
        self.assertEqual(self.server.metric("sqld_unresolved_queries"), 8)
        for reader in readers:
            reader.socket.close()

    def test_a_slow_reader_is_stopped_at_its_deadline(self):
        with self.server.connect(SO_RCVBUF=4096) as reader:
            reader.query(LONG, Stint_Timeout="300ms")
            self.server.wait_for_queries(1)
            self.server.wait_for_queries(0)
            self.assertFalse(reader.answer().whole)

    def test_half_a_request_is_waited_for_so_long(self):
        for half in ("P", "POST /query HTTP/1.1\r\nHost:", "POST /query HTTP/1.1\r\nContent-Length: 100\r\n\r\nSELECT"):
            with self.server.connect() as connection:
                connection.send(half)
                self.assertTrue(connection.is_closed(), half)

    def test_drops_do_not_keep_a_connection_open(self):
        """A client sends a byte now and then, and never a request."""
        with self.server.connect() as connection:
            connection.socket.settimeout(0.1)
            closed = False
            for byte in "POST /query HTTP/1.1\r\nX: " + "x" * 1000:
                try:
                    connection.send(byte)
                    closed = connection.socket.recv(1) == b""
                except TimeoutError:
                    continue
                except ConnectionError:
                    closed = True
                if closed:
                    break
            self.assertTrue(closed)

    def test_large_headers_are_refused(self):
        for size in (40000, 65536, 1 << 20):
            with self.server.connect() as connection:
                try:
                    connection.request("POST", "/query", "SELECT 1", X_Large="x" * size)
                    answer = connection.answer()
                except ConnectionError:
                    answer = None
                self.assertIn(answer and answer.status, (None, 413, 414, 431), size)

    def test_large_bodies_are_refused(self):
        with self.server.connect() as connection:
            connection.send(f"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 30}\r\n\r\nSELECT")
            self.assertEqual(connection.answer().status, 413)
        self.assertEqual(self.server.ask("SELECT 1" + " " * 65529).status, 413)
        self.assertEqual(self.server.ask("SELECT 1" + " " * 65528).status, 200)

    def test_large_bodies_without_a_length_are_refused(self):
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        start = b"POST /query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        with self.server.connect() as connection:
            connection.send(start + 4 * chunk + b"0\r\n\r\n")
            self.assertEqual(connection.answer().status, 413)
        before = self.server.resident()
        with self.server.connect() as connection:
            try:
                connection.send(start)
                for _ in range(1 << 15):
                    connection.send(chunk)
                sent = True
            except ConnectionError:
                sent = False
        self.assertFalse(sent)
        self.assertLess(self.server.resident(), before + (32 << 20))

    def test_statements_that_are_no_text(self):
        for statement in (b"SELECT '\xff\xfe'", b"\xff\xfe\x00", b"SELECT \x80", b"\xf0\x9f\x98\x80", b"SELECT 1\x00",
                          bytes(range(256))):
            answer = self.server.ask(statement)
            self.assertIn(answer.status, (200, 400))
            answer.body.decode()
        self.assertEqual(self.server.ask(b"SELECT 1\x00; SELECT 2").status, 400)

    def test_requests_may_follow_each_other(self):
        with self.server.connect() as connection:
            for i in range(50):
                connection.query(f"SELECT {i}")
            for i in range(50):
                self.assertEqual(connection.answer().json()["rows"], [[i]])

    def test_many_connections_come_and_go(self):
        for _ in range(20):
            connections = [self.server.connect() for _ in range(40)]
            for number, connection in enumerate(connections):
                if number % 2:
                    connection.query(ENDLESS)
            for connection in connections:
                connection.socket.close()
        self.server.wait_for_queries(0)


class Memory(HostileTest):
    OPTIONS = ("--memory", "8M", "--allocation", "32M", "--timeout", "300ms")

    def round(self):
        for statement in ("SELECT hex(randomblob(8000000))", running.GROWING, LONG, "SELECT 1", "SELEC",
                          "SELECT length(group_concat(name)) FROM language"):
            self.server.ask(statement)
        with self.server.connect() as connection:
            connection.query(ENDLESS)

    def test_nothing_of_what_was_stopped_stays(self):
        for _ in range(10):
            self.round()
        self.server.wait_for_queries(0)
        before = self.server.resident()
        for _ in range(30):
            self.round()
        self.server.wait_for_queries(0)
        self.server.wait_until(lambda: self.server.resident() < before + (8 << 20), "the memory")


class Fuzz(HostileTest):
    """A good request with a part changed, cut, or sent twice."""

    OPTIONS = ("--idle", "1s", "--timeout", "1s")
    GOOD = (b"POST /query HTTP/1.1\r\nHost: localhost\r\nStint-Memory: 1M\r\nAccept: text/csv;q=0.5, */*\r\nContent-Length: 8\r\n\r\n"
            b"SELECT 1",
            b"POST /query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nSEL\r\n5\r\nECT 1\r\n0\r\n\r\n",
            b"GET /metrics?a=b&c HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST /cancel/1 HTTP/1.0\r\n\r\n",
            b"GET /debug/stopped HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n")
    PIECES = (b"\r\n", b"\0", b"%00", b"%", b":", b" ", b"-1", b"99999999999999999999", b"\xff", b"HTTP/9.9", b"\n", b",;=q",
              b"Content-Length: 5\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Transfer-Encoding: x\r\n")

    def change(self, chance):
        text = bytearray(chance.choice(self.GOOD))
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(text) + 1)
            how = chance.randrange(5)
            if how == 0:
                text[at:at + chance.randrange(20)] = b""
            elif how == 1:
                text[at:at] = chance.choice(self.PIECES)
            elif how == 2:
                text[at:at] = bytes([chance.randrange(256)])
            elif how == 3:
                text[at:at] = text[:at]
            elif at < len(text):
                text[at] ^= 1 << chance.randrange(8)
        return bytes(text)

    def test_nothing_that_is_sent_harms_the_server(self):
        chance = random.Random(SEED)
        for number in range(400):
            text = self.change(chance)
            with self.server.connect() as connection:
                connection.socket.settimeout(0.02)
                try:
                    connection.send(text)
                    connection.more()
                except (TimeoutError, ConnectionError):
                    pass
            self.assertIsNone(self.server.process.poll(), (SEED, number, text))


if __name__ == "__main__":
    running.main()
