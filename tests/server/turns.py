#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""turns.py STINT-SQLD: queries that run for long take turns, and short ones need not wait for theirs."""
import sys
import threading

sys.dont_write_bytecode = True
import running  # noqa: E402
from running import ENDLESS, ServerTest  # noqa: E402

LONG = 12  # queries, on the two workers of the server: one of them computes
STREAM = "SELECT a.name, b.name FROM language a, subdivision b"


class Turns(ServerTest):
    OPTIONS = ("--timeout", "60s")

    def tearDown(self):
        self.server.wait_for_queries(0)
        self.assertEqual(self.awaited(), 0)

    def awaited(self):
        return self.server.metric("sqld_waiting_for_turn")

    def begin(self, statement, count, **options):
        connections = [self.server.connect(**options) for _ in range(count)]
        for connection in connections:
            connection.query(statement)
        return connections

    def wait_for_awaited(self, count):
        self.server.wait_until(lambda: self.awaited() == count, f"{count} queries that wait for their turn")

    def test_all_long_queries_but_one_wait_and_short_ones_are_answered(self):
        connections = self.begin(ENDLESS, LONG)
        self.wait_for_awaited(LONG - 1)
        for _ in range(20):
            self.assertEqual(self.server.ask("SELECT count(*) FROM country").json()["rows"], [[249]])
        self.assertEqual(self.server.metric("sqld_unresolved_queries"), LONG)
        for left in reversed(range(LONG)):
            connections[left].socket.close()
            self.server.wait_for_queries(left)
            self.wait_for_awaited(max(left - 1, 0))

    def test_each_of_them_gets_its_turn(self):
        count = "SELECT count(*) FROM language a, subdivision b"
        rows = self.server.ask(count).json()["rows"]
        endless = self.begin(ENDLESS, 4)
        self.wait_for_awaited(3)
        for connection in self.begin(count, 4):
            with connection:
                self.assertEqual(connection.answer().json()["rows"], rows)
        for connection in endless:
            connection.socket.close()

    def test_one_that_is_stopped_while_it_waits_says_its_own_reason(self):
        endless = self.begin(ENDLESS, 4)
        self.wait_for_awaited(3)
        answer = self.server.ask(ENDLESS, Stint_Timeout="300ms")
        self.assertEqual((answer.status, answer.json()["reason"]), (504, "deadline"))
        for connection in endless:
            connection.socket.close()

    def test_one_whose_reader_is_slow_keeps_no_turn(self):
        readers = self.begin(STREAM, 4, SO_RCVBUF=4096)
        self.wait_for_awaited(0)
        with self.server.connect() as connection:
            connection.query("SELECT count(*) FROM language a, subdivision b")
            self.assertEqual(connection.answer().status, 200)
        for reader in readers:
            reader.socket.close()


class Addresses(ServerTest):
    """Without tenants the workers' time is shared between addresses, however many connections each has."""
    OPTIONS = ("--timeout", "60s", "--queue", "64")
    WORK = "SELECT count(*) FROM country a, country b, country c WHERE a.name < b.name AND c.name < 'B'"

    def ask_from(self, address, connection_count, statement, seen, end):
        """Each connection asks again as soon as its answer has come."""
        def ask():
            while not end.is_set():
                with running.Connection(self.server.port, source=address) as connection:
                    while not end.is_set():
                        connection.query(statement)
                        answer = connection.answer()
                        if answer is None:
                            break
                        seen.append(answer.status)
        threads = [threading.Thread(target=ask) for _ in range(connection_count)]
        for thread in threads:
            thread.start()
        return threads

    def test_an_address_with_many_clients_leaves_another_its_share(self):
        many, end, one = [], threading.Event(), []
        threads = self.ask_from("127.0.0.2", 100, self.WORK, many, end)
        try:
            self.server.wait_until(lambda: 429 in many, "more than half of the queue is refused to one address")
            with running.Connection(self.server.port, source="127.0.0.3") as connection:
                before = many.count(200)
                for _ in range(10):
                    connection.query(self.WORK)
                    one.append(connection.answer().status)
                meanwhile = many.count(200) - before
        finally:
            end.set()
            for thread in threads:
                thread.join()
        self.assertEqual(set(one), {200})
        # One query at a time of two workers: at best every second one; behind the queue of the others one of 33.
        self.assertLess(meanwhile, 10 * 12)


class Generator(ServerTest):
    OPTIONS = ("--timeout", "60s")

    def test_a_blob_of_random_bytes_is_stopped_while_it_is_made(self):
        forever = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) " \
                  "SELECT sum(length(randomblob(16000000))) FROM c"
        answer = self.server.ask(forever, Stint_Timeout="20ms")
        self.assertEqual((answer.status, answer.json()["reason"]), (504, "deadline"))
        answer = self.server.ask("SELECT length(randomblob(5)), length(randomblob(-1)), randomblob(9) <> randomblob(9)")
        self.assertEqual(answer.json()["rows"], [[5, 1, 1]])
        self.assertEqual(self.server.ask("SELECT randomblob(17000000)").status, 400)


if __name__ == "__main__":
    running.main()
