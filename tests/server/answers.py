#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""answers.py STINT-SQLD: each outcome of a query has its status, its words and its numbers; rows come as JSON and CSV,
streamed where they are many; headers lower the budget and never raise it; nothing but reading is allowed."""
import csv
import io
import re
import sys

sys.dont_write_bytecode = True
import running  # noqa: E402
from running import ENDLESS, GROWING, ServerTest  # noqa: E402

MANY = "SELECT a.name, b.name FROM language a, subdivision b LIMIT 20000"


class Outcomes(ServerTest):
    OPTIONS = ("--memory", "16M", "--allocation", "8G", "--timeout", "60s")

    def verdict(self, statement, status, reason, **headers):
        answer = self.server.ask(statement, **headers)
        self.assertEqual((answer.status, answer.json()["reason"]), (status, reason), answer.body)
        self.assertTrue(answer.whole)
        return answer

    def test_rows_are_ok_and_say_what_they_took(self):
        answer = self.server.ask("SELECT 1 AS one")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json(), {"columns": ["one"], "rows": [[1]]})
        self.assertGreater(int(answer.headers["stint-memory-used"]), 0)
        self.assertGreater(int(answer.headers["stint-allocation-used"]), 0)
        self.assertRegex(answer.headers["stint-time-used"], r"^\d+us$")

    def test_no_rows_are_ok(self):
        self.assertEqual(self.server.ask("SELECT 1 AS a WHERE 0").json(), {"columns": ["a"], "rows": []})

    def test_a_bad_statement_is_told_in_sqlites_words(self):
        answer = self.verdict("SELEC 1", 400, "failed")
        self.assertIn('near "SELEC": syntax error', answer.json()["message"])

    def test_an_error_in_the_midst_of_rows_is_a_bad_statement(self):
        answer = self.verdict("SELECT abs(number - 9223372036854775807 - 1 - number) FROM country", 400, "failed")
        self.assertIn("integer overflow", answer.json()["message"])

    def test_there_has_to_be_one_statement(self):
        self.assertIn("no statement", self.verdict("", 400, "failed").json()["message"])
        self.assertIn("no statement", self.verdict("-- nothing", 400, "failed").json()["message"])
        self.assertIn("more than one", self.verdict("SELECT 1; SELECT 2", 400, "failed").json()["message"])
        self.assertEqual(self.server.ask("SELECT 1; -- that is all").status, 200)

    def test_what_asks_for_too_much_memory_is_stopped(self):
        for statement in ("SELECT length(randomblob(16000000) || 1)", GROWING, "SELECT hex(zeroblob(8000000))"):
            answer = self.verdict(statement, 422, "memory-limit")
            self.assertEqual(answer.json()["limit"], 16 << 20)
            self.assertEqual(answer.json()["unit"], "bytes")
            self.assertIn("used", answer.json())

    def test_one_value_is_not_larger_than_a_value_may_be(self):
        """A function makes its whole result before any stop."""
        for statement in ("SELECT length(randomblob(100000000))", "SELECT hex(zeroblob(9000000))"):
            self.assertIn("too big", self.verdict(statement, 400, "failed").json()["message"])

    def test_what_allocates_too_much_is_stopped(self):
        answer = self.verdict("SELECT sum(length(hex(zeroblob(100000 + a.rowid)))) FROM language a", 422,
                              "allocation-limit", Stint_Allocation="64M")
        self.assertEqual(answer.json()["limit"], 64 << 20)

    def test_an_answer_counts_as_allocated(self):
        answer = self.server.ask("SELECT * FROM language a, language b", Stint_Allocation="4M")
        self.assertEqual(answer.status, 200)
        self.assertFalse(answer.whole)
        self.assertIn(b'"reason":"allocation-limit"', answer.body)

    def test_what_takes_too_long_is_stopped(self):
        answer = self.verdict(ENDLESS, 504, "deadline", Stint_Timeout="100ms")
        self.assertEqual((answer.json()["limit"], answer.json()["unit"]), (100, "ms"))
        self.assertGreaterEqual(answer.json()["used"], 100)

    def test_a_function_that_takes_for_ever_is_stopped(self):
        """It runs without a step of SQLite's machine and without an allocation."""
        self.verdict("SELECT trim(hex(zeroblob(500000)), replace(hex(zeroblob(50000)), '0', '1') || '0')", 504, "deadline",
                     Stint_Timeout="200ms")

    def test_deep_nesting_is_an_error(self):
        self.verdict("SELECT " + "(" * 2000 + "1" + ")" * 2000, 400, "failed")

    def test_stopped_queries_are_remembered_with_their_post_mortem(self):
        self.verdict("SELECT hex(zeroblob(8000000)) AS remembered", 422, "memory-limit")
        stopped = self.server.get("/debug/stopped").json()
        found = [stop for stop in stopped if "remembered" in stop["statement"]][0]
        self.assertEqual((found["tenant"], found["status"], found["reason"]), ("default", 422, "memory-limit"))
        self.assertEqual(found["limit"], 16 << 20)
        self.assertIn("where", found["report"])
        self.assertIn("query_run", found["report"])

    def test_every_outcome_is_counted(self):
        before = self.server.metric('sqld_queries_total{outcome="memory"}')
        self.verdict("SELECT hex(zeroblob(8000000))", 422, "memory-limit")
        self.assertEqual(self.server.metric('sqld_queries_total{outcome="memory"}'), before + 1)
        self.assertEqual(self.server.ask("SELECT 1").status, 200)
        self.assertGreater(self.server.metric('stint_pool_tasks_total{pool="queries",reason="none"}'), 0)

    def test_a_cancelled_query_says_so(self):
        with self.server.connect() as asking:
            asking.query(ENDLESS)
            self.server.wait_for_queries(1)
            with self.server.connect() as pages:
                pages.request("GET", "/events")
                self.assertEqual(pages.head()[1]["content-type"], "text/event-stream")
                query = None
                while query is None:
                    self.assertTrue(pages.more())
                    query = re.search(rb'"id":"(\d+)"', pages.buffer)
                query = query[1].decode()
            self.assertEqual(self.server.get("/cancel/" + query, "POST").status, 204)
            answer = asking.answer()
        self.assertEqual((answer.status, answer.json()["outcome"], answer.json()["reason"]),
                         (499, "cancelled", "token"))
        self.assertEqual(self.server.get("/cancel/" + query, "POST").status, 404)
        self.assertEqual(self.server.get("/cancel/x", "POST").status, 404)

    def test_profiles_are_for_pprof(self):
        for kind in ("heap", "allocs"):
            answer = self.server.get("/debug/pprof/" + kind)
            self.assertEqual((answer.status, answer.body[:2]), (200, b"\x1f\x8b"))

    def test_paths_and_methods_are_known(self):
        self.assertEqual(self.server.get("/nothing").status, 404)
        self.assertEqual(self.server.get("/query").status, 405)
        self.assertEqual(self.server.get("/metrics", "POST").status, 405)
        page = self.server.get("/")
        self.assertEqual(page.status, 200)
        self.assertIn(b"<html", page.body)
        self.assertIn("default-src 'none'", page.headers["content-security-policy"])


class Budgets(ServerTest):
    OPTIONS = ("--memory", "16M", "--timeout", "30s")

    def test_a_request_may_ask_for_less(self):
        answer = self.server.ask("SELECT length(randomblob(3000000))", Stint_Memory="1M")
        self.assertEqual((answer.status, answer.json()["limit"]), (422, 1 << 20))
        answer = self.server.ask("SELECT length(randomblob(3000000))", Stint_Allocation="2M")
        self.assertEqual((answer.status, answer.json()["limit"], answer.json()["reason"]),
                         (422, 2 << 20, "allocation-limit"))

    def test_a_request_may_not_ask_for_more(self):
        for headers in ({"Stint_Memory": "17M"}, {"Stint_Memory": "0"}, {"Stint_Timeout": "31s"},
                        {"Stint_Allocation": "2G"}, {"Stint_Timeout": "0"}):
            answer = self.server.ask("SELECT 1", **headers)
            self.assertEqual(answer.status, 400, headers)
            self.assertIn(list(headers)[0].replace("_", "-"), answer.json()["error"])

    def test_what_is_no_size_is_refused(self):
        for value in ("much", "-1", "1x", ""):
            self.assertEqual(self.server.ask("SELECT 1", Stint_Memory=value).status, 400, value)


class Forms(ServerTest):
    def test_values_come_as_json(self):
        answer = self.server.ask("SELECT 9223372036854775807, 0.1, 1e300*1e10, -1e300*1e10, NULL, 'a\"\\' || char(10, 1), "
                                 "x'000102ff', x'', 3.0, ''")
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertEqual(answer.json()["rows"], [[9223372036854775807, 0.1, float("inf"), float("-inf"), None,
                                                  'a"\\\n\x01', {"base64": "AAEC/w=="}, {"base64": ""}, 3.0, ""]])

    def test_what_is_not_utf8_is_replaced(self):
        answer = self.server.ask("SELECT CAST(x'41ff42c0af43eda08044f09f988045' AS TEXT)")
        self.assertEqual(answer.json()["rows"][0][0], "A\ufffdB\ufffd\ufffdC\ufffd\ufffd\ufffdD\U0001f600E")

    def test_rows_come_as_csv(self):
        answer = self.server.ask("SELECT 'a,b' AS \"x\"\"y\", 'say \"hi\"' AS b, NULL AS c, '' AS d, 1.5 AS e, x'01' AS f, "
                                 "'two' || char(10) || 'lines' AS g, CAST(x'41ff' AS TEXT) AS h", Accept="text/csv")
        self.assertTrue(answer.headers["content-type"].startswith("text/csv"))
        self.assertTrue(answer.body.endswith(b"\r\n"))
        rows = list(csv.reader(io.StringIO(answer.body.decode(), newline="")))
        self.assertEqual(rows, [['x"y', "b", "c", "d", "e", "f", "g", "h"],
                                ["a,b", 'say "hi"', "", "", "1.5", "AQ==", "two\nlines", "A\ufffd"]])

    def test_accept_chooses(self):
        for accept, status, kind in (("*/*", 200, "application/json"), ("text/csv;q=0.5, application/json", 200,
                                                                         "application/json"),
                                     ("application/json;q=0.1,text/*", 200, "text/csv"),
                                     ("text/csv;q=0, */*", 200, "application/json"), ("image/png", 406, "application/json"),
                                     ("", 200, "application/json")):
            answer = self.server.ask("SELECT 1", Accept=accept)
            self.assertEqual((answer.status, answer.headers["content-type"].split(";")[0]), (status, kind), accept)

    def test_many_rows_are_streamed_whole(self):
        answer = self.server.ask(MANY)
        self.assertEqual(answer.headers["transfer-encoding"], "chunked")
        self.assertTrue(answer.whole)
        self.assertEqual(len(answer.json()["rows"]), 20000)
        self.assertGreater(int(answer.trailers["stint-allocation-used"]), len(answer.body) // 2)
        self.assertRegex(answer.trailers["stint-time-used"], r"^\d+us$")
        comma = self.server.ask(MANY, Accept="text/csv")
        self.assertEqual(len(list(csv.reader(io.StringIO(comma.body.decode(), newline="")))), 20001)

    def test_a_stream_that_is_stopped_is_no_whole_answer(self):
        """The first rows are sent with status 200; then comes the error, and the connection breaks off."""
        statement = "SELECT a.name, b.name FROM language a, subdivision b"
        answer = self.server.ask(statement, Stint_Allocation="1M")
        self.assertEqual((answer.status, answer.whole), (200, False))
        said = answer.json()
        self.assertEqual((said["error"]["outcome"], said["error"]["reason"]), ("error", "allocation-limit"))
        self.assertGreater(len(said["rows"]), 1000)
        self.assertFalse(self.server.ask(statement, Stint_Allocation="1M", Accept="text/csv").whole)

    def test_a_slow_stream_hands_its_rows_on(self):
        """A row comes while SQLite computes the next one for ever."""
        with self.server.connect() as connection:
            connection.query("SELECT * FROM (SELECT a.name, b.name FROM language a, subdivision b LIMIT 5000) "
                             "UNION ALL SELECT count(*), 1 FROM language a, language b, language c",
                             Stint_Timeout="300ms")
            self.assertEqual(connection.head()[0], 200)
            self.assertFalse(connection.chunks()[2])

    def test_an_old_client_gets_it_without_chunks(self):
        with self.server.connect() as connection:
            connection.send(f"POST /query HTTP/1.0\r\nContent-Length: {len(MANY)}\r\n\r\n{MANY}")
            status, headers = connection.head()
            self.assertEqual(status, 200)
            self.assertNotIn("transfer-encoding", headers)
            self.assertTrue(connection.is_closed())
            self.assertTrue(connection.buffer.endswith(b"]}\n"))


class Reading(ServerTest):
    REFUSED = ("CREATE TABLE x (y)", "CREATE TEMP TABLE x (y)", "INSERT INTO country VALUES (1,2,3,4,5,6)",
               "UPDATE country SET name = 1", "DELETE FROM country", "DROP TABLE country", "ATTACH '/tmp/x' AS x",
               "DETACH main", "BEGIN", "COMMIT", "SAVEPOINT s", "VACUUM", "VACUUM INTO '/tmp/x'", "REINDEX", "ANALYZE",
               "PRAGMA journal_mode = DELETE", "PRAGMA temp_store = FILE", "PRAGMA mmap_size = 100000000",
               "PRAGMA database_list", "PRAGMA hard_heap_limit = 1", "PRAGMA query_only = 0", "PRAGMA writable_schema = 1",
               "SELECT load_extension('/tmp/x.so')", "SELECT fts3_tokenizer('simple')",
               "CREATE VIRTUAL TABLE x USING fts5(y)", "SELECT * FROM pragma_database_list",
               "SELECT fts3_tokenizer('e', x'4141414141414141')", "SELECT sqlite_log(1, 'x')", "SELECT sqlite_source_id()",
               "SELECT rtreenode(2, x'00')", "SELECT * FROM dbstat", "SELECT * FROM sqlite_stmt",
               "PRAGMA temp_store_directory = '/tmp'", "PRAGMA soft_heap_limit = 1")
    UNKNOWN = ("UPDATE sqlite_master SET sql = 'x'", "UPDATE sqlite_schema SET sql = 'x'",
               "SELECT readfile('/etc/passwd')", "SELECT writefile('/tmp/x', 1)", "SELECT edit('x')",
               "SELECT * FROM fsdir('/')")
    ALLOWED = ("SELECT * FROM sqlite_schema", "PRAGMA table_info(country)", "SELECT * FROM pragma_table_info('country')",
               "EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1", "VALUES (1), (2)",
               "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT sum(i) FROM n",
               "SELECT json_group_array(name) FROM country",
               "SELECT value FROM json_each('[1,2]')", "SELECT row_number() OVER (ORDER BY name) FROM script")

    def test_nothing_but_reading_is_allowed(self):
        for statement in self.REFUSED:
            answer = self.server.ask(statement)
            self.assertEqual(answer.status, 403, (statement, answer.body))
            self.assertIn("message", answer.json())

    def test_what_is_not_there_is_a_bad_statement(self):
        for statement in self.UNKNOWN:
            self.assertIn(self.server.ask(statement).status, (400, 403), statement)

    def test_all_that_reads_is_allowed(self):
        for statement in self.ALLOWED:
            answer = self.server.ask(statement)
            self.assertEqual(answer.status, 200, (statement, answer.body))

    def test_the_database_is_as_it_was(self):
        self.assertEqual(self.server.ask("SELECT count(*) FROM country").json()["rows"], [[249]])


if __name__ == "__main__":
    running.main()
