"""The folders of a service, which go with it: its own, its workers' control sockets, what they measure.

All users of a folder hold a shared lock on it: parent and workers. A parent that is killed removes nothing, so
the last worker does as it ends; and where nobody was left to do so, the next service that starts. systemd-tmpfiles,
which cleans /tmp by age, leaves what is locked, too.

They are in systemd's RuntimeDirectory where there is one (RUNTIME_DIRECTORY), which a command sees also when the
service has a /tmp of its own; else where temporary files are.

A command finds a service that runs here by a link for each address. The links are in a folder that only this user may
open, so nobody else can lead a command astray. They are left behind by a service that was killed; then the folder that
they name is gone, or nobody answers in it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import grp
import os
import pwd
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.errors import ControlError, SettingsError
from greenlane_serve.settings import ServeSettings

# --- The user that the front and the workers become. The parent opens ports, keys and certificates before.


@dataclass(frozen=True)
class Account:
    """Another user than the parent's."""

    user: str
    uid: int
    group: str
    gid: int
    # All groups of the user.
    groups: tuple[int, ...]

    def give(self, path: Path) -> None:
        """Let the user own what the parent has made."""
        os.chown(path, self.uid, self.gid)


def account_of(user: str) -> Account | None:
    """Of the setting `user`; None = all stay who we are.

    Raises:
        SettingsError: there is no such user, or we may not become another one.
    """
    if not user:
        return None
    attempted, hint = "choose the user of the workers", "start as root, or leave user out"
    try:
        found = pwd.getpwnam(user)
        group = grp.getgrgid(found.pw_gid).gr_name
    except KeyError:
        raise SettingsError("user", user, "a user of this machine", hint, attempted=attempted) from None
    if found.pw_uid == os.geteuid():
        return None
    if os.geteuid():
        raise SettingsError("user", user, "our own user, since we are not root", hint, attempted=attempted)
    return Account(user, found.pw_uid, group, found.pw_gid, tuple(os.getgrouplist(user, found.pw_gid)))


_PREFIX: Final = "greenlane-"
# A file that tells ours from others' of such a name; there only once the folder is locked.
_OURS: Final = ".greenlane"
#: A file with the front's process id.
FRONT_PID: Final = "front.pid"
_RUNTIME_DIRECTORY: Final = "RUNTIME_DIRECTORY"


def place() -> Path:
    """Where they are made."""
    given = os.environ.get(_RUNTIME_DIRECTORY, "").partition(":")[0]
    if not given:
        return Path(tempfile.gettempdir())
    return Path(given)


def made(stack: contextlib.ExitStack, where: Path) -> Path:
    """Make a folder for our user alone, which is there until `stack` closes."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=where))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    stack.callback(os.close, _locked(folder))
    (folder / _OURS).touch()
    return folder


def is_ours(folder: Path) -> bool:
    """Whether one of our services has made it."""
    return (folder / _OURS).exists()


# Where this process lives, and the descriptors of its locks.
_homes: Final[list[tuple[Path, int]]] = []


def live_in(folder: Path) -> None:
    """Live there until this process ends; the last one of a service whose parent was killed removes it.

    Does nothing with a folder that is not ours.
    """
    if is_ours(folder):
        with contextlib.suppress(OSError):
            _homes.append((folder, _locked(folder)))
            atexit.register(_leave, *_homes[-1])


def leave() -> None:
    """What is done at the end, now: for a process that is about to be killed."""
    for folder, fd in _homes:
        _leave(folder, fd)


def remove_left(where: Path) -> None:
    """Remove what killed services have left there, in memory until the machine is started again."""
    for mark in where.glob(f"{_PREFIX}*/{_OURS}"):
        with contextlib.suppress(OSError):
            fd = os.open(mark.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _leave(mark.parent, fd)
            finally:
                os.close(fd)


def _locked(folder: Path) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def _leave(folder: Path, fd: int) -> None:
    with contextlib.suppress(OSError):  # it is in use
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


# A link in the folder of a service.
_CONTROL: Final = "control"
_CONTROL_DIR: Final = "GREENLANE_CONTROL_DIR"


def announce(folder: Path, addresses: Iterable[str]) -> None:
    """Let commands find the service of these addresses. Does nothing where no such folder can be made."""
    home = _home()
    with contextlib.suppress(OSError):
        home.mkdir(mode=0o700, exist_ok=True)
        if _is_ours(home):
            for link in home.iterdir():
                if link.is_symlink() and not link.exists():
                    link.unlink(missing_ok=True)  # of one that was killed
            for address in addresses:
                link = _link(home, address)
                fresh = link.with_name(f".{link.name}.{os.getpid()}")
                with contextlib.suppress(FileNotFoundError):
                    fresh.unlink()
                fresh.symlink_to(folder)
                fresh.replace(link)


def withdraw(folder: Path) -> None:
    """Take away every link to a service that ends."""
    with contextlib.suppress(OSError):
        for link in _home().iterdir():
            if link.is_symlink() and os.readlink(link) == str(folder):
                link.unlink()


def folder_of(address: str, attempted: str) -> Path:
    """The folder of the service that listens there.

    Args:
        address: as `bind` has it.
        attempted: for the message.

    Raises:
        ControlError: none of this user's does.
    """
    for home in (_home(), *_SYSTEM.glob(f"*/{_home().name}")):
        with contextlib.suppress(OSError):
            folder = Path(os.readlink(_link(home, address)))
            if _is_ours(home) and folder.is_dir():
                return folder
    raise ControlError(
        attempted, name="bind", value=address, rule="the address of a `greenlane serve` of this user that runs here",
        hint="name its address with --bind, as when it was started",
    )  # fmt: skip


def lead(folder: Path, socket: Path) -> None:
    """Let commands that know the folder find the control socket, wherever the settings put it."""
    fresh = folder / f"{_CONTROL}.new"
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    fresh.symlink_to(socket)
    fresh.replace(folder / _CONTROL)


def control_of(folder: Path) -> Path:
    """The control socket of the service whose folder it is; in its first second there is none."""
    return folder / _CONTROL


# Where systemd makes a RuntimeDirectory.
_SYSTEM: Final = Path("/run")


def _home() -> Path:
    theirs = "" if os.environ.get(_RUNTIME_DIRECTORY) else os.environ.get("XDG_RUNTIME_DIR")
    return Path(theirs or place()) / f"greenlane-{os.getuid()}"


def _is_ours(home: Path) -> bool:
    found = home.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _link(home: Path, address: str) -> Path:
    whole = os.path.abspath(address) if address.startswith(("/", ".")) else address
    return home / re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found[0]):x}_", whole)


@contextlib.contextmanager
def with_control(settings: ServeSettings, environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Let workers that are started from now on have control sockets: by their environment, put back at the end."""
    account = account_of(settings.user)
    with contextlib.ExitStack() as stack:
        wanted = settings.control_dir
        if not wanted:
            # Short, since a socket's path has 107 bytes; and no home of others: only its owner may look into it.
            folder = made(stack, place())
            if account is not None:
                account.give(folder)
            wanted = str(folder)
        elif not settings.origins.get("control_dir", "").startswith("flag"):
            yield
            return
        before = environ.get(_CONTROL_DIR)
        environ[_CONTROL_DIR] = wanted
        try:
            yield
        finally:
            if before is None:
                del environ[_CONTROL_DIR]
            else:
                environ[_CONTROL_DIR] = before
