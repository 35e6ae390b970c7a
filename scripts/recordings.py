"""Records what the pages say to type, as text: docs/recordings/*.txt, each line with the second at which it came.

    python scripts/recordings.py first       from `git clone` to picture, own diagnosis and fix, in a bare folder
    python scripts/recordings.py tutorial    docs/tutorial.md, from the installed wheels
    python scripts/recordings.py flask django fastapi celery     README's four; celery wants a redis-server

`first` prints the seconds of each step; `--dist FOLDER` leaves out building the wheels, which it then names.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.child import Child, free_port  # noqa: E402 # a script of the checkout: its tests are its neighbours

_OUT: Final = ROOT / "docs" / "recordings"
#: Lines of one command: more are the same again.
_MOST: Final = 45
_LOAD: Final = (
    "for i in 1 2 3 4; do (for n in 1 2 3 4 5 6 7 8; do curl -s http://127.0.0.1:8000/heavy; done) & done; "
    "for n in 1 2 3 4 5 6 7 8 9 10; do curl -s http://127.0.0.1:8000/quick; done; wait"
)
_ASKED: Final = {"flask": "/quick", "django": "/heavy", "fastapi": "/price/1000"}


class Terminal:
    """What was typed in a folder and what came, with times."""

    def __init__(self, folder: Path, path: str, port: int) -> None:
        self._folder, self._port = folder, str(port)
        #: Of what runs in it.
        self.environment = {"PATH": path, "HOME": str(folder), "TERM": "dumb", "COLUMNS": "100", "LANG": "C.UTF-8"}
        self._began = time.monotonic()
        self.lines: list[str] = []
        #: Seconds of each command.
        self.spent: list[tuple[str, float]] = []

    def type(self, command: str, folder: Path | None = None) -> None:
        """Run it to its end."""
        began = self._typed(command)
        done = subprocess.run(
            ["bash", "-ec", self._real(command)], cwd=folder or self._folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        self._came(done.stdout)
        self.spent.append((command, time.monotonic() - began))
        if done.returncode:
            raise SystemExit(f"recordings: {command!r} ended with {done.returncode}:\n{done.stdout}")

    def serve(self, command: str, meanwhile: list[str], folder: Path, *, waits: bool = True) -> None:
        """Run a server, other commands in a second terminal, and Ctrl-C."""
        self._typed(command)
        *before, last = self._real(command).splitlines()
        argv = ["bash", "-ec", "\n".join([*before, f"exec {last}"])]
        with Child(argv, env={**dict.fromkeys(os.environ, ""), **self.environment}, cwd=folder) as child:
            child.wait_port(int(self._port)) if waits else child.wait_output("ready")
            for each in meanwhile:
                self.type(each, folder)
            child.end(grace_s=30)
            self._came(child.output)

    def _real(self, command: str) -> str:
        return command.replace("8000", self._port)

    def _shown(self, text: str) -> str:
        """As on a reader's machine."""
        return text.replace(self._port, "8000").replace(str(self._folder), "~").replace(str(ROOT), "~/checkout")

    def _typed(self, command: str) -> float:
        now = time.monotonic()
        shown = self._shown(command).replace("\n", "\n          $ ")
        self.lines.append(f"{now - self._began:6.1f} s  $ {shown}")
        return now

    def _came(self, text: str) -> None:
        came = [line.rpartition("\r")[2].rstrip() for line in self._shown(text).strip("\n").splitlines()]
        runs = [(line, len(list(equal))) for line, equal in itertools.groupby(came)]
        lines = [f"{line}  ({count} times)" if count > 1 and line else line for line, count in runs]
        kept = lines if len(lines) <= _MOST else [*lines[: _MOST - 9], "…", *lines[-8:]]
        self.lines += [f"          {line}".rstrip() for line in kept]


def first(folder: Path, dist: Path | None) -> Terminal:
    """From nothing but Python and git."""
    typed = Terminal(folder, f"{folder}/v/bin:{os.environ['PATH']}", free_port())
    typed.type(f"git clone -q {ROOT} greenlane")
    checkout = folder / "greenlane"
    if dist is None:
        typed.type("make wheel > make.log", checkout)
    else:
        (checkout / "dist").symlink_to(dist)
    typed.type("python3 -m venv ../v", checkout)
    typed.type("pip install -q --find-links dist 'greenlane[demo,tools]==0.1.0'", checkout)
    typed.type("greenlane try --seconds 9", checkout)
    stock = "gunicorn -b 127.0.0.1:8000 -k gthread --threads 8 flask_app:app"
    typed.serve(f"greenlane record -o shop.glr -- {stock}", [_LOAD], checkout / "examples")
    typed.type("greenlane report --brief shop.glr", checkout / "examples")
    fixed = stock.replace("gthread", "greenlane.hosts.gunicorn.Worker")
    typed.serve(fixed, ["curl -s http://127.0.0.1:8000/quick"], checkout / "examples")
    return typed


def tutorial(folder: Path) -> Terminal:
    """Its blocks, the installation apart."""
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8").replace("/tmp/shop-control", f"{folder}/control")
    _, record, load, report, fixed, controlled, switch = re.findall(r"^```sh\n(.*?)\n```$", text, re.M | re.S)
    typed = Terminal(folder, f"{Path(sys.executable).parent}:{os.environ['PATH']}", free_port())
    examples = folder / "examples"
    subprocess.run(["cp", "-r", ROOT / "examples", examples], check=True)
    typed.serve(record, [load], examples)
    typed.type(report, examples)
    typed.serve(fixed, [load], examples)
    typed.serve(controlled, [switch], examples)
    return typed


def quickstart(name: str, folder: Path) -> Terminal:
    """README's command, and one question."""
    readme = (ROOT / "README.md").read_text("utf-8")
    command = next(each for each in re.findall(r"^cd examples && (.*)$", readme, re.M) if f"{name}_app" in each)
    typed = Terminal(folder, f"{Path(sys.executable).parent}:{os.environ['PATH']}", free_port())
    if name == "celery":
        send = "python -c \"import celery_app; print(celery_app.send.delay('7', merchant='m').get(timeout=30))\""
        with Child(["redis-server", "--port", str(port := free_port()), "--save", ""]) as redis:
            redis.wait_port(port)
            typed.environment |= {"BROKER_URL": f"redis://127.0.0.1:{port}/0", "PYTHONWARNINGS": "ignore"}
            typed.serve(command, [send], ROOT / "examples", waits=False)
            typed.lines = [line.replace(str(port), "6379") for line in typed.lines]
            return typed
    bind = " -b 127.0.0.1:8000" if command.startswith("gunicorn") else " --port 8000"
    typed.serve(command + bind, [f"curl -sSf http://127.0.0.1:8000{_ASKED[name]}"], ROOT / "examples")
    return typed


def main() -> None:
    """Write each that is named."""
    parser = argparse.ArgumentParser(prog="recordings", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="+", choices=["first", "tutorial", "flask", "django", "fastapi", "celery"])
    parser.add_argument("--dist", type=Path)
    options = parser.parse_args()
    _OUT.mkdir(exist_ok=True)
    for name in options.names:
        with tempfile.TemporaryDirectory(prefix="greenlane-recording-") as scratch:
            folder = Path(scratch)
            if name == "first":
                typed = first(folder, options.dist and options.dist.resolve())
            else:
                typed = tutorial(folder) if name == "tutorial" else quickstart(name, folder)
        (_OUT / f"{name}.txt").write_text("\n".join(typed.lines) + "\n", "utf-8")
        for command, seconds in typed.spent:
            print(f"{seconds:7.1f} s  {command[:100]}")


if __name__ == "__main__":
    main()
