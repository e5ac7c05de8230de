#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""access.py WORKER DISPATCH: servers that are guarded, by TLS with an authority of the test's own, by a user, by a
credentials file; what is said of them tells no secret; and files, clients and streams that nobody would expect.

What a test does not have it says, and leaves out."""
import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from programs import Client, Cluster, Dispatch, Worker, check, end_cleanly, free_ports, kill_all, wait_until, write

WORKER, DISPATCH = sys.argv[1:]


class Missing(Exception):
    pass


class At:
    """Servers as a Worker wants them."""

    def __init__(self, urls):
        self.urls = urls


def run_one(urls, folder, *arguments):
    """Sends a job through dispatcher and worker. Returns the output of both."""
    path = write(folder, "one.lua", "return 1")
    arguments = ["--stream", "ONE", *arguments]
    status, _, _, errors = Dispatch(DISPATCH, urls, "--max-bytes", "16M", "--create", *arguments).end()
    check(status == 0, errors)
    worker = Worker(WORKER, At(urls), *arguments).wait_for("ready:")
    status, _, summary, errors = Dispatch(DISPATCH, urls, *arguments, path).end()
    check(status == 0 and summary["ok"] == 1, errors)
    check(worker.stop() == 0, worker.lines)
    return errors + "\n".join(worker.lines)


def refused(urls, folder, *arguments):
    """Returns their message, which differs only by the program's name."""
    path = write(folder, "one.lua", "return 1")
    status, lines, _, errors = Dispatch(DISPATCH, urls, *arguments, path).end()
    check(status == 2 and not lines, (status, errors))
    worker = Worker(WORKER, At(urls), *arguments)
    check(worker.process.wait(60) == 2, worker.lines)
    worker.reader.join()
    check(errors == "".join(line.replace("stint-worker", "stint-dispatch") + "\n" for line in worker.lines),
          (errors, worker.lines))
    return errors


def openssl(*arguments):
    if not shutil.which("openssl"):
        raise Missing("openssl")
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_authority(folder, name):
    key, certificate = os.path.join(folder, name + ".key"), os.path.join(folder, name + ".pem")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=" + name, "-keyout", key, "-out", certificate)
    return key, certificate


def make_certificate(folder, authority, names):
    key, request, certificate = (os.path.join(folder, "server" + end) for end in (".key", ".csr", ".pem"))
    extension = write(folder, "server.ext", "subjectAltName=" + names)
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=server",
            "-keyout", key, "-out", request)
    openssl("x509", "-req", "-in", request, "-CA", authority[1], "-CAkey", authority[0], "-CAcreateserial", "-days", "2",
            "-extfile", extension, "-out", certificate)
    return key, certificate


def tls_of_an_own_authority_is_used_and_others_are_refused(folder):
    authority, other = make_authority(folder, "authority"), make_authority(folder, "other")
    key, certificate = make_certificate(folder, authority, "DNS:localhost,IP:127.0.0.1")
    tls = f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}'
    with Cluster(os.path.join(folder, "tls"), 1, tls) as cluster:
        port = cluster.servers[0].port
        run_one(f"tls://localhost:{port}", folder, "--tls-ca", authority[1])
        run_one(f"nats://localhost:{port}", folder, "--tls-ca", authority[1])
        run_one(f"nats://127.0.0.1:{port}", folder, "--tls-ca", authority[1])
        for ca in ([], ["--tls-ca", other[1]]):
            said = refused(f"tls://localhost:{port}", folder, *ca)
            check("certificate" in said or "SSL" in said or "verify" in said, said)
        nothing = write(folder, "nothing.pem", "this is no certificate\n")
        check("cannot connect" in refused(f"tls://localhost:{port}", folder, "--tls-ca", nothing), "no certificate")
        none = os.path.join(folder, "none.pem")
        check("No such file" in refused(f"tls://localhost:{port}", folder, "--tls-ca", none), "no file")


def a_certificate_of_another_name_is_refused(folder):
    authority = make_authority(folder, "authority")
    key, certificate = make_certificate(folder, authority, "DNS:elsewhere.example")
    tls = f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}'
    with Cluster(os.path.join(folder, "name"), 1, tls) as cluster:
        port = cluster.servers[0].port
        refused(f"tls://localhost:{port}", folder, "--tls-ca", authority[1])
        refused(f"nats://127.0.0.1:{port}", folder, "--tls-ca", authority[1])


def a_server_without_tls_is_refused_where_tls_is_wanted(folder):
    authority = make_authority(folder, "authority")
    with Cluster(os.path.join(folder, "plain"), 1) as cluster:
        refused(cluster.urls, folder, "--tls-ca", authority[1])


# Credentials: NKeys are Ed25519 keys in base32 with a prefix and a CRC-16; the tokens are JWTs that are signed by them.

def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def nkey(prefix, raw):
    data = bytes(prefix) + raw
    return base64.b32encode(data + crc16(data).to_bytes(2, "little")).decode().rstrip("=")


class Key:
    OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3

    def __init__(self, kind):
        try:
            from cryptography.hazmat.primitives import serialization as form
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError:
            raise Missing("python3-cryptography")
        self.key = Ed25519PrivateKey.generate()
        self.name = nkey([kind], self.key.public_key().public_bytes(form.Encoding.Raw, form.PublicFormat.Raw))
        secret = self.key.private_bytes(form.Encoding.Raw, form.PrivateFormat.Raw, form.NoEncryption())
        self.seed = nkey([self.SEED | kind >> 5, (kind & 31) << 3], secret)

    def token(self, subject, name, nats):
        def part(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")
        claims = {"iat": int(time.time()), "iss": self.name, "name": name, "sub": subject, "nats": dict(nats, version=2)}
        claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
        text = part(b'{"typ":"JWT","alg":"ed25519-nkey"}') + b"." + part(json.dumps(claims).encode())
        return (text + b"." + part(self.key.sign(text))).decode()


def credentials(folder, account, user, name):
    token = account.token(user.name, name, {"type": "user", "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}})
    return write(folder, name + ".creds", f"""-----BEGIN NATS USER JWT-----
{token}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
{user.seed}
------END USER NKEY SEED------
""")


def credentials_of_a_file_are_used_and_others_are_refused(folder):
    operator, account, system, stranger = Key(Key.OPERATOR), *(Key(Key.ACCOUNT) for _ in range(3))
    limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
    storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    preload = ", ".join(f'{one.name}: {operator.token(one.name, name, {"type": "account", "limits": allowed})}'
                        for one, name, allowed in ((account, "account", dict(limits, **storage)), (system, "system", limits)))
    guard = f"""operator: {operator.token(operator.name, "operator", {"type": "operator"})}
resolver: MEMORY
system_account: {system.name}
resolver_preload: {{ {preload} }}"""
    with Cluster(os.path.join(folder, "creds"), 1, guard) as cluster:
        good = credentials(folder, account, Key(Key.USER), "good")
        run_one(cluster.urls, folder, "--creds", good)
        for creds in ([], ["--creds", credentials(folder, stranger, Key(Key.USER), "stranger")]):
            check("refuses the credentials" in refused(cluster.urls, folder, *creds), creds)
        refused(cluster.urls, folder, "--creds", write(folder, "nothing.creds", "nothing\n"))


def secrets_are_not_told(folder):
    guard = 'authorization { users: [{user: "worker", password: "secretword"}] }'
    ports = free_ports(1)
    for url in (f"nats://worker:secretword@127.0.0.1:{ports[0]}", f"worker:secretword@127.0.0.1:{ports[0]}",
                f"nats://secretword@127.0.0.1:{ports[0]},nats://worker:secretword@127.0.0.1:{ports[0]}",
                "nats://worker:secretword@127.0.0.1:port", "nats://worker:secretword@[::1", "tls://worker:secretword@:"):
        said = refused(url, folder)
        check("secretword" not in said, said)
    with Cluster(os.path.join(folder, "guarded"), 1, guard) as cluster:
        url = cluster.urls.replace("//", "//worker:secretword@")
        Dispatch(DISPATCH, url, "--create", "--max-bytes", "16M").end()
        worker = Worker(WORKER, At(url)).wait_for("ready:")
        cluster.servers[0].kill()
        worker.wait_for("the connection is lost")
        cluster.servers[0].start()
        worker.wait_for("connected again, to nats://127.0.0.1:")
        check(worker.stop() == 0, worker.lines)
        check(not worker.has_said("secretword"), worker.lines)


def what_the_guide_lets_a_worker_do_is_enough(folder):
    guard = """authorization { users: [
  {user: "all", password: "password-all"},
  {user: "worker", password: "password-worker", permissions: {
    publish: ["$JS.API.>", "$JS.ACK.>", "JOBS.done.>", "JOBS.dead.>"], subscribe: ["_INBOX.>", "JOBS.cancel.>"]}}] }"""
    good, bad = write(folder, "good.lua", "return 1"), write(folder, "bad.json", "[")
    loop = write(folder, "loop.lua", "while true do end")
    with Cluster(os.path.join(folder, "permissions"), 1, guard) as cluster:
        everything = cluster.urls.replace("//", "//all:password-all@")
        check(Dispatch(DISPATCH, everything, "--create", "--max-bytes", "16M").end()[0] == 0, "it is made")
        worker = Worker(WORKER, At(cluster.urls.replace("//", "//worker:password-worker@")), "--timeout", "60s")
        worker.wait_for("ready:")
        status, lines, _, _ = Dispatch(DISPATCH, everything, good, bad).end()
        check(lines[good]["outcome"] == "ok" and lines[bad]["outcome"] == "error", lines)
        process = Dispatch(DISPATCH, everything, loop)
        worker.wait_for("loop.lua")
        process.process.send_signal(signal.SIGINT)
        check(process.end()[2]["cancelled"] == 1, "it is cancelled")
        check(worker.stop() == 0 and worker.has_said("1 ok, 1 dead letters, 1 cancelled"), worker.lines)
        check(not worker.has_said("ermission"), worker.lines)


def no_url_is_no_server(folder):
    for urls in ("", ",", ",,,"):
        said = refused(urls, folder)
        check("a URL is missing" in said, said)
    said = refused(",".join(["nats://127.0.0.1:1"] * 65), folder)
    check("65 URLs, but at most 64 are allowed" in said, said)


def odd_files_and_clients_cost_nobody_else_anything(folder):
    with Cluster(os.path.join(folder, "odd"), 1) as cluster:
        paths = [write(folder, "empty." + kind, "") for kind in ("json", "xml", "sql", "lua", "expr")]
        good = write(folder, "good.lua", "return 1")
        huge, pipe = os.path.join(folder, "huge.json"), os.path.join(folder, "pipe.json")
        with open(huge, "w") as file:
            file.truncate(1 << 40)
        os.mkfifo(pipe)
        gone = os.path.join(folder, "gone.xml")
        escape = write(folder, "\x1b[31m\n.lua", "return 2")
        names = write(folder, "names", "\0".join([*paths, good, huge, gone, escape]))
        status, _, _, errors = Dispatch(DISPATCH, cluster.urls, "--create", "--max-bytes", "16M").end()
        check(status == 0, errors)
        address = ("127.0.0.1", free_ports(1)[0])
        worker = Worker(WORKER, cluster, "--health", "%s:%d" % address).wait_for("ready:")
        process = Dispatch(DISPATCH, cluster.urls, "--quiet", "-0", "-", input=open(names))
        status, lines, summary, errors = process.end()
        check(status == 1 and errors == "" and summary["files"] == 9, (status, errors, summary))
        check("max_payload" in lines[huge]["detail"] and str(1 << 40) in lines[huge]["detail"], lines[huge])
        check("No such file" in lines[gone]["detail"], lines[gone])
        check(lines[good]["outcome"] == "ok" and lines[escape]["outcome"] == "ok", lines)
        batch = {path: lines[path]["outcome"] for path in paths}
        check(all(outcome in ("ok", "error") for outcome in batch.values()), batch)
        check(lines[paths[3]]["outcome"] == "ok" and lines[paths[0]]["outcome"] == "error", batch)
        check(not any("\x1b" in line for line in worker.lines), worker.lines)
        # Who sends a byte now and then keeps neither others from their answer nor the worker from its end.
        with socket.create_connection(address) as slow:
            slow.sendall(b"G")
            begun = time.monotonic()
            with socket.create_connection(address, timeout=60) as other:
                other.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
                while time.monotonic() < begun + 30 and not other.recv(100, socket.MSG_DONTWAIT | socket.MSG_PEEK):
                    pass
                check(other.recv(15) == b"HTTP/1.1 200 OK", "it is answered")
        check(worker.stop() == 0, worker.lines)


def a_queue_that_would_lose_jobs_is_refused(folder):
    with Cluster(os.path.join(folder, "lossy"), 1) as cluster:
        client = Client(cluster.servers[0])
        shapes = {"AGED": ("", {"max_age": 60000000000}, "it drops jobs that are older than max_age"),
                  "NARROW": ("_DONE", {"max_msg_size": 1000, "retention": "limits", "discard": "old"}, "max_msg_size is 1000")}
        for name, (suffix, shape, words) in shapes.items():
            config = {"name": name + suffix, "subjects": [f"{name}.{'done' if suffix else 'job'}.>"], "retention": "workqueue",
                      "storage": "file", "discard": "new", "num_replicas": 1, "max_consumers": -1, "max_msgs": -1,
                      "max_bytes": -1}
            config.update(shape)
            check("error" not in client.api(f"STREAM.CREATE.{name}{suffix}", config), name)
            said = refused(cluster.urls, folder, "--stream", name)
            check(words in said, said)
        client.close()


def two_dispatchers_of_one_run_both_report(folder):
    with Cluster(os.path.join(folder, "two"), 1) as cluster:
        paths = [write(folder, f"{i}.lua", f"return {i}") for i in range(40)]
        Dispatch(DISPATCH, cluster.urls, "--create", "--max-bytes", "16M").end()
        both = [Dispatch(DISPATCH, cluster.urls, "--run", "same", *paths) for _ in range(2)]
        worker = Worker(WORKER, cluster).wait_for("ready:")
        for process in both:
            status, _, summary, errors = process.end()
            check(status == 0 and summary["ok"] == 40, (status, errors, summary))
        check(cluster.count("JOBS_DONE") == (40, 40), "each ran once")
        check(worker.stop() == 0, worker.lines)


def ctrl_c_twice_ends_at_once(folder):
    with Cluster(os.path.join(folder, "twice"), 1) as cluster:
        path = write(folder, "loop.lua", "while true do end")
        process = Dispatch(DISPATCH, cluster.urls, "--max-bytes", "16M", path)
        wait_until(lambda: cluster.count("JOBS")[0] == 1, "it is sent")
        cluster.servers[0].process.send_signal(signal.SIGSTOP)
        process.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.process.send_signal(signal.SIGINT)
        check(process.process.wait(5) == 130, "it does not wait for the servers")
        cluster.servers[0].process.send_signal(signal.SIGCONT)


TESTS = [no_url_is_no_server, secrets_are_not_told, what_the_guide_lets_a_worker_do_is_enough, tls_of_an_own_authority_is_used_and_others_are_refused,
         a_certificate_of_another_name_is_refused, a_server_without_tls_is_refused_where_tls_is_wanted,
         credentials_of_a_file_are_used_and_others_are_refused, odd_files_and_clients_cost_nobody_else_anything,
         a_queue_that_would_lose_jobs_is_refused, two_dispatchers_of_one_run_both_report, ctrl_c_twice_ends_at_once]


def run(test):
    with tempfile.TemporaryDirectory(prefix="stint-access-") as folder:
        try:
            test(folder)
            print(f"ok   {test.__name__}", flush=True)
        except Missing as missing:
            print(f"skip {test.__name__}: there is no {missing}", flush=True)
        except AssertionError as error:
            print(f"FAIL {test.__name__}: {error}", flush=True)
            return False
    return True


def main():
    end_cleanly()
    try:
        good = [run(test) for test in TESTS if os.environ.get("ONLY", "") in test.__name__]
    finally:
        kill_all()
    sys.exit(not all(good))


main()
