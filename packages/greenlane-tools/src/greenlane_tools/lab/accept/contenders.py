"""What is compared: a server of one version, its kind of worker, the family of its socket, its options.

    gunicorn-20.0.4, gunicorn-20.1.0, gunicorn-23.0.0, gunicorn     gevent worker, the article's
    gunicorn-sync, gunicorn-gthread, gunicorn-asgi                  current gunicorn, its other workers
    uvicorn, uvicorn-uvloop, granian                                current, ASGI (granian: WSGI)

Why these gunicorns: 20.0.4 is the last that took 100 connections at once, 20.1.0 the first that takes one, 23.0.0 the
last whose `--reuse-port` made one socket, and the current one makes a socket a worker (since 24.0.0).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from greenlane_tools.lab.processes import die_with_parent

# --- Servers in virtual environments of their own: made once under `out/lab/environments`, used again, never shared.


#: The version of a recipe that takes what the package index offers.
CURRENT: Final = "current"
#: Written last: an environment without it was not finished.
_MARK: Final = "ready.json"
_VENV_S: Final = 120.0
_INSTALL_S: Final = 300.0
_OFFLINE: Final = ("NewConnectionError", "name resolution", "Network is unreachable", "ConnectTimeout", "Max retries")
# Asked of a finished environment; what counts is what it can import, not what pip said.
_VERSIONS: Final = """
import importlib.metadata as metadata, json, sys
print(json.dumps({name: metadata.version(name) for name in sys.argv[1:]}))
"""


@dataclass(frozen=True)
class Recipe:
    """What an environment holds."""

    # The server's distribution: "gunicorn".
    name: str
    # "20.0.4", or CURRENT.
    version: str
    # pip's requirements beside the server itself.
    others: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The environment's folder: `<name>-<version>-py<X.Y>`."""
        return f"{self.name}-{self.version}-py{sys.version_info.major}.{sys.version_info.minor}"

    def requirements(self) -> list[str]:
        """pip's arguments."""
        server = self.name if self.version == CURRENT else f"{self.name}=={self.version}"
        return [server, *self.others]


@dataclass(frozen=True)
class Environment:
    """One that can be used."""

    python: Path
    # Installed versions by distribution.
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Skipped:
    """Why there is none."""

    reason: str


def existing(recipe: Recipe, root: Path) -> Environment | None:
    """The environment, if it was made before and its interpreter is still there."""
    # Servers run in folders of their own. Not resolved: a virtual environment is known by where its python stands.
    folder = (root / recipe.folder).absolute()
    python = folder / "bin" / "python"
    try:
        versions = json.loads((folder / _MARK).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return Environment(python, versions) if python.exists() else None


def ready(recipe: Recipe, root: Path, say: Callable[[str], None]) -> Environment | Skipped:
    """The environment, made if it is not there: some seconds and the package index.

    Args:
        root: folder of all environments; made if absent.
        say: told when one is made.
    """
    if found := existing(recipe, root):
        return found
    folder = root / recipe.folder
    say(f"making {folder}")
    try:
        return _made(recipe, folder.absolute())
    except (OSError, subprocess.SubprocessError) as error:
        return Skipped(_first_line(str(error)))


def _made(recipe: Recipe, folder: Path) -> Environment | Skipped:
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    made = _run([sys.executable, "-m", "venv", "--clear", str(folder)], _VENV_S)
    if made.returncode:
        return Skipped(f"python -m venv: {_last_line(made.stderr or made.stdout)}")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    installed = _run([*pip, "--retries", "1", "--timeout", "15", *recipe.requirements()], _INSTALL_S)
    if installed.returncode:
        return Skipped(reason(installed.stderr))
    names = [requirement.partition("=")[0].partition("<")[0] for requirement in recipe.requirements()]
    asked = _run([str(python), "-c", _VERSIONS, *names], _VENV_S)
    if asked.returncode:
        return Skipped(_last_line(asked.stderr))
    versions = json.loads(asked.stdout)
    (folder / _MARK).write_text(json.dumps(versions), encoding="utf-8")
    return Environment(python, versions)


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds,
        check=False, process_group=0, preexec_fn=die_with_parent,
    )  # fmt: skip


def reason(stderr: str) -> str:
    """Why pip could not install, from what it said."""
    if any(sign in stderr for sign in _OFFLINE):
        return "offline: pip cannot reach the package index"
    return f"pip: {_last_line(stderr)}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if not line.startswith(("hint:", "note:", "[notice]"))]
    return lines[-1].strip()[:200] if lines else "no reason given"


Family = Literal["tcp", "unix"]
# pkg_resources, of which gunicorn before 21 loads its worker classes by, left setuptools with 81.
_OLD_GUNICORN: Final = ("gevent", "setuptools<81")
# gunicorn 27's gevent worker imports packaging and does not ask pip for it.
_GUNICORN: Final = ("gevent", "packaging")


@dataclass(frozen=True)
class Server:
    """A server to start, N workers."""

    name: str
    recipe: Recipe
    # What it is started with, after `python -m`; {app} and {workers} are filled in.
    command: tuple[str, ...]
    # By family: {address}.
    bind: Mapping[Family, tuple[str, ...]]
    worker_class: str
    # "answering:wsgi" or "answering:asgi".
    app: str = "answering:wsgi"
    # Read from the environment of the server.
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Contender:
    """One cell."""

    server: Server
    family: Family
    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For tables: "gunicorn-20.0.4 unix --reuse-port"."""
        return " ".join([self.server.name, self.family, *self.said()])

    def said(self) -> list[str]:
        """Its options, and what it sets in the environment."""
        return [
            *self.options,
            *(f"{name.removeprefix('ANSWERING_').lower()}={value}" for name, value in self.env.items()),
        ]

    def command(self, python: str, address: str, workers: int) -> list[str]:
        """The argument vector."""
        values = {
            "app": self.server.app,
            "workers": str(workers),
            "address": address,
            "port": address.rpartition(":")[2],
        }
        parts = (*self.server.command, *self.server.bind[self.family], *self.options)
        return [python, "-m", *(part.format(**values) for part in parts), self.server.app]


def _gunicorn(
    name: str, version: str, worker_class: str, others: Sequence[str], *more: str, app: str = "wsgi"
) -> Server:
    # Old gunicorns know no --no-control-socket; a current one would leave its socket in the caller's folder.
    quiet = ("--no-control-socket",) if version == CURRENT else ()
    # Before 20.1 `python -m gunicorn` does not exist.
    command = ("gunicorn.app.wsgiapp", "-k", worker_class, "-w", "{workers}", "--graceful-timeout", "1", *quiet, *more)
    bind: dict[Family, tuple[str, ...]] = {"tcp": ("-b", "{address}"), "unix": ("-b", "unix:{address}")}
    recipe = Recipe("gunicorn", version, tuple(others))
    return Server(name, recipe, command, bind, worker_class, app=f"answering:{app}")


_UVICORN: Final = ("uvicorn", "--workers", "{workers}", "--log-level", "warning")
_UVICORN_BIND: Final[Mapping[Family, tuple[str, ...]]] = {
    "tcp": ("--host", "127.0.0.1", "--port", "{port}"),
    "unix": ("--uds", "{address}"),
}
_GRANIAN: Final = ("granian", "--interface", "wsgi", "--workers", "{workers}", "--blocking-threads", "8")
_GRANIAN_BIND: Final = _UVICORN_BIND

SERVERS: Final[Mapping[str, Server]] = {
    one.name: one
    for one in (
        _gunicorn("gunicorn-20.0.4", "20.0.4", "gevent", _OLD_GUNICORN),
        _gunicorn("gunicorn-20.1.0", "20.1.0", "gevent", _OLD_GUNICORN),
        _gunicorn("gunicorn-23.0.0", "23.0.0", "gevent", ("gevent",)),
        _gunicorn("gunicorn", CURRENT, "gevent", _GUNICORN),
        _gunicorn("gunicorn-sync", CURRENT, "sync", _GUNICORN),
        _gunicorn("gunicorn-gthread", CURRENT, "gthread", _GUNICORN, "--threads", "8"),
        _gunicorn("gunicorn-asgi", CURRENT, "asgi", _GUNICORN, "--asgi-loop", "asyncio", app="asgi"),
        Server(
            "uvicorn", Recipe("uvicorn", CURRENT, ("uvloop",)), (*_UVICORN, "--loop", "asyncio"), _UVICORN_BIND,
            "asyncio", app="answering:asgi",
        ),
        Server(
            "uvicorn-uvloop", Recipe("uvicorn", CURRENT, ("uvloop",)), (*_UVICORN, "--loop", "uvloop"), _UVICORN_BIND,
            "uvloop", app="answering:asgi",
        ),
        Server("granian", Recipe("granian", CURRENT), _GRANIAN, _GRANIAN_BIND, "wsgi, 8 threads"),
    )
}  # fmt: skip


def contenders(names: Iterable[str], families: Iterable[Family]) -> list[Contender]:
    """The cells in which shares and bursts are measured.

    Beside each as it is: with `--reuse-port` where that exists, and on the gevent workers before and after the change
    of `max_accept` with the other one's value, which shows whether that number alone is the cause.
    """
    found = []
    for server in (SERVERS[name] for name in names):
        for family in families:
            found.append(Contender(server, family))
            if server.recipe.name == "gunicorn":
                found.append(Contender(server, family, ("--reuse-port",)))
            if (other := _OTHER_MAX_ACCEPT.get(server.name)) and family == "unix":
                found.append(Contender(server, family, (), {"ANSWERING_MAX_ACCEPT": other}))
    return found


_OTHER_MAX_ACCEPT: Final[Mapping[str, str]] = {"gunicorn-20.0.4": "1", "gunicorn": "100"}


# The options for at most this many, and for how long an idle connection is kept; by the server's distribution.
_LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "gunicorn": ("--worker-connections", "{limit}", "--keep-alive", "{keepalive_s}"),
    "uvicorn": ("--limit-concurrency", "{limit}", "--timeout-keep-alive", "{keepalive_s}"),
    # granian keeps idle connections for ever, or none.
    "granian": ("--backpressure", "{limit}"),
}


def limited(name: str, limit: int, keepalive_s: int) -> Contender:
    """A server with a limit of connections, requests or permits a worker, whatever it calls them."""
    server = SERVERS[name]
    options = [part.format(limit=limit, keepalive_s=keepalive_s) for part in _LIMITS[server.recipe.name]]
    if server.recipe.name == "granian" and not keepalive_s:
        options.append("--no-http1-keep-alive")
    return Contender(server, "tcp", tuple(options))
