#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""requests.py STINT-SQLD: requests that could be read in two ways, that another site's page has made a browser send, or
that leave no descriptor for others."""
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
import running  # noqa: E402
from running import Server, ServerTest  # noqa: E402

LONG = "SELECT a.name, b.name FROM language a, subdivision b"
BEHIND = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Framing(ServerTest):
    TWICE = ("Content-Length: 8\r\nContent-Length: 8", "Content-Length: 8\r\nContent-Length: 60",
             "Content-Length: 60\r\nContent-Length: 8", "Content-Length: 8\r\nTransfer-Encoding: chunked",
             "Transfer-Encoding: chunked\r\nContent-Length: 8", "Transfer-Encoding: gzip, chunked",
             "Transfer-Encoding: identity\r\nContent-Length: 8", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
             "Transfer-Encoding: xchunked", "Content-Length : 8", "Content-Length\t: 8", "Content-Length: 8\r\nHost: other",
             "Content-Length: 8\r\nStint-Memory: 1M\r\nStint-Memory: 2M",
             "Content-Length: 8\r\nAuthorization: Bearer one\r\nAuthorization: Bearer two",
             "Content-Length: +8", "Content-Length: 0x8", "Content-Length: -8", "Content-Length: 8, 8",
             "Content-Length: 18446744073709551624", "Content-Length:\r\n 8", "Content-Lengt: 8\r\n h",
             "Transfer-Encoding:\r\n\tchunked", "Content-Length: 8\r\nX: a\r\n b", "X: a\rContent-Length: 8",
             "Content-Length\x0b: 8", "Content-Length: 8\r\nX: \x0b", "X\xa0: y\r\nContent-Length: 8", "X(: y\r\nContent-Length: 8")

    def test_what_can_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_answered(self):
        for headers in self.TWICE:
            with self.server.connect() as connection:
                request = f"POST /query HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\nSELECT 1" + BEHIND
                connection.send(request.encode("latin-1"))
                try:
                    answer = connection.answer()
                except ConnectionError:
                    answer = None
                self.assertIn(answer and answer.status, (None, 400, 413, 501), headers)
                self.assertIn(answer and answer.headers.get("connection"), (None, "close"), headers)
                self.assertNotIn(b"no statement", answer.body if answer else b"", headers)
                self.assertTrue(connection.is_closed(), headers)
                self.assertNotIn(b"sqld_queries", connection.buffer, headers)

    HEAD = b"POST /query HTTP/1.1\r\nHost: localhost\r\n"
    CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    FAULTS = (HEAD + b"Content-Length: 8\r\nX: a\0b\r\n\r\nSELECT 1", HEAD + b"X: ab\0\r\nContent-Length: 8\r\n\r\nSELECT 1",
              HEAD + b"X: \0\r\nContent-Length: 8\r\n\r\nSELECT 1", HEAD + b"Content-Length: 8\0\r\n\r\nSELECT 1",
              HEAD + b"Content-Length: 8\x000\r\n\r\nSELECT 1", HEAD + b"Content-Length: 8, 8\r\n\r\nSELECT 1",
              HEAD + b"Content-Length: +8\r\n\r\nSELECT 1", HEAD + b"Content-Length: 8\r\nAccept: a\r\0\n\r\nSELECT 1",
              HEAD + b"Transfer-Encoding: chunked\0x\r\n\r\n8\r\nSELECT 1\r\n0\r\n\r\n",
              b"POST /query HTTP/1.1\r\nHost: localhost\0.example\r\nContent-Length: 8\r\n\r\nSELECT 1",
              b"POST /query\0x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nSELECT 1",
              b"POST /query%00x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nSELECT 1",
              b"GET /metrics?key=abc%00def HTTP/1.1\r\nHost: localhost\r\n\r\n",
              b"POST /query HTTP/1.1\nHost: localhost\nContent-Length: 8\n\nSELECT 1",
              CHUNKED + b"8;x\nSELECT 1\r\n0\r\n\r\n", CHUNKED + b"8\nSELECT 1\n0\n\n",
              CHUNKED + b"8\r\nSELECT 1\r\n0;x\n\r\n", CHUNKED + b"8;\0\r\nSELECT 1\r\n0\r\n\r\n",
              CHUNKED + b"8\r\nSELECT 1\n\r0\r\n\r\n", CHUNKED + b"8\r\nSELECT 1\r\n0\r\nX: a\0b\r\n\r\n",
              CHUNKED + b"8\r\nSELECT 1\r\n0\r\nHost: other\r\n\r\n", CHUNKED + b"+8\r\nSELECT 1\r\n0\r\n\r\n",
              CHUNKED + b"100000008\r\nSELECT 1\r\n0\r\n\r\n")

    def test_a_fault_is_answered_once_with_400_and_nothing_behind_it_is(self):
        for request in self.FAULTS:
            with self.server.connect() as connection:
                connection.send(request + BEHIND.encode())
                self.assertEqual(connection.answer().status, 400, request)
                self.assertTrue(connection.is_closed(), request)
                self.assertEqual(connection.buffer, b"", request)

    def test_a_fault_is_found_however_it_comes_in_pieces(self):
        for request in self.FAULTS:
            with self.server.connect() as connection:
                connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    for at in range(len(request)):
                        connection.send(request[at:at + 1])
                        time.sleep(0.0005)
                    status = connection.answer().status
                except (ConnectionError, AttributeError):
                    continue  # its last bytes came when the connection had ended
                self.assertEqual(status, 400, request)
                self.assertTrue(connection.is_closed(), request)
                self.assertEqual(connection.buffer, b"", request)

    def test_what_is_before_a_fault_is_answered_first(self):
        good = b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nSELECT 1"
        for request in self.FAULTS:
            with self.server.connect() as connection:
                connection.send(good + self.CHUNKED + b"8;x=y\r\nSELECT 2\r\n0\r\nX: y\r\n\r\n" + request + BEHIND.encode())
                self.assertEqual(connection.answer().json()["rows"], [[1]], request)
                answer = connection.answer()
                if answer.status == 200:  # libmicrohttpd 1.0 refuses the extension
                    self.assertEqual(answer.json()["rows"], [[2]], request)
                    answer = connection.answer()
                self.assertEqual(answer.status, 400, request)
                self.assertTrue(connection.is_closed(), request)
                self.assertEqual(connection.buffer, b"", request)

    def test_a_chunked_body_of_http_1_0_is_refused_and_nothing_behind_it_is_answered(self):
        """A client of that version takes the chunks for something else."""
        for keep in ("Connection: keep-alive\r\n", ""):
            with self.server.connect() as connection:
                connection.send(f"POST /query HTTP/1.0\r\nHost: localhost\r\n{keep}Transfer-Encoding: chunked\r\n\r\n"
                                "8\r\nSELECT 1\r\n0\r\n\r\n" + BEHIND)
                self.assertEqual(connection.answer().status, 400)
                self.assertTrue(connection.is_closed())
                self.assertNotIn(b"sqld_queries", connection.buffer)

    def test_what_is_framed_once_is_answered_and_so_is_what_follows(self):
        for headers, body in (("Content-Length: 8", "SELECT 1"), ("content-length: 8", "SELECT 1"),
                              ("Transfer-Encoding: Chunked", "3\r\nSEL\r\n5\r\nECT 1\r\n0\r\n\r\n")):
            with self.server.connect() as connection:
                connection.send(f"POST /query HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n{body}" + BEHIND)
                self.assertEqual(connection.answer().json()["rows"], [[1]])
                self.assertIn(b"sqld_queries", connection.answer().body)

    def test_what_a_chunk_s_size_is_followed_by_is_no_part_of_the_body(self):
        """libmicrohttpd 1.0 refuses such extensions."""
        with self.server.connect() as connection:
            connection.send("POST /query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3\r\nSEL\r\n5;x=y\r\nECT 1\r\n0\r\n\r\n" + BEHIND)
            answer = connection.answer()
            if answer.status == 400:
                self.assertTrue(connection.is_closed())
                self.assertNotIn(b"sqld_queries", connection.buffer)
            else:
                self.assertEqual(answer.json()["rows"], [[1]])
                self.assertIn(b"sqld_queries", connection.answer().body)

    def test_wishes_that_are_nonsense_are_refused(self):
        for value in ("99999999999999999999", "18446744073709551615", "17592186044417M", "-1", "1e9", "0x10", "1 M", "NaN",
                      "1M;", "\xff", "M", "1.5M", "9" * 5000):
            for name in ("Stint_Memory", "Stint_Allocation", "Stint_Timeout"):
                self.assertEqual(self.server.ask("SELECT 1", **{name: value}).status, 400, (name, value))


class Sites(unittest.TestCase):
    """A page of any site can make a browser send a query here, and can read the answer if its own name leads here."""

    FOREIGN = ({"Origin": "http://elsewhere.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
               {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://localhost:3000"}, {"Origin": "https://localhost.example"})
    OWN = ({}, {"Origin": "http://localhost"}, {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"})
    HOSTS = {"localhost": 200, "LOCALHOST:8080": 200, "127.0.0.1": 200, "127.0.0.1:80": 200, "127.1.2.3:80": 200,
             "[::1]:80": 200, "elsewhere.example": 403, "localhost.example": 403, "127.0.0.1.example": 403,
             "127.example": 403, "[::1].example": 403}

    def status_of(self, server, host, key=""):
        with server.connect() as connection:
            connection.send(f"POST /query HTTP/1.1\r\nHost: {host}\r\nContent-Length: 8\r\n{key}\r\nSELECT 1")
            return connection.answer().status

    def test_without_keys_only_this_machine_s_own_pages_may_ask(self):
        server = Server()
        for headers in self.FOREIGN:
            self.assertEqual(server.ask("SELECT 1", **headers).status, 403, headers)
            self.assertEqual(server.get("/cancel/1", "POST", **headers).status, 403, headers)
        for headers in self.OWN:
            self.assertEqual(server.ask("SELECT 1", **headers).status, 200, headers)
            self.assertEqual(server.get("/cancel/1", "POST", **headers).status, 404, headers)
        for host, status in self.HOSTS.items():
            self.assertEqual(self.status_of(server, host), status, host)
        with server.connect() as connection:
            connection.send("POST /query HTTP/1.0\r\nContent-Length: 8\r\n\r\nSELECT 1")
            self.assertEqual(connection.head()[0], 200)
        self.assertEqual(server.stop(), (0, ""))

    def test_what_a_proxy_hands_on_is_not_from_this_machine(self):
        server = Server()
        for headers in ({"X_Forwarded_For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}, {"Via": "1.1 proxy"}):
            self.assertEqual(server.get("/", **headers).status, 403, headers)
            self.assertEqual(server.ask("SELECT 1", **headers).status, 200, headers)
        self.assertEqual(server.get("/").status, 200)
        self.assertEqual(server.stop(), (0, ""))

    def test_with_a_key_it_may_ask_from_anywhere(self):
        path = running.write_file("[a]\nkey = key-of-tenant-a\n")
        server = Server("--tenants", path)
        os.unlink(path)
        self.assertEqual(self.status_of(server, "elsewhere.example", "Authorization: Bearer key-of-tenant-a\r\n"), 200)
        self.assertEqual(self.status_of(server, "elsewhere.example"), 401)
        self.assertEqual(server.stop(), (0, ""))


class Descriptors(unittest.TestCase):
    def start(self, soft, hard, *options):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        popen = subprocess.Popen

        def limited(*arguments, **words):
            return popen(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)), **words)
        subprocess.Popen = limited
        try:
            return Server(*options)
        finally:
            subprocess.Popen = popen
            self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE), before)

    def test_slow_readers_leave_descriptors_for_others(self):
        server = self.start(64, resource.getrlimit(resource.RLIMIT_NOFILE)[1], "--timeout", "60s", "--queue", "1000")
        readers = [server.connect(SO_RCVBUF=4096) for _ in range(32)]
        for reader in readers:
            reader.query(LONG)
            self.assertEqual(reader.head()[0], 200)
        self.assertEqual(server.ask("SELECT 1").status, 200)
        for reader in readers:
            reader.socket.close()
        self.assertEqual(server.stop(), (0, ""))

    def test_where_there_are_few_it_takes_fewer_connections(self):
        server = self.start(100, 100, "--timeout", "60s", "--idle", "1h")
        readers = [server.connect(SO_RCVBUF=4096) for _ in range(8)]
        for reader in readers:
            reader.query(LONG)
            self.assertEqual(reader.head()[0], 200)
        self.assertEqual(server.ask("SELECT 1").status, 200)
        with server.connect() as last:  # the ninth, which is the last; the tenth waits
            last.query("SELECT 1")
            self.assertEqual(last.answer().status, 200)
            with server.connect() as late:
                late.query("SELECT 2")
                readers.pop().socket.close()
                self.assertEqual(late.answer().json()["rows"], [[2]])
        for reader in readers:
            reader.socket.close()
        status, said = server.stop()
        self.assertEqual((status, said), (0, "stint-sqld: 9 connections at once: the process may have only 100 descriptors\n"))


class Places(ServerTest):
    OPTIONS = ("--connections", "9", "--idle", "1h", "--timeout", "60s")

    def test_who_is_gone_leaves_a_place_to_who_waits_for_one(self):
        """At any stage of the request, and long before the idle time has passed."""
        for number in range(8):
            readers = [self.server.connect(SO_RCVBUF=4096) for _ in range(8)]
            for reader in readers:
                reader.query(LONG)
                reader.head()
            with self.server.connect() as last, self.server.connect() as late:
                last.query("SELECT 1")
                self.assertEqual(last.answer().status, 200)
                late.query(f"SELECT {number}")
                readers.pop().socket.close()
                self.assertEqual(late.answer().json()["rows"], [[number]])
            for reader in readers:
                reader.socket.close()
        self.server.wait_for_connections(1)


    def test_who_ends_its_side_before_its_turn_is_over_leaves_its_place(self):
        """In the midst of a body, and while the answer is made by another thread: long before the idle time has passed."""
        clients = [self.server.connect() for _ in range(8)]
        for number, client in enumerate(clients):
            client.send("POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nSELECT 1" if number % 2 else
                        "GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.socket.shutdown(socket.SHUT_WR)
        self.server.wait_for_connections(1)
        for client in clients:
            client.socket.close()


class Streams(unittest.TestCase):
    def test_it_ends_while_an_answer_is_streamed_and_not_read(self):
        for options in (("--drain", "1ms"), ("--drain", "1ms", "--timeout", "0")):
            server = Server(*options)
            with server.connect(SO_RCVBUF=4096) as reader, server.connect(SO_RCVBUF=4096) as page:
                page.request("GET", "/events")
                page.head()
                reader.query(LONG)
                reader.head()
                server.signal(signal.SIGTERM)
                self.assertEqual(server.stop(), (0, ""))


if __name__ == "__main__":
    running.main()
