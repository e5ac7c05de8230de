# SPDX-License-Identifier: MIT
"""A JetStream cluster on loopback, on ports that nobody has, for the demo, the tests and the benchmark; and as much of a
client as those need to look into its streams. Everything that it makes lies in one folder, and ends with it."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request


def free_ports(count):
    """Ports that were free a moment ago. All are held until all are chosen, so that no two are the same."""
    sockets = []
    for _ in range(count):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        sockets.append(listener)
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def end_cleanly():
    """Have a SIGTERM end the program as an exception does: so the servers that it has started end too."""
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))


class Server:
    def __init__(self, folder, index, ports, routes, extra):
        self.name = f"n{index}"
        self.port, self.monitor, route = ports
        self.url = f"nats://127.0.0.1:{self.port}"
        self.folder = os.path.join(folder, self.name)
        os.makedirs(self.folder)
        self.config = os.path.join(self.folder, "server.conf")
        cluster = "" if len(routes) == 1 else f"""
cluster {{ name: loopback, listen: "127.0.0.1:{route}", routes: [{", ".join(f'"nats://127.0.0.1:{r}"' for r in routes)}] }}"""
        with open(self.config, "w") as config:
            config.write(f"""server_name: {self.name}
listen: "127.0.0.1:{self.port}"
http: "127.0.0.1:{self.monitor}"
jetstream {{ store_dir: "{self.folder}/store", max_memory_store: 256MB, max_file_store: 8GB }}
{cluster}
{extra}
""")
        self.process = None

    def start(self):
        with open(os.path.join(self.folder, "log"), "a") as log:
            self.process = subprocess.Popen(["nats-server", "-c", self.config], stdout=log, stderr=log)

    def kill(self, how=signal.SIGKILL):
        if self.process:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def ask(self, what):
        """What its monitoring port says, or None."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/{what}", timeout=5) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None


class Cluster:
    """with Cluster(folder, 3) as cluster: ... The folder is made anew, and goes with it unless keep is set."""

    def __init__(self, folder, size, extra="", keep=False):
        self.folder, self.keep = folder, keep
        if not shutil.which("nats-server"):
            raise FileNotFoundError("nats-server is not installed (scripts/setup nats-server)")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        ports = free_ports(3 * size)
        routes = ports[2::3]
        self.servers = [Server(folder, i, ports[3 * i:3 * i + 3], routes, extra) for i in range(size)]
        self.urls = ",".join(server.url for server in self.servers)

    def __enter__(self):
        for server in self.servers:
            server.start()
        try:
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for server in self.servers:
            server.kill()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self, seconds=60):
        """Until JetStream answers on all, and the leader of all knows all."""
        end = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > end:
                raise TimeoutError(f"the servers did not become ready; see {self.folder}/*/log")
            time.sleep(0.05)

    def is_ready(self):
        for server in self.servers:
            health = server.ask("healthz")
            if not health or health.get("status") != "ok":
                return False
        if len(self.servers) == 1:
            return True
        states = [server.ask("jsz") or {} for server in self.servers]
        return any(len((state.get("meta_cluster") or {}).get("replicas") or []) == len(self.servers) - 1
                   for state in states) and all((state.get("meta_cluster") or {}).get("leader") for state in states)

    def streams(self, account="$G"):
        """By name: what the leader of each stream says of it, and the leader's name."""
        found = {}
        for server in self.servers:
            state = server.ask("jsz?streams=1&consumers=1&config=1&acc=" + account) if server.process else None
            for stream in [s for a in (state or {}).get("account_details") or [] for s in a.get("stream_detail") or []]:
                leader = (stream.get("cluster") or {}).get("leader", server.name)
                if leader == server.name or stream["name"] not in found:
                    found[stream["name"]] = dict(stream, leader=leader)
        return found

    def count(self, name):
        """Messages in a stream, and subjects."""
        state = self.streams().get(name, {}).get("state", {})
        return state.get("messages", 0), state.get("num_subjects", 0)


class Client:
    """A connection that asks, and gets an answer: for JetStream's own subjects."""

    def __init__(self, server, user=None, password=None):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self.file = self.socket.makefile("rb")
        self.file.readline()  # INFO
        options = {"verbose": False, "headers": True, "no_responders": True, "lang": "test", "version": "0"}
        if user:
            options.update({"user": user, "pass": password})
        self.send(b"CONNECT " + json.dumps(options).encode() + b"\r\nSUB _INBOX.test 1\r\n")

    def send(self, data):
        self.socket.sendall(data)

    def publish(self, subject, data=b"", reply=""):
        self.send(f"PUB {subject} {reply} {len(data)}\r\n".encode() + data + b"\r\n")

    def request(self, subject, data=b""):
        """(headers, data) of the first answer."""
        self.publish(subject, data, "_INBOX.test")
        while True:
            line = self.file.readline().split()
            if not line:
                raise ConnectionError("the server has closed the connection")
            if line[0] == b"PING":
                self.send(b"PONG\r\n")
            elif line[0] in (b"MSG", b"HMSG"):
                size, head = int(line[-1]), int(line[-2]) if line[0] == b"HMSG" else 0
                body = self.file.read(size + 2)[:size]
                return body[:head].decode(), body[head:]
            elif line[0] == b"-ERR":
                raise ConnectionError(b" ".join(line).decode())

    def api(self, what, body=None):
        answer = json.loads(self.request("$JS.API." + what, json.dumps(body).encode() if body is not None else b"")[1])
        return answer

    def close(self):
        self.file.close()
        self.socket.close()
