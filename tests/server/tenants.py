#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tenants.py STINT-SQLD: keys, and what each tenant may take: at once, in all, and of the queue; read again at SIGHUP while
queries run. And who may see the page."""
import os
import signal
import sys
import unittest

sys.dont_write_bytecode = True
import running  # noqa: E402
from running import ENDLESS, Server, ServerTest  # noqa: E402

TENANTS = """
; who may ask
[small]
key = small-key-12345
running = 1
waiting = 1

[frugal]
key = frugal-key-1234
memory = 2M
allocation = 40M

[large]
key = large-key-12345
weight = 200
"""
BIG = "SELECT length(hex(randomblob(3000000)))"


def bearer(key):
    return {"Authorization": "Bearer " + key}


SMALL, FRUGAL, LARGE = bearer("small-key-12345"), bearer("frugal-key-1234"), bearer("large-key-12345")


class Keys(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.path = running.write_file(TENANTS)
        cls.server = Server("--tenants", cls.path, "--timeout", "100s", "--workers", "3")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        os.unlink(cls.path)

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text)
        self.server.signal(signal.SIGHUP)

    def read_again(self, text, key):
        """Waits until the server knows this new key."""
        self.write(text + f"\n[mark]\nkey = {key}\n")
        self.server.wait_until(lambda: self.server.ask("SELECT 1", **bearer(key)).status == 200, "the new file")

    def tearDown(self):
        self.read_again(TENANTS, "mark-of-the-end-" + self.id()[-30:])
        self.server.wait_for_queries(0)

    def test_who_has_no_key_is_refused(self):
        for headers in ({}, bearer(""), bearer("wrong"), bearer("small-key-1234"), bearer("small-key-123456"),
                        bearer("x" * 1000), {"Authorization": "small-key-12345"}, {"Authorization": "Basic c21hbGw="}):
            answer = self.server.ask("SELECT 1", **headers)
            self.assertEqual(answer.status, 401, headers)
            self.assertEqual(answer.headers["www-authenticate"], "Bearer")
        self.assertEqual(self.server.ask("SELECT 1", **SMALL).status, 200)

    def test_who_waits_with_too_much_is_refused(self):
        """One runs, one waits; the third is refused, and another tenant is not."""
        with self.server.connect() as one, self.server.connect() as two:
            one.query(ENDLESS, **SMALL)
            self.server.wait_for_running(1)
            two.query(ENDLESS, **SMALL)
            self.server.wait_for_queries(2)
            answer = self.server.ask("SELECT 1", **SMALL)
            self.assertEqual((answer.status, answer.json()["reason"], answer.json()["outcome"]),
                             (429, "account", "refused"))
            self.assertIn("retry-after", answer.headers)
            self.assertEqual(self.server.ask("SELECT 1", **LARGE).status, 200)

    def test_who_holds_too_much_is_stopped(self):
        answer = self.server.ask(BIG, **FRUGAL)
        self.assertEqual((answer.status, answer.json()["reason"]), (429, "account"))
        self.assertEqual(self.server.ask(BIG, **LARGE).status, 200)

    def test_what_a_tenant_may_allocate_in_all_is_spent_some_day(self):
        last = 200
        for _ in range(50):
            last = self.server.ask("SELECT length(hex(randomblob(300000)))", **FRUGAL).status
            if last == 429:
                break
        self.assertEqual(last, 429)

    def test_limits_change_while_queries_run(self):
        with self.server.connect() as one, self.server.connect() as two:
            one.query(ENDLESS, **SMALL)
            self.server.wait_for_running(1)
            two.query("SELECT 2", **SMALL)
            self.server.wait_for_queries(2)
            self.read_again(TENANTS.replace("running = 1", "running = 2"), "mark-of-more-running")
            answer = two.answer()
            self.assertEqual((answer.status, answer.json()["rows"]), (200, [[2]]))

    def test_keys_change_and_tenants_go(self):
        self.read_again("[large]\nkey = another-key-1234\n", "mark-of-other-keys")
        self.assertEqual(self.server.ask("SELECT 1", **LARGE).status, 401)
        self.assertEqual(self.server.ask("SELECT 1", **SMALL).status, 401)
        self.assertEqual(self.server.ask("SELECT 1", **bearer("another-key-1234")).status, 200)

    def test_the_query_of_a_tenant_that_is_dropped_goes_on(self):
        with self.server.connect() as one:
            one.query(ENDLESS, Stint_Timeout="1s", **SMALL)
            self.server.wait_for_queries(1)
            self.read_again("", "mark-of-dropping")
            self.assertEqual(one.answer().status, 504)

    def test_a_bad_file_changes_nothing(self):
        self.write("[small]\nkey = short\n")
        self.write("what is this\n")
        self.assertEqual(self.server.ask("SELECT 1", **SMALL).status, 200)

    def test_metrics_know_the_accounts(self):
        self.server.ask("SELECT 1", **LARGE)
        self.assertIn('account="large"', self.server.get("/metrics").body.decode())


class Files(unittest.TestCase):
    BAD = (("key = 12345678\n", "before the first"), ("[a]\nmemory = 1M\n", "no key"), ("[a]\nkey = short\n", "characters"),
           ("[a]\nkey = 12345678\n[b]\nkey = 12345678\n", "the same key"), ("[a]\nkey = 12345678\nmemory = much\n", "not a size"),
           ("[a]\nkey = 12345678\nrunning = -1\n", "not a number"), ("[a]\nkey = 12345678\nweight = 10001\n", "not a number"),
           ("[a]\nkey = 12345678\ncolour = red\n", "none of"), ("nonsense\n", "not a line"), ("", "no [TENANT]"),
           ("[a]\nkey = 12345678\ncolour = " + "x" * 300 + "\n", "none of"), ("[a]\nkey = " + 300 * "x" + "\n", "key"),
           ("[a]\nkey = 12345678" + 300 * " " + "\n", "too long"))
    LONG_COMMENT = "[a]\nkey = 12345678\n; " + 400 * "x" + "\n#" + 198 * "x" + "memory = 1\n  ; " + 500 * "="

    def test_what_is_wrong_is_said_with_its_line(self):
        for text, words in self.BAD:
            path = running.write_file(text)
            with self.assertRaises(AssertionError) as caught:
                Server("--tenants", path)
            os.unlink(path)
            self.assertIn(words, str(caught.exception))
            self.assertIn(path, str(caught.exception))


    def test_a_long_comment_is_one(self):
        path = running.write_file(self.LONG_COMMENT)
        server = Server("--tenants", path)
        os.unlink(path)
        self.assertEqual(server.ask("SELECT 1", **bearer("12345678")).status, 200)
        self.assertEqual(server.stop(), (0, ""))


class PageKey(unittest.TestCase):
    def test_the_page_wants_its_key(self):
        path = running.write_file("key-of-the-page-1\n")
        server = Server("--page-key", path)
        os.unlink(path)
        for where in ("/", "/events", "/debug/stopped", "/debug/pprof/heap"):
            self.assertEqual(server.get(where).status, 401, where)
            self.assertEqual(server.get(where, **bearer("key-of-the-page-2")).status, 401, where)
        self.assertEqual(server.get("/cancel/1", "POST").status, 401)
        self.assertEqual(server.get("/cancel/1", "POST", **bearer("key-of-the-page-1")).status, 404)
        self.assertEqual(server.get("/extend/1", "POST").status, 401)
        self.assertEqual(server.get("/extend/1", "POST", **bearer("key-of-the-page-1")).status, 404)
        self.assertEqual(server.get("/?key=key-of-the-page-1").status, 200)
        self.assertEqual(server.get("/debug/stopped?key=key-of-the-page-1").status, 200)
        self.assertEqual(server.get("/metrics").status, 200)
        self.assertEqual(server.ask("SELECT 1").status, 200)
        self.assertEqual(server.stop()[0], 0)

    def test_another_site_may_not_use_the_page(self):
        """A browser says where a request comes from: one of another site's page is refused, and so is a name that somebody
        else has for this address."""
        server = Server()
        self.assertEqual(server.get("/cancel/1", "POST", Sec_Fetch_Site="cross-site").status, 403)
        self.assertEqual(server.get("/cancel/1", "POST", Sec_Fetch_Site="same-origin").status, 404)
        self.assertEqual(server.get("/extend/1", "POST", Sec_Fetch_Site="cross-site").status, 403)
        self.assertEqual(server.get("/cancel/1", "POST", Origin="http://elsewhere.example").status, 403)
        with server.connect() as connection:
            connection.send("GET /events HTTP/1.1\r\nHost: elsewhere.example:8080\r\n\r\n")
            self.assertEqual(connection.answer().status, 403)
        self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    running.main()
