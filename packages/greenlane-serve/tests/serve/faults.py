"""What clients of `greenlane serve` see while its parts die, hang, are replaced, or have too much to do.

    PYTHONPATH=.:packages/greenlane-serve python -m tests.serve.faults [--only ROW ...] [--json]

Question: how many safe requests (GET) fail in each row? Asked: 0. Expected: nobody notices a reload, a dead worker, a
boot that hangs or a full disk. Who waits for an answer when the front is killed loses the connection; a client does
what every HTTP library does with a safe request then, and sends it once more: column `again`.

Open loop, Poisson, one request in two on a kept connection; three workers with one request at once each, 20 ms of
sleep a request, half of the capacity except in the last two rows. `failed`: no answer within 10 s, another status than
200, or an answer to somebody else. It does not show requests that may have an effect: those are never sent twice
(tests/soak).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.serve.served import Served, children, until

WORKERS: Final = 3
WORK_MS: Final = 20
CAPACITY_PER_S: Final = WORKERS * 1000 / WORK_MS
LONGEST_S: Final = 10.0
_APPLICATION: Final = f"""
import pathlib, time
folder = pathlib.Path(__file__).parent
while (folder / "stuck").exists():
    time.sleep(0.01)
if (folder / "broken").exists():
    raise RuntimeError("broken")
def app(environ, start_response):
    time.sleep({WORK_MS / 1000})
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["QUERY_STRING"].encode()]
"""
SETTINGS: Final = f"workers = {WORKERS}\nat_once = 1\nstop_s = 5\n"
_FULL_MB: Final = 2


class Load:
    """Safe requests at a rate, from a thread of its own, while the block runs."""

    def __init__(self, port: int, of_capacity: float) -> None:
        self.seen: Counter[str] = Counter()
        self.took_ms: list[float] = []
        self.begun = 0
        self._port = port
        self._per_s = of_capacity * CAPACITY_PER_S
        self._over = threading.Event()
        self._kept: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._come()), daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        self.some(20)
        return self

    def __exit__(self, *problem: object) -> None:
        if not any(problem):
            self.some(20)
        self._over.set()
        self._thread.join(4 * LONGEST_S)

    def calm(self) -> None:
        """Block until hardly anybody waits."""
        until(lambda: self.begun - len(self.took_ms) <= WORKERS)

    def some(self, number: int) -> None:
        """Block until this many further requests have ended."""
        wanted = len(self.took_ms) + number
        until(lambda: len(self.took_ms) >= wanted)

    async def _come(self) -> None:
        chance, due_s, number, tasks = random.Random(1), time.monotonic(), 0, set[asyncio.Task[None]]()
        while not self._over.is_set():
            due_s += chance.expovariate(self._per_s)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            self.begun = number = number + 1
            task = asyncio.create_task(self._ask(f"n{number}", due_s, keep=number % 2 == 0))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        while self._kept:
            self._kept.pop()[1].close()

    async def _ask(self, name: str, due_s: float, *, keep: bool) -> None:
        said = "no answer"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_S):
                said = await self._tried(name, keep=keep)
                if said == "cut":
                    self.seen["again"] += 1
                    said = await self._tried(name, keep=False)
        self.seen[said] += 1
        self.took_ms.append((time.monotonic() - due_s) * 1000)

    async def _tried(self, name: str, *, keep: bool) -> str:
        """`ok`, `cut` if the connection ended before an answer, or what was wrong."""
        try:
            kept = self._kept.pop() if keep and self._kept else None
            reader, writer = kept or await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as error:
            return type(error).__name__
        whole = False
        try:
            end = "" if keep else "Connection: close\r\n"
            writer.write(f"GET /?{name} HTTP/1.1\r\nHost: a\r\n{end}\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            whole = keep and b"connection: close" not in head
            if not head.startswith(b"http/1.1 200"):
                return head[9:12].decode()
            return "ok" if body == name.encode() else "another's answer"
        except (OSError, asyncio.IncompleteReadError) as error:
            return "cut" if not getattr(error, "partial", b"") else "half an answer"
        finally:
            if whole:
                self._kept.append((reader, writer))
            else:
                writer.close()


@dataclass
class Row:
    """One thing that happens, and the settings under which it does."""

    name: str
    do: Callable[[Served, Load], None]
    settings: str = ""
    #: Of the capacity.
    load: float = 0.5
    # What stands before the command; DIR in it is the run directory.
    before: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)


def reloads(number: int) -> Callable[[Served, Load], None]:
    """This many reloads, each when the one before has ended."""

    def do(served: Served, load: Load) -> None:
        for _ in range(number):
            served.reload()()

    return do


def killed(victims: Callable[[Served], list[int]], times: int) -> Callable[[Served, Load], None]:
    """SIGKILL, and wait until all is there again."""

    def do(served: Served, load: Load) -> None:
        for _ in range(times):
            pids = victims(served)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            until(lambda pids=pids: not set(pids) & set(children(served.process.pid)))
            until(lambda: len(served.workers()) == WORKERS < len(children(served.process.pid)))
            load.some(20)
            load.calm()

    return do


def hung_boot(served: Served, load: Load) -> None:
    """Workers that never end to import, at a reload; then one that is well."""
    (served.folder / "stuck").touch()
    served.configure(f"{SETTINGS}boot_s = 2\n")
    served.process.signal(signal.SIGHUP)
    served.process.wait_output("has not said in", timeout_s=20)
    (served.folder / "stuck").unlink()
    served.configure(SETTINGS)
    before = set(served.workers())
    served.reload()()
    assert not before & set(served.workers())


def broken_boot(served: Served, load: Load) -> None:
    """A reload to an application that does not load; then one that is well."""
    (served.folder / "broken").touch()
    served.process.signal(signal.SIGHUP)
    served.process.wait_output("RuntimeError: broken", timeout_s=20)
    load.some(20)
    (served.folder / "broken").unlink()
    served.reload()()


def full_disk(served: Served, load: Load) -> None:
    """No byte left where the service keeps its state; all that it does meanwhile."""
    fill = Path(f"/proc/{served.process.pid}/root{served.folder}/run/fill")
    with contextlib.suppress(OSError), fill.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    served.reload()()
    for pid in (served.workers()[0], served.front()):
        os.kill(pid, signal.SIGKILL)
        load.some(40)
        load.calm()


def while_it_lasts(seconds: float) -> Callable[[Served, Load], None]:
    """Nothing happens for so long."""
    return lambda served, load: time.sleep(seconds)


_MOUNTED: Final = f'mount -t tmpfs -o size={_FULL_MB}m none "$0/run" && exec "$@"'
#: In the order of the table.
ROWS: Final = (
    Row("nothing", while_it_lasts(3)),
    Row("20 reloads", reloads(20)),
    Row("a worker killed, 5 times", killed(lambda served: served.workers()[:1], 5)),
    Row("all workers killed, twice", killed(lambda served: served.workers(), 2)),
    Row("the front killed, 5 times", killed(lambda served: [served.front()], 5)),
    Row("every child killed", killed(lambda served: children(served.process.pid), 1)),
    Row("a boot that hangs, at a reload", hung_boot),
    Row("a boot that fails, at a reload", broken_boot),
    Row("a full run directory", full_disk, before=("unshare", "-m", "sh", "-c", _MOUNTED, "DIR"),
        environ={"RUNTIME_DIRECTORY": "DIR/run", "TMPDIR": "DIR/run"}),
    Row("a full log", reloads(1), settings='access_log = "stdout"\n',
        before=("sh", "-c", 'exec "$@" > /dev/full', "-")),
    Row("1.2 times the capacity, 6 s", while_it_lasts(6), load=1.2),
    Row("2 times the capacity, 6 s", while_it_lasts(6), load=2.0),
)  # fmt: skip


def measured(row: Row) -> dict[str, object]:
    """Let it happen; the row's cells. Bounded: each wait is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run").mkdir()
        (folder / "faults.py").write_text(_APPLICATION)
        environ = {"PYTHONPATH": name, **{key: value.replace("DIR", name) for key, value in row.environ.items()}}
        before = [word.replace("DIR", name) for word in row.before]
        settings = SETTINGS + row.settings
        with Served(folder, "faults:app", settings, "--kind", "wsgi", environ=environ, before=before) as served:
            began_s = time.monotonic()
            with Load(served.port, row.load) as load:
                row.do(served, load)
            seconds = time.monotonic() - began_s
    again, done = load.seen.pop("again", 0), load.seen.pop("ok", 0)
    cuts = statistics.quantiles(load.took_ms, n=100)
    return {
        "row": row.name, "seconds": round(seconds, 1), "done": done, "failed": load.seen.total(), "again": again,
        "p50_ms": round(cuts[49]), "p99_ms": round(cuts[98]), "longest_ms": round(max(load.took_ms)),
        "failures": dict(load.seen),
    }  # fmt: skip


def chosen(names: list[str]) -> Iterator[Row]:
    """The rows whose name has one of these texts, all without any; what needs root is left out without it."""
    for row in ROWS:
        if not names or any(name in row.name for name in names):
            if row.before[:1] != ("unshare",) or os.geteuid() == 0:
                yield row
            else:
                print(f"left out: {row.name} (needs root, for a file system of its own)", file=sys.stderr)


def main() -> int:
    """Run the rows and print the table; 1 if a request failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="rows whose name has them")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    for row in chosen(arguments.only):
        cells = measured(row)
        failed += cells["failed"] != 0
        if arguments.json:
            print(json.dumps(cells), flush=True)
        else:
            print("  ".join(f"{key} {value}" for key, value in cells.items() if value != {}), flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
