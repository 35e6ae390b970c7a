"""What `greenlane serve` takes its requests for, beside what they are: CPU, I/O and the number set from them.

    python -m bench.serve_estimates [--seconds S] [--rounds N] [--mixes NAME ...] [--source FOLDER ...]

Question: do the worker's clocks tell CPU and I/O until ready, also while requests wait for the GIL or the loop?
Expected: within 10 % of what the application does, for requests that only compute, 5 ms of CPU and 55 of I/O, both
varied, a mix of light and heavy routes, calls that no probe knows, threads and tasks under ASGI.

One worker, 40 connections in a closed loop (h2load), so that it is busy; the figures are those of `--status` at the
end. `--source`: packages of another checkout that serves, for a comparison, interleaved with this one.
What it does not show: upstreams that slow down under load; C++ threads that wait for each other.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from greenlane_tools.lab import processes

_MAIN: Final = "import sys; from greenlane.cli.main import main; sys.exit(main())"
_START_S: Final = 30.0
_CONNECTIONS: Final = 40
_APPLICATION: Final = """
import asyncio, ctypes, random, time
LIBC = ctypes.CDLL(None)

def burn(ms):
    until = time.thread_time() + ms / 1e3
    while time.thread_time() < until:
        pass

def wsgi(environ, start_response):
    path, rest = environ["PATH_INFO"], lambda ms: time.sleep(ms / 1e3)
    if path == "/cpu": burn(20)
    elif path == "/even": burn(2.5); rest(55); burn(2.5)
    elif path == "/varied": burn(random.expovariate(1 / 5)); rest(random.expovariate(1 / 55))
    elif path == "/light": burn(1); rest(20)
    elif path == "/heavy": burn(30)
    elif path == "/unseen": burn(2.5); LIBC.usleep(55000); burn(2.5)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while (event := await receive())["type"] != "lifespan.shutdown":
            await send({"type": event["type"] + ".complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    path, rest = scope["path"], lambda ms: asyncio.sleep(ms / 1e3)
    if path == "/cpu": burn(20)
    elif path == "/even": burn(2.5); await rest(55); burn(2.5)
    elif path == "/varied": burn(random.expovariate(1 / 5)); await rest(random.expovariate(1 / 55))
    elif path == "/light": burn(1); await rest(20)
    elif path == "/heavy": burn(30)
    elif path == "/threads": await asyncio.to_thread(burn, 5); await rest(55)
    elif path == "/tasks": await asyncio.gather(rest(30), rest(55)); burn(5)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""
#: Name -> kind, paths in turns, CPU and I/O of a request in ms.
MIXES: Final = {
    f"{kind}-{name}": (kind, paths, cpu_ms, io_ms)
    for kind in ("wsgi", "asgi")
    for name, paths, cpu_ms, io_ms in (
        ("cpu", ("/cpu",), 20.0, 0.0),
        ("even", ("/even",), 5.0, 55.0),
        ("varied", ("/varied",), 5.0, 55.0),
        ("mixed", ("/light", "/light", "/light", "/light", "/heavy"), 6.8, 16.0),
    )
} | {
    "wsgi-unseen": ("wsgi", ("/unseen",), 5.0, 55.0),
    "asgi-threads": ("asgi", ("/threads",), 5.0, 55.0),
    "asgi-tasks": ("asgi", ("/tasks",), 5.0, 55.0),
}


def estimated(mix: str, source: str, seconds: int) -> dict[str, object]:
    """One run: what is set at its end, and why."""
    kind, paths, cpu_ms, io_ms = MIXES[mix]
    port = processes.free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mixes.py").write_text(_APPLICATION)
        (folder / "greenlane.toml").write_text("workers = 1\n")
        env = {**os.environ, "GREENLANE_CONFIG": str(folder / "greenlane.toml"), "PYTHONPATH": source}
        bind = ("--bind", f"127.0.0.1:{port}")
        log = folder / "log"
        with log.open("wb") as out:
            serve = [sys.executable, "-c", _MAIN, "serve"]
            child = processes.Child([*serve, f"mixes:{kind}", "--kind", kind, *bind], env, out, folder)
        try:
            until_s = time.monotonic() + _START_S
            while b"serving" not in log.read_bytes():
                if time.monotonic() > until_s:
                    raise SystemExit(log.read_text())
                time.sleep(0.1)
            urls = [f"http://127.0.0.1:{port}{path}" for path in paths]
            load = subprocess.Popen(
                ["h2load", "--h1", "-c", str(_CONNECTIONS), "-D", str(seconds), *urls], stdout=subprocess.DEVNULL
            )
            load.wait()
            told = subprocess.run([*serve, "--status", "--json", *bind], env=env, capture_output=True, check=True)
        finally:
            child.end()
    group = json.loads(told.stdout)["rows"][0]["groups"][0]
    found = re.search(r"([\d.e+]+) ms CPU and ([\d.e+]+) ms I/O", group["why"])
    cpu, io = (float(one) for one in found.groups()) if found else (0.0, 0.0)
    return {
        "mix": mix, "at_once": group["at_once"], "by": group["by"], "cpu_ms": cpu, "cpu_true_ms": cpu_ms,
        "io_ms": io, "io_true_ms": io_ms,
    }  # fmt: skip


def main() -> int:
    """Run what the arguments say; a row of JSON a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--mixes", nargs="*", default=list(MIXES), choices=MIXES)
    parser.add_argument("--source", nargs="*", default=[], help="packages/*/src of another checkout")
    arguments = parser.parse_args()
    sources = {"here": os.environ.get("PYTHONPATH", "")}
    if arguments.source:
        sources["there"] = os.pathsep.join(os.path.abspath(one) for one in arguments.source)
    for mix in arguments.mixes:
        for _ in range(arguments.rounds):
            for name, source in sources.items():
                print(json.dumps({"source": name, **estimated(mix, source, arguments.seconds)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
