"""Runs one application under `greenlane record`, with a bounded mixed load.

    python -m tests.record.foreign.run NAME FILE

does it by hand; then `greenlane report FILE`.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.record.foreign.application import APPLICATIONS, Application, environment

from tests import child

_START_S = 40.0


@dataclass(frozen=True)
class Answered:
    """What the clients had."""

    #: Route -> answers with 200.
    by_route: Mapping[str, int]
    #: Any other outcome.
    wrong: list[str]
    #: What the application and `greenlane record` wrote.
    output: str


def recorded(application: Application, file: Path) -> Answered:
    """Starts it, asks, ends it by SIGTERM; `file` is there afterwards."""
    scripts = environment(application)
    port = child.free_port()
    greenlane = Path(sys.executable).with_name("greenlane")
    command = [part.format(bin=scripts, port=port, here=Path(__file__).parent) for part in application.command]
    with tempfile.TemporaryDirectory(prefix="greenlane-app-") as home:
        # An application must not find, or change, the settings of the user who runs the tests.
        env = {"HOME": home, "XDG_CONFIG_HOME": f"{home}/.config", "PYTHONWARNINGS": "ignore", **application.env}
        if path := os.environ.get("PYTHONPATH"):
            env["PYTHONPATH"] = os.pathsep.join(str(Path(part).resolve()) for part in path.split(os.pathsep))
        with child.Child([greenlane, "record", "-o", file.absolute(), "--", *command], env=env, cwd=home) as server:
            server.wait_port(port, timeout_s=_START_S)
            counts, wrong = _asked(application, port)
            server.signal(signal.SIGTERM)
            server.wait_exit(timeout_s=40)
            return Answered(counts, wrong, server.output)


def _asked(application: Application, port: int) -> tuple[dict[str, int], list[str]]:
    counts = dict.fromkeys(application.paths.values(), 0)
    wrong: list[str] = []
    mutex = threading.Lock()
    todo = [path for _ in range(application.requests) for path in application.paths]

    def ask(path: str) -> None:
        status = _status(port, path)
        with mutex:
            if status == 200:
                counts[application.paths[path]] += 1
            else:
                wrong.append(f"{path}: {status}")

    def client() -> None:
        while True:
            with mutex:
                if not todo:
                    return
                path = todo.pop()
            ask(path)

    end_s = time.monotonic() + _START_S
    while _status(port, application.first) != 200:  # it listens before it can answer
        assert time.monotonic() < end_s, f"{application.name} does not answer {application.first}"
        time.sleep(0.2)
    counts[application.paths[application.first]] += 1
    threads = [threading.Thread(target=client, daemon=True) for _ in range(application.together)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts, wrong


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    return 0


def main(argv: list[str]) -> int:
    """Run one by name."""
    application = next(one for one in APPLICATIONS if one.name == argv[0])
    Path(argv[1]).unlink(missing_ok=True)
    seen = recorded(application, Path(argv[1]))
    print(seen.output[-2_000:], seen.by_route, seen.wrong)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
