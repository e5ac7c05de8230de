# SPDX-License-Identifier: MIT
"""A browser by the WebDriver protocol: chromium through Debian's chromedriver, by Python's own modules alone."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowRight": "\ue014"}


class Missing(Exception):
    """There is no browser here."""


def find(*names):
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, width=1200, height=900):
        # The first has no window to be without, and starts in a fraction of the time.
        driver, chromium = find("chromedriver"), find("chromium-headless-shell", "chromium", "google-chrome")
        if not driver or not chromium:
            raise Missing("there is no chromium with chromedriver: scripts/setup --tests installs them")
        self.session = None
        self.home = tempfile.mkdtemp(prefix="page-browser-")
        # A group of its own, so that a browser which outlives its driver is found.
        self.driver = subprocess.Popen([driver, "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True, start_new_session=True,
                                       env={**os.environ, "HOME": self.home, "TMPDIR": self.home})
        try:
            self.address = self._address()
            arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio",
                         "--no-first-run", "--disable-background-networking", "--disable-component-update",
                         "--no-proxy-server", f"--window-size={width},{height}"]
            self.session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": chromium, "args": arguments}}}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _address(self):
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                return "http://127.0.0.1:" + line.rsplit("port", 1)[1].strip(" .\n")
        raise Missing("chromedriver does not start")

    def _call(self, method, path, body=None):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        # Not by the proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=100) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(value["error"] + ": " + value["message"].split("\n")[0]) from None

    def call(self, method, path, body=None):
        return self._call(method, f"/session/{self.session}{path}", body)

    def open(self, address):
        self.call("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        """Returns the value of the function body."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script, *arguments, seconds=40):
        """Waits until the function body returns something true, and returns it."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"never came: {script} {arguments or ''}")
            time.sleep(0.05)

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click")

    def press(self, *keys):
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self):
        """Returns the console's messages since the last call."""
        return self.call("POST", "/se/log", {"type": "browser"})

    def close(self):
        try:
            if self.session:
                self.call("DELETE", "")
        except (RuntimeError, OSError):
            pass
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.home, ignore_errors=True)
