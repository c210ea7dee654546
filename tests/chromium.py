"""A headless Chromium for tests of pages, driven by the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT = 60.0  # seconds for an answer, on a busy machine


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of a browser, with everything that it prints and requests.

    Attributes:
      problems: errors, warnings and uncaught exceptions. requests: the addresses that the page asked for.
    """

    def __init__(self, folder: pathlib.Path):
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._last_id, self._session, self._bytes = 0, "", b""
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        # The browser reads commands from descriptor 3 and answers on 4. A small program moves the pipes there:
        # `preexec_fn` would fork this process with all its threads.
        move = "import os, sys; a, b = int(sys.argv[1]), int(sys.argv[2]); os.dup2(a, 13); "
        move += "os.dup2(b, 14); os.dup2(13, 3); os.dup2(14, 4); os.execv(sys.argv[3], sys.argv[3:])"
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", move, str(to_browser), str(from_browser),
                str(find_chromium()), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars",
                f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank",
            ],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """The result of a command."""
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._last_id:
            self._note(answer)
        assert "result" in answer, f"{method}: {answer.get('error')}"
        return answer["result"]

    def open(self, address: str) -> None:
        """Loads a page and waits until it has loaded."""
        self.call("Page.navigate", url="about:blank")
        self.problems, self.requests = [], []
        self.call("Page.navigate", url=address)
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.02)

    def evaluate(self, script: str) -> Any:
        """The value of a script's last expression; it may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        """The visible text of the first element."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def wait_for(self, script: str) -> None:
        """Waits until a script's value is true."""
        end = time.monotonic() + WAIT
        while not self.evaluate(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Presses a key: a character, or a name such as Enter or ArrowRight."""
        codes = {"Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, "Tab": 9, "Home": 36, "End": 35}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def type(self, text: str) -> None:
        """Types into the element with the focus, instead of its content."""
        self.evaluate("document.activeElement.select()")
        self.call("Input.insertText", text=text)

    def take_picture(self, path: pathlib.Path, width: int, height: int, dark: bool = False) -> None:
        """Saves a picture of the page at a size, for people who look at it."""
        self.set_width(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        time.sleep(0.5)
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def set_width(self, width: int, height: int = 900) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._in], [], [], WAIT)
            assert ready, "the browser does not answer"
            chunk = os.read(self._in, 1 << 16)
            assert chunk, "the browser has ended"
            self._bytes += chunk
        message, _, self._bytes = self._bytes.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Mapping[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(parameters["args"])[:500])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["entry"])[:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
