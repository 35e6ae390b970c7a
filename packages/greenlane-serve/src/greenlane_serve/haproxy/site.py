"""All that a configuration of HAProxy is made of, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenlane_serve.folders import Account
from greenlane_serve.lanes import Layout
from greenlane_serve.trust import Trust

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+=^-]+")


def word(text: str) -> str:
    """One word: quoted where it needs to be. The text must hold no line break: none can be written."""
    if _PLAIN.fullmatch(text):
        return text
    assert "\n" not in text and "\r" not in text and "\0" not in text
    return "'" + text.replace("'", "'\\''") + "'"


def section(head: str, lines: Iterable[str]) -> list[str]:
    """A section: its head, and its lines set in."""
    return [head, *(f"    {line}" for line in lines)]


def milliseconds(seconds: float) -> str:
    """A time; 0 would be none, so it is 1 ms at least."""
    return f"{max(1, round(seconds * 1000))}ms"


@dataclass(frozen=True)
class FrontServer:
    """One worker as the front sees it."""

    name: str
    # Its Unix socket, or an address as HAProxy writes it ("10.0.0.1:8000").
    socket: Path | str
    # Most requests that it gets at once.
    at_once: int
    # Whether it gets any: a worker that boots or is replaced does not.
    enabled: bool
    # Further words of its line.
    words: str = ""


@dataclass(frozen=True)
class Site:
    """All that the text is made of."""

    layout: Layout
    # Group -> its servers; `layout` names the groups.
    servers: Mapping[str, Sequence[FrontServer]]
    # Words after `bind`: an address, or the descriptor of a socket ("fd@3").
    binds: Sequence[str]
    # Where the sockets of this HAProxy are: its runtime interface, and one for each gate.
    folder: Path
    # Group -> requests at once per worker, for which gates are made; live changes go through the runtime socket.
    at_once: Mapping[str, int]
    health_path: str = ""
    # Group -> whether a worker of it serves; changed live. None = the servers' own states tell.
    life: Mapping[str, bool] | None = None
    # Answered by the tree, on the socket `METRICS` in the folder.
    metrics_path: str = ""
    alive_path: str = ""
    # The user that HAProxy becomes; None = it keeps its user.
    account: Account | None = None
    # Words after `bind` where these and health are answered and nothing else; none = on `binds`, beside requests.
    inner_binds: Sequence[str] = field(default=())
    queue_s: float = 30.0
    head_timeout_s: float = 10.0
    retry_after_s: int = 1
    connections: int = 10_000
    trust: Trust = field(default_factory=Trust)
    # Gates that only the previous configuration has: a HAProxy that finishes its requests still sends to them.
    gates_before: Sequence[str] = field(default=())
    # Further lines: of the public frontend, before lanes are matched; and of `global`.
    frontend_lines: Sequence[str] = field(default=())
    global_lines: Sequence[str] = field(default=())
    # Further lines of each group.
    group_lines: Sequence[str] = field(default=())
    # What stands before the name of a gate in the address of its socket; "" = the sockets are in `folder`.
    gates: str = ""

    @property
    def own(self) -> str:
        """Words of a Unix socket on which HAProxy listens for itself."""
        return "mode 600" if self.account is None else f"mode 600 user {word(self.account.user)}"
