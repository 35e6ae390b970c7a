"""Headless Chromium: what a page looks like, what its DOM holds, and what it complained about.

It is driven over a pair of pipes (the DevTools protocol, messages that end in a zero byte), so no port is open and no
driver needs to be installed. What a page asks for beyond its own files fails: there is no network but loopback.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from tests import child
from tests.servers.server import find

_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--password-store=basic",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    # Nothing outside this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

Message = dict[str, Any]


class Browser:
    """A browser with a profile of its own. `with Browser() as browser, browser.open(url) as page:`."""

    def __enter__(self) -> Self:
        """Start it."""
        # Its sandbox refuses root.
        options = [*_OPTIONS, *(() if os.geteuid() else ("--no-sandbox",))]
        program = find("chromium", "chromium-browser", "google-chrome", name="Chromium")
        with contextlib.ExitStack() as undone:
            folder = tempfile.TemporaryDirectory(prefix="greenlane-chromium-", ignore_cleanup_errors=True)
            profile = undone.enter_context(folder)
            its_read, self._write = os.pipe()
            self._read, its_write = os.pipe()
            for fd in (self._read, self._write):
                undone.callback(os.close, fd)
            try:
                command = [program, *options, f"--user-data-dir={profile}", "about:blank"]
                environment = {"HOME": profile, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
                started = child.Child(command, env=environment, cwd=profile, fds=(its_read, its_write))
                self._process = undone.enter_context(started)
            finally:
                os.close(its_read)
                os.close(its_write)
            self._rest = b""
            self._numbers = itertools.count(1)
            self._answers: dict[int, Message] = {}
            self._pages: dict[str, Page] = {}
            self.version = str(self.command("Browser.getVersion")["product"])
            self._block = undone.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._block.close()

    def open(
        self, where: str | Path, *, width: int = 1280, height: int = 900, dark: bool = False, timeout_s: float = 20
    ) -> Page:
        """Open a URL or a file in a new tab; comes back once it and what it refers to are loaded."""
        url = where.resolve().as_uri() if isinstance(where, Path) else where
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.command(f"{domain}.enable")
        page.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.command("Emulation.setEmulatedMedia", features=[scheme])
        gone = page.command("Page.navigate", url=url).get("errorText")
        assert not gone, f"{url}: {gone}"
        self._until(lambda: page.loaded, f"{url} to load", timeout_s)
        return page

    def command(self, method: str, *, session: str = "", timeout_s: float = 20, **parameters: object) -> Message:
        """Send one command of the DevTools protocol and give its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        _write_all(self._write, json.dumps(message).encode() + b"\0")
        self._until(lambda: number in self._answers, f"an answer to {method}", timeout_s)
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: Message = answer["result"]
        return result

    def _until(self, reached: Any, what: str, timeout_s: float) -> None:
        end_s = time.monotonic() + timeout_s
        while not reached():
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not select.select([self._read], [], [], left_s)[0]:
                raise AssertionError(f"waited {timeout_s:g} s for {what}; Chromium printed:\n{self._process.output}")
            got = os.read(self._read, 1 << 16)
            assert got, f"Chromium ended while a test waited for {what}:\n{self._process.output}"
            *messages, self._rest = (self._rest + got).split(b"\0")
            for raw in messages:
                self._take(json.loads(raw))

    def _take(self, message: Message) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
        elif page := self._pages.get(message.get("sessionId", "")):
            page.take(message["method"], message["params"])


class Page:
    """One tab."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        """Made by `Browser.open`."""
        self._browser = browser
        self._target = target
        self._session = session
        self.loaded = False
        #: What it complained about: uncaught exceptions, console errors and warnings, requests that failed.
        self.errors: list[str] = []
        #: Everything that it wrote to the console, `level: text`.
        self.console: list[str] = []
        #: URLs that it asked for, its own first.
        self.requests: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the tab."""
        self._browser.command("Target.closeTarget", targetId=self._target)

    def command(self, method: str, **parameters: Any) -> Message:
        """Send one command of the DevTools protocol for this tab."""
        return self._browser.command(method, session=self._session, **parameters)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, of a promise when it is settled; what it throws fails the test."""
        got = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, f"{expression}: {_exception(got['exceptionDetails'])}"
        return got["result"].get("value")

    def until(self, expression: str, seconds: float = 20.0) -> Any:
        """The expression's value as soon as it is true; fails the test when it is not in time."""
        end_s = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end_s, (expression, self.errors, self.text())
            time.sleep(0.02)
        return value

    def html(self) -> str:
        """The DOM as it is now, as HTML."""
        return str(self.evaluate("document.documentElement.outerHTML"))

    def text(self, selector: str = "body") -> str:
        """The visible text of the first element that `selector` finds; "" if there is none."""
        return str(self.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''"))

    def count(self, selector: str) -> int:
        """How many elements `selector` finds."""
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def click(self, selector: str) -> None:
        """Click the middle of the first element that `selector` finds, as a mouse does."""
        where = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.command(
                "Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1, buttons=1
            )

    def overflow_px(self) -> int:
        """By how many pixels the page is wider than the window: 0 unless something does not fit."""
        return int(self.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def picture(self, path: Path | None = None, *, whole: bool = True) -> bytes:
        """A PNG of the whole page, or of what the window shows; written to `path` if there is one."""
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole, timeout_s=60)
        raw = base64.b64decode(shot["data"])
        if path is not None:
            path.write_bytes(raw)
        return raw

    def take(self, method: str, told: Message) -> None:
        """An event of this tab."""
        match method:
            case "Page.loadEventFired":
                self.loaded = True
            case "Runtime.exceptionThrown":
                self.errors.append(_exception(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                line = f"{told['type']}: {' '.join(str(a.get('value', a.get('description'))) for a in told['args'])}"
                self.console.append(line)
                if told["type"] in ("error", "warning", "assert"):
                    self.errors.append(line)
            case "Log.entryAdded":
                entry = told["entry"]
                if entry["level"] in ("error", "warning"):
                    self.errors.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}".rstrip())
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])


def _exception(details: Message) -> str:
    return str(details.get("exception", {}).get("description") or details["text"])


def _write_all(fd: int, raw: bytes) -> None:
    while raw:
        raw = raw[os.write(fd, raw) :]
