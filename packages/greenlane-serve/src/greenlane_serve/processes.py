"""What the parent has of the operating system: children, signals, listening sockets, systemd.

Each child gets SIGTERM from the kernel when its parent dies (PR_SET_PDEATHSIG: when the *thread* that forked dies, so
start children from the main thread), and has a process group of its own, so that Ctrl-C reaches the parent alone.

A tree reaps with `waitpid(-1)`, since as PID 1 it also gets orphans of others; so nothing here waits for one pid.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

from greenlane.errors import ServeError, SettingsError
from greenlane_serve.folders import Account

_PR_SET_PDEATHSIG: Final = 1
# Pause between two looks for children that were killed: they end within a millisecond or two.
_LOOK_S: Final = 0.005
_libc = ctypes.CDLL(None, use_errno=True)


class ChildProcess:
    """A process that runs. `Children.reap` says when it has ended."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        fds: Sequence[int] = (),
        apart: bool = False,
        err: int | None = None,
        account: Account | None = None,
    ) -> None:
        """Start `command` with our environment, stdout, stderr and the descriptors `fds` under the same numbers.

        Args:
            command: program and arguments.
            fds: descriptors.
            apart: pipes that are our stdout and stderr are opened again, see `log_pipe`.
            err: its stderr; None = ours.
            account: the user it runs as; None = ours.

        Raises:
            OSError: it cannot be started.
        """
        with contextlib.ExitStack() as stack:
            out, theirs = (stack.enter_context(reopened_pipe(fd)) if apart else None for fd in (1, 2))
            err = theirs if err is None else err
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=fds,
                preexec_fn=die_with_parent, process_group=0,
                **as_user(account),
            )  # fmt: skip
        self.pid = self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ended(self, code: int) -> None:
        """Tell it that it was reaped: its pid is another's from now on."""
        self._process.returncode = code


def as_user(account: Account | None) -> dict[str, Any]:
    """Arguments of `subprocess.Popen`."""
    return {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": account.groups}


class Children:
    """All children of the tree, workers and fronts alike."""

    def __init__(self) -> None:
        self._running: dict[int, ChildProcess] = {}

    def start(
        self,
        command: Sequence[str],
        *,
        fds: Sequence[int] = (),
        apart: bool = False,
        err: int | None = None,
        account: Account | None = None,
    ) -> ChildProcess:
        """Start one; see `ChildProcess`."""
        child = ChildProcess(command, fds=fds, apart=apart, err=err, account=account)
        self._running[child.pid] = child
        return child

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to one of our processes, unless it has ended."""
        if child := self._running.get(pid):
            child.signal(number)

    def reap(self) -> Iterator[tuple[int, int]]:
        """(pid, exit code) of each child that has ended; a negative code is a signal. Orphans are reaped silently."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._running.clear()  # somebody else has taken what was left
                return
            if pid == 0:
                return
            if child := self._running.pop(pid, None):
                code = os.waitstatus_to_exitcode(status)
                child.ended(code)
                yield pid, code

    def kill_all(self) -> Iterator[tuple[int, int]]:
        """Kill every one and wait until all have ended; as `reap`."""
        for child in list(self._running.values()):
            child.signal(signal.SIGKILL)
        while self._running:
            yield from self.reap()
            time.sleep(_LOOK_S)


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Runs in the child between fork and exec: this signal when the parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


# What every user may ask for (fs.pipe-max-size): some 2,500 lines. The kernel's default is a sixteenth.
_ROOM_BYTES: Final = 1 << 20
_TELL_EVERY_S: Final = 60.0


@contextlib.contextmanager
def reopened_pipe(fd: int) -> Iterator[int | None]:
    """The same pipe by another open file, for as long as inside; None = it is no pipe."""
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        yield None
        return
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _ROOM_BYTES)
    try:
        opened = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield opened
    finally:
        os.close(opened)


class LogLost:
    """Tells of lines that were lost, at most once a minute."""

    def __init__(self) -> None:
        self._told = 0
        self._told_s = 0.0

    def line(self, lost: int, now_s: float) -> str:
        """What to say of this many, "" = nothing. A front that restarts counts from 0."""
        if lost < self._told:
            self._told = 0
        if lost == self._told or now_s - self._told_s < _TELL_EVERY_S:
            return ""
        more, self._told, self._told_s = lost - self._told, lost, now_s
        return f"the access log has lost {more} lines: its reader is too slow"


class Signals:
    """From now on the named signals do nothing but wake who reads `fd`. The main thread's only."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in numbers}

    def taken(self) -> set[int]:
        """The signals since the last call."""
        try:
            return set(os.read(self.fd, 4096)) & set(self._before)
        except BlockingIOError:
            return set()

    def close(self) -> None:
        """Let signals do what they did before."""
        signal.set_wakeup_fd(-1)
        for number, action in self._before.items():
            signal.signal(number, action)
        os.close(self.fd)
        os.close(self._write_fd)


def _nothing(number: int, frame: object) -> None:
    """Its being set lets the wake-up byte be written, where SIG_IGN would not."""


#: The first descriptor that systemd passes.
_FIRST_FD: Final = 3
_BACKLOG: Final = 4096
_PORT_MAX: Final = 65535
_LISTEN: Final = "listen"


def activated(addresses: Iterable[str], environ: MutableMapping[str, str] = os.environ) -> dict[str, socket.socket]:
    """Sockets that systemd has opened for us (`LISTEN_FDS`), each by the one of our addresses that is its own.

    Raises:
        SettingsError: one is at none of our addresses.
        ServeError: what was passed is no socket.
    """
    number, pid = environ.pop("LISTEN_FDS", ""), environ.pop("LISTEN_PID", "")
    if pid != str(os.getpid()) or not number.isdecimal():
        return {}
    ours = {_where(address): address for address in addresses}
    found: dict[str, socket.socket] = {}
    for fd in range(_FIRST_FD, _FIRST_FD + int(number)):
        try:
            sock = socket.socket(fileno=fd)
        except OSError as error:
            rule, hint = f"a stream socket ({error.strerror})", "use ListenStream= in the socket unit"
            raise ServeError(_LISTEN, name="LISTEN_FDS", value=fd, rule=rule, hint=hint) from None
        sock.set_inheritable(False)
        address = ours.get(_name(sock.getsockname()))
        if address is None:
            hint = f"name it: bind = [{_name(sock.getsockname())!r}]"
            raise SettingsError("bind", list(ours.values()), "the addresses of systemd's sockets", hint,
                                attempted=_LISTEN)  # fmt: skip
        found[address] = sock
    return found


def _where(address: str) -> str:
    return os.path.abspath(address) if address.startswith(("/", ".")) else _name(_resolved(address)[-1])


def _name(where: Any) -> str:
    if isinstance(where, str):
        return where
    return f"[{where[0]}]:{where[1]}" if ":" in where[0] else f"{where[0]}:{where[1]}"


def listen(addresses: Iterable[str]) -> list[socket.socket]:
    """Sockets that listen, one for each address; all or none.

    Raises:
        SettingsError: an address is none, or names no host.
        ServeError: it is in use, or not ours to use.
    """
    with contextlib.ExitStack() as undone:
        sockets = [undone.enter_context(_listening(address)) for address in addresses]
        undone.pop_all()
    return sockets


def listen_also(addresses: Iterable[str], have: Mapping[str, socket.socket]) -> dict[str, socket.socket]:
    """A socket for each address, in this order: those that are there already, and new ones, as `listen`."""
    wanted = list(addresses)
    new = [address for address in wanted if address not in have]
    found = {**have, **dict(zip(new, listen(new), strict=True))}
    return {address: found[address] for address in wanted}


def _listening(address: str) -> socket.socket:
    try:
        return _unix(address) if address.startswith(("/", ".")) else _internet(address)
    except OSError as error:
        rule = f"an address that can be listened on ({error.strerror or error})"
        hint = "end what listens there, or choose another one"
        raise ServeError(_LISTEN, name="bind", value=address, rule=rule, hint=hint) from None


def _unix(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode) and not _answers(path):
            os.unlink(path)  # left by one that was killed
    return _bound(socket.socket(socket.AF_UNIX), path)


def _internet(address: str) -> socket.socket:
    family, kind, protocol, _, where = _resolved(address)
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return _bound(sock, where)


def _resolved(address: str) -> Any:
    """What getaddrinfo says of it."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        if int(port) > _PORT_MAX:  # it would be another port, less 65536
            raise ValueError(f"{port} is over {_PORT_MAX}")
    except (socket.gaierror, ValueError, OverflowError) as error:
        rule, hint = f"a host and a port ({error})", "write it as 127.0.0.1:8000"
        raise SettingsError("bind", address, rule, hint, attempted=_LISTEN) from None
    return found[0]


def _bound(sock: socket.socket, where: Any) -> socket.socket:
    try:
        sock.bind(where)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


class Notify:
    """Says how far the service is. Every method does nothing if this was not asked for."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
        usec = environ.get("WATCHDOG_USEC", "") if environ.get("WATCHDOG_PID", "") in ("", str(os.getpid())) else ""
        #: Half of the time after which systemd ends a service that says nothing; 0 = it does not watch.
        self.watchdog_s = int(usec) / 2e6 if usec.isdecimal() else 0.0

    def ready(self) -> None:
        """It serves; also after a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """It replaces its workers."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """It ends."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """It turns."""
        if self.watchdog_s:
            self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line that `systemctl status` shows."""
        self._send(f"STATUS={text}")

    def _send(self, message: str) -> None:
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.sendto(message.encode(), self._address)
