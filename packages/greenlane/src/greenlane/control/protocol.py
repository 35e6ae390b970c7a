"""What both ends of a control socket agree on: its name, its directory, sizes, and a line of text."""

from __future__ import annotations

import _socket
import contextlib
import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from greenlane.errors import SettingsError

if TYPE_CHECKING:
    from greenlane.metrics import Learned

__all__ = ["MODES", "Controlled", "check_directory", "connecting", "prepared"]

MODES: Final = ("on", "observe", "off")

# Linux: sockaddr_un.sun_path holds 108 bytes, the last of them NUL.
PATH_MAX_BYTES: Final = 107
# The largest process id that Linux can be told to give.
PID_MAX: Final = 4_194_304
# A route's name and its frame; arbitrary beyond that.
REQUEST_MAX_BYTES: Final = 8192
# 512 routes of 32 phases are 3 MB; a longer answer is not ours.
ANSWER_MAX_BYTES: Final = 64 << 20

# Error numbers of connect() where somebody listens: EAGAIN = and is busy, EACCES = for another user.
LISTENS: Final = (0, errno.EAGAIN, errno.EACCES)
OPEN: Final = "open the control socket"
SOCKET_NAME: Final = re.compile(r"([1-9]\d*)\.sock")


class Controlled(Protocol):
    """What a control socket shows and switches; called on the control thread."""

    def mode(self) -> str:
        """The mode in force."""

    def set_mode(self, mode: str, route: str | None = None) -> None:
        """Switch the process, or one route of it."""

    def counters(self) -> Mapping[str, int]:
        """Counters by name."""

    def learned(self) -> Sequence[Learned]:
        """What is known of each (route, phase)."""


def check_directory(control_dir: str | Path) -> None:
    """Refuse a directory in which no process could make its socket; makes nothing.

    Raises:
        SettingsError: its name is too long, it is no directory, others may write to it, or we may not.
    """
    directory = Path(control_dir)
    _check_length(directory / f"{PID_MAX}.sock")
    try:
        mode = directory.stat().st_mode
    except FileNotFoundError:
        return _check_parents(directory)
    except (OSError, ValueError) as error:
        raise _unusable(directory, error) from None
    _check_mode(directory, mode)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise _unusable(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def prepared(path: Path) -> None:
    """Makes the directory of a socket, or refuses it."""
    _check_length(path)
    directory = path.parent
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        mode = directory.stat().st_mode
    except (OSError, ValueError) as error:
        raise _unusable(directory, error) from None
    _check_mode(directory, mode)


def _check_length(path: Path) -> None:
    length = len(os.fsencode(path))
    if length > PATH_MAX_BYTES:
        rule = f"a directory that leaves {path.name} at most {PATH_MAX_BYTES} bytes in all (it has {length})"
        hint = "use a shorter directory, such as /run/greenlane"
        raise SettingsError("control_dir", str(path.parent), rule, hint, attempted=OPEN)


def _check_mode(directory: Path, mode: int) -> None:
    if not stat.S_ISDIR(mode):
        hint = "name a directory; it is made where it is missing"
        raise SettingsError("control_dir", str(directory), "a directory", hint, attempted=OPEN)
    if mode & 0o022:
        # Others could put their own socket where somebody expects ours.
        rule = f"a directory that only its owner may write to (its mode is {stat.S_IMODE(mode):o})"
        hint = f"use {directory / 'greenlane'}: it is made with mode 700"
        raise SettingsError("control_dir", str(directory), rule, hint, attempted=OPEN)


def _check_parents(directory: Path) -> None:
    there = next(parent for parent in directory.absolute().parents if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise _unusable(directory, PermissionError(errno.EACCES, f"{there} is not writable"))


def _unusable(directory: Path, error: Exception) -> SettingsError:
    rule = f"a directory that can be made and written to ({reason(error)})"
    hint = "use a directory that the service's user owns"
    return SettingsError("control_dir", str(directory), rule, hint, attempted=OPEN)


def connecting(path: Path) -> int:
    """The error number of connecting; ECONNREFUSED at a socket = its process has ended."""
    # The operating system's, also where green threads have replaced `socket.socket`.
    with contextlib.closing(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)) as probe:
        probe.setblocking(False)
        return probe.connect_ex(os.fspath(path))


def reason(error: Exception) -> str:
    """The operating system's words for it, else its own; its type where it has none."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
