"""A real `greenlane serve`, and requests that are held until a test lets them go."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from greenlane.errors import ServeError
from greenlane_serve.haproxy.runtime import Runtime
from tests import child

APPS = Path(__file__).parent / "apps"
COMMAND = "import sys; from greenlane.cli.main import main; sys.exit(main())"


class Served:
    """`with Served(folder, "held:app", toml) as served:`; it answers on `port`, and `also` on another address.

    The port is a flag's, or the file's if `{bind}` stands in the settings. `descriptors`: RLIMIT_NOFILE, if not 0;
    `before`: words before the command.
    """

    def __init__(
        self,
        folder: Path,
        application: str,
        settings: str,
        *flags: str,
        also: str = "",
        descriptors: int = 0,
        environ: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.application = application
        self.port = child.free_port()
        addresses = ",".join(filter(None, [f"127.0.0.1:{self.port}", also]))
        bind = () if "{bind}" in settings else ("--bind", addresses)
        self.configure(settings)
        limit = ["prlimit", f"--nofile={descriptors}:{descriptors}"] if descriptors else []
        self.process = child.Child(
            [*before, *limit, sys.executable, "-c", COMMAND, "serve", application, *bind, *flags],
            cwd=APPS,
            env={"HELD": str(folder), "GREENLANE_CONFIG": str(folder / "greenlane.toml"), **(environ or {})},
        )
        self._number = 0
        self._names: list[str] = []
        self._held: list[Held] = []

    def __enter__(self) -> Served:
        self.process.wait_output(r"serving .* on ", timeout_s=60)
        return self

    def __exit__(self, *problem: object) -> None:
        self.let_go()
        self.process.end(grace_s=10)

    def configure(self, settings: str) -> None:
        """Write the settings; they are read at the next reload."""
        text = settings.replace("{bind}", f'bind = ["127.0.0.1:{self.port}"]')
        (self.folder / "greenlane.toml").write_text(text)

    def get(self, path: str = "/", *, method: str = "GET", headers: dict[str, str] | None = None) -> str:
        """The answer's text on a connection of its own; an error when it is not 200."""
        with contextlib.closing(self.connection()) as connection:
            return ask(connection, path, method=method, headers=headers)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def hold(self, path: str) -> Held:
        """Send a request for `path`/hold that lasts until it is let go."""
        self._number += 1
        name = f"{path.strip('/')}-{self._number}"
        self._names.append(name)
        self._held.append(Held(self, path, name))
        return self._held[-1]

    def let_go(self) -> None:
        """Let everybody go."""
        for name in self._names:
            (self.folder / f"{name}.let_go").touch()

    def finish(self) -> None:
        """Let everybody go, and wait for their answers: one that is still queued needs another to end first."""
        self.let_go()
        while self._held:
            self._held.pop().let_go()

    def order(self) -> list[str]:
        """Names of the held requests in the order in which they began."""
        file = self.folder / "order"
        return file.read_text().split() if file.exists() else []

    @property
    def runtime(self) -> Runtime:
        return Runtime(self.run_folder() / "runtime")

    def waiting(self, backend: str, number: int) -> None:
        """Block until this many requests wait in a backend's queue."""
        runtime = self.runtime
        until(lambda: [row.queued for row in runtime.rows(backend, "BACKEND")] == [number])

    def serving(self, number: int) -> None:
        """Block until this many shared workers serve, and no other process of a worker is left."""
        until(lambda: len(self._open()) == number == len(self.workers()))

    def reload(self) -> Callable[[], None]:
        """Tell it to; what is given blocks until every worker is replaced."""
        before = self.process.output.count(" again; ")
        self.process.signal(signal.SIGHUP)
        return lambda: until(lambda: self.process.output.count(" again; ") > before)

    def _open(self) -> list[str]:
        with contextlib.suppress(ServeError, AssertionError):
            rows = self.runtime.rows("shared")
            return [row.server for row in rows if row.server != "BACKEND" and row.status == "no check"]
        return []

    def run_folder(self) -> Path:
        """Where its sockets are."""
        for pid in children(self.process.pid):
            found = re.search(r"-f\0([^\0]+)/haproxy\.cfg", Path(f"/proc/{pid}/cmdline").read_text())
            if found:
                return Path(found[1])
        raise AssertionError("no HAProxy runs")

    def workers(self) -> list[int]:
        """Process ids of the workers."""
        return [pid for pid in children(self.process.pid) if b"greenlane_serve.worker" in command(pid)]

    def front(self) -> int:
        """Process id of HAProxy."""
        return next(pid for pid in children(self.process.pid) if b"haproxy.cfg" in command(pid))


class Held:
    """One request that waits or runs until it is let go."""

    def __init__(self, served: Served, path: str, name: str) -> None:
        self.name = name
        self._file = served.folder / name
        self._answer = ""
        self._thread = threading.Thread(target=self._run, args=(served, path), daemon=True)
        self._thread.start()

    def begun(self) -> int:
        """Block until it runs; by which process."""
        begun = Path(f"{self._file}.begun")
        until(lambda: begun.exists() and begun.read_text() != "")
        return int(begun.read_text())

    @property
    def runs(self) -> bool:
        return Path(f"{self._file}.begun").exists()

    @property
    def waits(self) -> bool:
        """Whether it has no answer yet."""
        return self._thread.is_alive()

    def let_go(self) -> int:
        """Let it end; which process answered."""
        Path(f"{self._file}.let_go").touch()
        self._thread.join(30)
        assert self._answer, "no answer"
        return int(self._answer.split()[0])

    def _run(self, served: Served, path: str) -> None:
        self._answer = served.get(f"{path}/hold?{self.name}")


class Clients:
    """Closed-loop clients, some with kept connections; each failure is kept by its name."""

    def __init__(self, served: Served, kept: int, new: int) -> None:
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self._served = served
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(one < kept,)) for one in range(kept + new)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def some_more(self, number: int = 40) -> None:
        """Block until this many further requests are answered."""
        wanted = self.answers.total() + number
        until(lambda: self.answers.total() >= wanted or self.failures)

    def _run(self, keep: bool) -> None:
        connection = self._served.connection()
        while not self._over.is_set():
            try:
                self.answers[ask(connection, "/x").split()[0]] += 1
            except (AssertionError, OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
            if not keep:
                connection.close()
        connection.close()


def ask(
    connection: http.client.HTTPConnection, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> str:
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read().decode()
    assert answer.status == 200, f"{answer.status} {body}"
    return body


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def until(true: object, *, timeout_s: float = 30) -> None:
    """Block until `true()`; an error when it does not become so."""
    assert callable(true)
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def alive(pids: list[int]) -> Iterator[int]:
    for pid in pids:
        if command(pid):
            yield pid
