"""What is examined: the server's own answers, and what this machine's kernel says."""

from __future__ import annotations

import errno
import os
import platform
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal


@dataclass(frozen=True)
class Setting:
    """A value that is in force, and its origin."""

    value: Any
    # "command line", "configuration file", "GUNICORN_CMD_ARGS", "environment", "WEB_CONCURRENCY", "default".
    origin: str

    @property
    def given(self) -> bool:
        """Somebody set it."""
        return self.origin != "default"


@dataclass(frozen=True)
class Kernel:
    """What the rules ask of it."""

    release: str
    # Name of the error that SO_REUSEPORT on a Unix socket gives; "" = it is taken.
    unix_reuse_port: str
    # Longest queue of connections; 0 = unknown.
    somaxconn: int
    # Queued connections of a listener that is closed go to another one of its port.
    migrates: bool
    # Filesystem type of a folder.
    filesystems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Times:
    """CPU and waiting of a typical request, if the user knows them."""

    cpu_ms: float
    network_ms: float

    @property
    def enough(self) -> int:
        """Requests in progress that fill one core: 1 + S/C."""
        return max(1, round(1 + self.network_ms / self.cpu_ms))


@dataclass(frozen=True)
class Subject:
    """One command's server."""

    server: str
    version: str
    python: str
    settings: Mapping[str, Setting]
    # "host:port", "unix:/path", "fd:3".
    addresses: tuple[str, ...]
    worker_class: str
    # "sync", "gthread", "gevent", "eventlet", "asgi", "uvicorn", "tornado", "granian", "unknown".
    kind: str
    # Why the worker class cannot be loaded; "" = it can.
    failure: str
    # What the installed source does.
    mechanics: Mapping[str, Any]
    versions: Mapping[str, str]
    kernel: Kernel
    times: Times | None = None

    def value(self, name: str) -> Any:
        """A setting's value; None where this version has no such setting."""
        setting = self.settings.get(name)
        return None if setting is None else setting.value

    def given(self, name: str) -> bool:
        """Somebody set it."""
        setting = self.settings.get(name)
        return setting is not None and setting.given

    def number(self, name: str) -> int:
        """A setting's value as a number; 0 where there is none."""
        value = self.value(name)
        return int(value) if isinstance(value, int | float) else 0

    @property
    def unix(self) -> bool:
        """It listens on a Unix socket."""
        return any(address.startswith("unix:") for address in self.addresses)

    @property
    def named(self) -> str:
        """For evidence: "gunicorn 20.1.0"."""
        return f"{self.server} {self.version}"

    @property
    def release(self) -> tuple[int, ...]:
        """Leading numbers of its version."""
        found = re.match(r"\d+(\.\d+)*", self.version)
        return tuple(map(int, found[0].split("."))) if found else (0,)


def this_kernel(folders: tuple[str, ...] = ()) -> Kernel:
    """Asks; a Unix socket is made for it and closed.

    Args:
        folders: whose filesystem is looked up.
    """
    return Kernel(
        platform.release(),
        _unix_reuse_port(),
        int(_read("/proc/sys/net/core/somaxconn") or 0),
        _read("/proc/sys/net/ipv4/tcp_migrate_req") == "1",
        {folder: _filesystem(folder) for folder in folders},
    )


def _unix_reuse_port() -> str:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError as error:
            # Linux has one number for EOPNOTSUPP and ENOTSUP; setsockopt(2) names the first.
            known = {errno.EOPNOTSUPP: "EOPNOTSUPP"}
            return known.get(error.errno or 0) or errno.errorcode.get(error.errno or 0, str(error.errno))
    return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _filesystem(folder: str) -> str:
    """Type of the mount that holds the folder: the longest mount point above it."""
    at = os.path.realpath(folder)
    best, kind = "", ""
    for line in _read("/proc/mounts").splitlines():
        point, found = line.split()[1:3]
        inside = at == point or at.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def finding(
    subject: Subject, setting: str, verdict: Verdict, because: str, remedy: str, evidence: str, value: object = None
) -> Finding:
    """A rule's finding, with the setting's value and origin.

    Args:
        value: shown in its place; None = as it was set.
    """
    known = subject.settings.get(setting)
    shown = value if known is None or value is not None else known.value
    return Finding(setting, shown, verdict, because, remedy, evidence, known.origin if known else "default")


# --- A verdict on one setting.

Verdict = Literal["does not start", "does nothing", "harms", "is not what it seems", "note"]

#: Verdicts for which `--strict` fails: what is set does not do what it was set for.
SERIOUS: Final[tuple[Verdict, ...]] = ("does not start", "does nothing", "harms")


@dataclass(frozen=True)
class Finding:
    """One setting of a command."""

    # As the server's own configuration calls it.
    setting: str
    value: object
    verdict: Verdict
    # Why, in one or two sentences.
    because: str
    # One action.
    remedy: str
    # What it rests on: the installed source, the kernel, a run.
    evidence: str
    # Its origin.
    origin: str = "default"
