#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""page.py STINT-SQLD: the server's page in a real browser. It shows what runs, its button ends it, the client gets its
answer; by keyboard too; it says when the server is gone, and finds it again. Exit status 77: there is no browser."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
from webdriver import Browser, Missing  # noqa: E402

KEY = "a-key-for-the-page-1234"
# In text it would be an element, if it were not set as text.
LONG = "SELECT count(*), '<b id=\"planted\">' FROM n AS a, n AS b, n AS c, n AS d WHERE a.x + b.x + c.x + d.x = -{}"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Server:
    def __init__(self, program, database, *options, port=0):
        command = [program, "--listen", f"127.0.0.1:{port}", "--workers", "4", "--timeout", "600s", *options, database]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self.process.stdout:
            said.append(line)
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        else:
            raise AssertionError("the server does not start: " + "".join(said))
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.port}/"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Client(threading.Thread):
    """A client that asks, and waits for the answer."""

    def __init__(self, server, statement):
        super().__init__(daemon=True)
        self.request = urllib.request.Request(server.address + "query", data=statement.encode())
        self.status = self.body = None
        self.start()

    def run(self):
        try:
            with OPENER.open(self.request, timeout=600) as answer:
                self.status, self.body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            self.status, self.body = error.code, error.read()
        except OSError:
            self.status = 0

    def answer(self):
        self.join(40)
        assert not self.is_alive(), "the client has no answer"
        return self.status, self.body


ROW = "[...document.querySelectorAll('#running > li')].find(row => row.textContent.includes(arguments[0]))"


def row_shown(browser, statement):
    browser.until(f"const row = {ROW}; return row && !row.querySelector('.stop').ariaDisabled", statement)


def check_cancelled(client):
    status, body = client.answer()
    assert status == 499, (status, body)
    assert json.loads(body)["outcome"] == "cancelled", body


def check_row(browser, statement):
    row_shown(browser, statement)
    meters = browser.run(f"return [...({ROW}).querySelectorAll('[role=meter]')].map(m => "
                         "[m.ariaLabel, +m.ariaValueNow, +m.ariaValueMax, m.ariaValueText])", statement)
    assert [meter[0] for meter in meters] == ["held", "allocated", "age"], meters
    assert all(0 <= meter[1] <= meter[2] and " of " in meter[3] for meter in meters), meters
    assert browser.run("return document.getElementById('planted')") is None


def check_updated_in_place(browser, statement):
    """The row keeps its identity, and its button the focus, while its figures change."""
    browser.run(f"const row = {ROW}; row.kept = true; "
                "window.ageThen = row.querySelector('[aria-label=age]').ariaValueNow", statement)
    browser.until(f"return ({ROW}).querySelector('[aria-label=age]').ariaValueNow - window.ageThen > 900", statement)
    assert browser.run(f"return ({ROW}).kept", statement)


def check_keyboard(browser, server):
    statement = LONG.format(2)
    client = Client(server, statement)
    check_row(browser, statement)
    stop = f"document.activeElement === ({ROW}).querySelector('.stop')"
    for _ in range(20):
        browser.press("Tab")
        if browser.run(f"return {stop}", statement):
            break
    assert browser.run("return document.activeElement.matches(':focus-visible') && "
                       "getComputedStyle(document.activeElement).outlineStyle") == "solid"
    check_updated_in_place(browser, statement)
    assert browser.run(f"return {stop}", statement), "the focus was lost"
    browser.press("Enter")
    check_cancelled(client)
    # What had the focus stays for a moment, and then hands it to the heading: never to another one's button.
    browser.until("return document.activeElement.id === 'h-running'")
    assert browser.run(f"return ({ROW}) === undefined", statement)


def check_extended(browser, server):
    statement = LONG.format(5)
    client = Client(server, statement)
    check_row(browser, statement)
    limit = f"+({ROW}).querySelector('[aria-label=age]').ariaValueMax"
    before = browser.run(f"return {limit}", statement)
    browser.run(f"({ROW}).querySelector('.more').click()", statement)
    browser.until(f"return {limit} === {before} + 10000", statement)
    browser.run(f"({ROW}).querySelector('.stop').click()", statement)
    check_cancelled(client)


def check_mouse(browser, server):
    first, second = LONG.format(3), LONG.format(4)
    clients = [Client(server, first), Client(server, second)]
    check_row(browser, first)
    check_row(browser, second)
    selector = browser.run(f"return '#running > li[data-id=\"' + ({ROW}).dataset.id + '\"] .stop'", second)
    browser.click(selector)
    check_cancelled(clients[1])
    assert clients[0].is_alive(), "the other one was cancelled too"
    browser.run(f"({ROW}).querySelector('.stop').click()", first)
    check_cancelled(clients[0])


def check_stopped(browser):
    """By keyboard: the newest is opened, and its post-mortem is there."""
    browser.until("return document.querySelectorAll('#stopped details').length === 4 || "
                  "!document.getElementById('newer').hidden")
    browser.run("document.querySelector('#stopped summary').focus()")
    browser.press("Enter")
    text = browser.until("const post = document.querySelector('#stopped details[open] .post'); "
                         "return post && post.textContent")
    assert "planted" in text and "Query" in text and len(browser.run(
        "return document.querySelector('#stopped .post pre[role=region]').textContent")) > 100, text
    assert browser.run("return document.getElementById('planted')") is None


def check_plot(browser):
    browser.until("return document.querySelector('#legend .cancelled .rate').textContent !== '–'")
    text = browser.until("return document.getElementById('plot').ariaValueText")
    assert text.startswith("now: ") and " ok" in text, text
    browser.run("document.getElementById('plot').focus()")
    browser.press("ArrowLeft", "ArrowLeft")
    text = browser.until("return document.getElementById('plot').ariaValueText")
    assert " s ago: " in text, text
    browser.press("Escape")
    assert browser.run("const c = document.getElementById('plot'); return c.getContext('2d')"
                       ".getImageData(0, 0, c.width, c.height).data.some(byte => byte !== 0)"), "nothing is drawn"


def check_looks(browser):
    grounds = set()
    for scheme in ("dark", "light"):
        browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        grounds.add(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2, grounds
    browser.devtools("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=2, mobile=True)
    wide = browser.run("return document.documentElement.scrollWidth")
    assert wide <= 360, f"{wide} pixels wide on a phone of 360"
    browser.devtools("Emulation.clearDeviceMetricsOverride")


def check_console(browser):
    said = browser.log()
    assert not said, said


def status_of(address, method="GET"):
    try:
        with OPENER.open(urllib.request.Request(address, method=method), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def check_gone_and_back(browser, program, database, server, *options):
    server.kill()
    browser.until("return document.getElementById('link').dataset.is === 'lost'")
    again = Server(program, database, *options, port=server.port)
    browser.until("return document.getElementById('link').dataset.is === 'live'")
    return again


def main():
    program = sys.argv[1]
    servers, browser = [], None
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        database, key = os.path.join(folder, "n.db"), os.path.join(folder, "key")
        with sqlite3.connect(database) as made:
            made.execute("CREATE TABLE n(x INTEGER)")
            made.executemany("INSERT INTO n VALUES(?)", [(i,) for i in range(1000)])
        made.close()
        with open(key, "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        try:
            browser = Browser()
            options = ["--page-key", key]
            servers.append(Server(program, database, *options))
            assert status_of(servers[0].address) in (401, 403)
            first = Client(servers[0], LONG.format(1))
            browser.open(servers[0].address + "?key=" + KEY)
            browser.until("return document.getElementById('link').dataset.is === 'live'")
            check_row(browser, LONG.format(1))
            check_keyboard(browser, servers[0])
            check_mouse(browser, servers[0])
            check_extended(browser, servers[0])
            check_plot(browser)
            check_stopped(browser)
            check_looks(browser)
            assert first.is_alive()
            check_console(browser)
            servers.append(check_gone_and_back(browser, program, database, servers[0], *options))
        except Missing as missing:
            print(f"not tested: {missing}")
            sys.exit(77)
        finally:
            if browser:
                browser.close()
            for server in servers:
                server.kill()


main()
