# SPDX-License-Identifier: MIT
"""A running stint-sqld, for tests: started on a port of its own, asked by plain sockets, and looked at from outside."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = None
# Long enough for any machine; what goes wrong is seen by its result, and not by the time that it took.
PATIENCE = 60
# A join that would take for ever, and one that grows for ever.
ENDLESS = "SELECT count(*) FROM language a, language b, language c, language d"
GROWING = "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT x + 1 FROM t) SELECT count(*) FROM t"


class Answer:
    def __init__(self, status, headers, body, trailers, whole):
        self.status, self.headers, self.body, self.trailers = status, headers, body, trailers
        self.whole = whole  # False: the connection was broken off

    def json(self):
        return json.loads(self.body)


class Connection:
    """HTTP by hand, so that a test can send broken requests, and see all of an answer."""

    def __init__(self, port, source="127.0.0.1", **options):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0))
        for option, value in options.items():
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def request(self, method, path, body=b"", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def query(self, statement, **headers):
        self.request("POST", "/query", statement, **headers)

    def more(self):
        got = self.socket.recv(65536)
        self.buffer += got
        return bool(got)

    def until(self, end):
        """Returns the bytes before it, or None if the connection ended first."""
        while end not in self.buffer:
            if not self.more():
                return None
        before, _, self.buffer = self.buffer.partition(end)
        return before

    def exactly(self, count):
        while len(self.buffer) < count:
            if not self.more():
                return None
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def headers(self):
        found = {}
        while True:
            line = self.until(b"\r\n")
            if line is None:
                return None
            if not line:
                return found
            name, _, value = line.decode("latin-1").partition(":")
            found[name.strip().lower()] = value.strip()

    def chunks(self):
        parts = []
        while True:
            size = self.until(b"\r\n")
            if size is None:
                return b"".join(parts), {}, False
            if int(size, 16) == 0:
                return b"".join(parts), self.headers(), True
            data = self.exactly(int(size, 16) + 2)
            if data is None:
                return b"".join(parts) + self.buffer, {}, False
            parts.append(data[:-2])

    def head(self):
        """The status and the headers; None: the connection ended."""
        line = self.until(b"\r\n")
        if line is None:
            return None
        return int(line.split()[1]), self.headers()

    def answer(self):
        head = self.head()
        if head is None:
            return None
        status, headers = head
        if headers.get("transfer-encoding") == "chunked":
            body, trailers, whole = self.chunks()
            return Answer(status, headers, body, trailers, whole)
        length = int(headers.get("content-length", "0"))
        body = self.exactly(length)
        return Answer(status, headers, body if body is not None else self.buffer, {}, body is not None)

    def is_closed(self):
        """Waits for it."""
        try:
            while self.more():
                pass
            return True
        except ConnectionError:
            return True
        except socket.timeout:
            return False


class Server:
    def __init__(self, *options, database=None):
        command = [PROGRAM, "--listen", "127.0.0.1:0", "--workers", "2", *options] + ([database] if database else [])
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        if not found:
            raise AssertionError("it does not start: " + line + self.process.communicate()[1])
        self.port = int(found[1])

    def connect(self, **options):
        return Connection(self.port, **options)

    def ask(self, statement, **headers):
        with self.connect() as connection:
            connection.query(statement, **headers)
            return connection.answer()

    def get(self, path, method="GET", **headers):
        with self.connect() as connection:
            connection.request(method, path, **headers)
            return connection.answer()

    def metric(self, name):
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError("no metric " + name)

    def wait_until(self, reached, what):
        end = time.monotonic() + PATIENCE
        while not reached():
            if time.monotonic() > end:
                raise AssertionError("never came: " + what)
            time.sleep(0.01)

    def wait_for_queries(self, count):
        self.wait_until(lambda: self.metric("sqld_unresolved_queries") == count, f"{count} queries")

    def wait_for_running(self, count):
        self.wait_until(lambda: self.metric('stint_pool_running_workers{pool="queries"}') == count, f"{count} running")

    def wait_for_connections(self, count):
        """Includes the connection that asks."""
        self.wait_until(lambda: self.metric("sqld_connections") == count, f"{count} connections")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Returns its exit status and its standard error."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            _, said = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, said


class ServerTest(unittest.TestCase):
    """All functions of the class test one server with its OPTIONS. The server must end well."""

    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        status, said = cls.server.stop()
        if status != 0:
            raise AssertionError(f"it ended with {status}: {said}")


def write_file(text):
    """A temporary file, to be removed by the caller."""
    handle, path = tempfile.mkstemp(prefix="stint-sqld-test-")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


def main():
    global PROGRAM
    PROGRAM = sys.argv.pop(1)
    unittest.main(warnings="ignore")
