"""What it costs to answer clients that may have left: `half_closed` of `greenlane serve` under overload.

    python -m bench.serve_leavers [--seconds S] [--load X] [--json]

Question: at 1.5 times the capacity, with clients that leave after 250 to 750 ms, how many get an answer?
Expected: where a client that has closed its sending side is taken as gone, most of the capacity, since the queue holds
only who waits; where it is answered all the same, next to nobody: each place works for somebody who left, in the order
of their coming. A lane's deadline bounds that in either case: who comes too late is refused before any work.

Four workers, one request at once each, 20 ms of sleep a request: 200 a second. Open loop, new connections. It does not
show what half-closed clients gain, which is one answer each.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.overload import WORKERS
from bench.served import Served, until

CAPACITY_PER_S: Final = WORKERS * 50
#: Some leave sooner, some later.
PATIENCE_S: Final = (0.25, 0.75)
DEADLINE_MS: Final = 500
_APPLICATION: Final = """
import pathlib, time
count = pathlib.Path(__file__).with_name("begun")
def app(environ, start_response):
    if environ["PATH_INFO"] == "/x":
        with count.open("a") as file:
            file.write("x")
        time.sleep(0.02)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\\n"]
"""
_DEADLINE: Final = f"[lanes.all]\nmatch = ['/x']\ndeadline_ms = {DEADLINE_MS}\n"
SETTINGS: Final = {
    "taken as gone": "",
    "answered": "half_closed = true\n",
    "taken as gone, deadline": _DEADLINE,
    "answered, deadline": f"half_closed = true\n{_DEADLINE}",
}


async def ask(port: int, patience_s: float) -> bool:
    """Whether a client that waits for so long and no longer is served."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                return (await reader.read()).startswith(b"HTTP/1.1 200")
            finally:
                writer.close()
    return False


async def offered(port: int, per_s: float, seconds: float) -> tuple[int, int]:
    """Clients that came, and those that were served."""
    chance, tasks = random.Random(1), list[asyncio.Task[bool]]()
    due_s = start_s = time.monotonic()
    while due_s < start_s + seconds:
        due_s += chance.expovariate(per_s)
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        tasks.append(asyncio.create_task(ask(port, chance.uniform(*PATIENCE_S))))
    return len(tasks), sum(await asyncio.gather(*tasks))


def row(contender: str, load: float, seconds: float) -> dict[str, object]:
    """One cell: of a second of capacity, what was begun and what was answered in time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "leavers.py").write_text(_APPLICATION)
        settings = f"workers = {WORKERS}\nat_once = 1\n{SETTINGS[contender]}"
        with Served(folder, "leavers:app", settings, environ={"PYTHONPATH": name}) as served:
            until(lambda: served.get("/") == "ok\n")
            came, answered = asyncio.run(offered(served.port, load * CAPACITY_PER_S, seconds))
            begun = len((folder / "begun").read_text())
    return {
        "contender": contender, "utilisation_frac": load, "offered": came, "begun": begun, "done": answered,
        "done_frac": round(answered / (seconds * CAPACITY_PER_S), 3), "wasted_frac": round(1 - answered / begun, 3),
    }  # fmt: skip


def main() -> None:
    """Measure each contender at each load and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--load", type=float, action="append", help="of the capacity (0.7 and 1.5)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for load in arguments.load or (0.7, 1.5):
        for contender in SETTINGS:
            one = row(contender, load, arguments.seconds)
            print(json.dumps(one) if arguments.json else "  ".join(f"{key} {value}" for key, value in one.items()))


if __name__ == "__main__":
    main()
