"""The truth about a service: what a verdict has to say of it, and how what it says is compared with that.

`services` has the programs, one a file; a line that is right as the holder's ends with the comment `# here`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.oncall.load import Clients, repeated, together
from tests.oncall.situation import Scene, Situation

#: Where the programs are.
SERVICES = Path(__file__).parent / "services"
_GUNICORN = ("gunicorn", "-b", "127.0.0.1:{port}", "--no-control-socket", "--graceful-timeout", "2")
GTHREAD = (*_GUNICORN, "-k", "gthread", "--threads", "16")
SYNC = (*_GUNICORN, "-k", "sync")
PERMITS = (*_GUNICORN, "-k", "greenlane.hosts.gunicorn.Worker", "--threads", "32")
UVICORN = ("uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning")
#: What `greenlane report --brief` prints of a remedy; it must not where that cannot help.
_WORDS = {
    "take_turns": r"permit|take turns|greenlane\.hosts|greenlane_serve|Greenlane's worker",
    "more_threads": r"more threads|--threads \d",
    "off_loop": r"greenlane\.run",
    "to_thread": r"to_thread",
    "larger_pool": r"larger pool|pool_size|max_size",
    "upstream": r"faster upstream",
    "more_cores": r"more cores",
}

Verdict = dict[str, Any]


@dataclass(frozen=True)
class Truth:
    """Of one service under one load."""

    #: One sentence.
    cause: str
    service: Situation
    #: Any of these is right.
    victims: tuple[str, ...]
    kinds: tuple[str, ...]
    #: Keys of remedies that end it, and of those that cannot.
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()
    #: Within the resource's name; a regular expression, as the others.
    name: str = ""
    capacity: int | None = None
    #: "" = there is none, or anybody is right.
    holder: str = ""
    #: Whether a line is asked for.
    line: bool = True
    meanwhile: str = ""
    #: What is changed, and the service with it; None = there is nothing to change.
    change: str = ""
    changed: Situation | None = None
    #: The victim's p99 with the change is at most this part of what it was.
    most_frac: float = 0.5

    @property
    def path(self) -> str:
        """Whose p99 tells whether the change helped."""
        return self.victims[0].rpartition(" ")[2]

    @property
    def lines(self) -> frozenset[str]:
        """Those of the program that are right as the holder's."""
        source = self.service.source.read_text("utf-8").splitlines()
        return frozenset(f"app.py:{number}" for number, line in enumerate(source, 1) if "# here" in line)


@dataclass(frozen=True)
class Part:
    """One thing that a verdict says, beside the truth."""

    name: str
    right: bool
    found: str
    expected: str


def compared(truth: Truth, verdict: Verdict | None, brief: str) -> list[Part]:
    """Each part of a verdict, and whether it is right. `verdict` is None where the report has none."""
    verdict = verdict or {}
    victim, resource = verdict.get("victim") or {}, verdict.get("resource") or {}
    holder, remedy = verdict.get("holder") or {}, verdict.get("remedy") or {}
    kind, name = resource.get("kind"), str(resource.get("name"))
    parts = [
        Part("victim", victim.get("route") in truth.victims, str(victim.get("route")), " | ".join(truth.victims)),
        Part("resource", kind in truth.kinds and _matches(truth.name, name), f"{kind}: {name}",
             f"{' | '.join(truth.kinds)}: /{truth.name}/"),
    ]  # fmt: skip
    if truth.capacity is not None:
        capacity = resource.get("capacity")
        parts.append(Part("capacity", capacity == truth.capacity, str(capacity), str(truth.capacity)))
    if truth.holder:
        who = str(holder.get("who"))
        parts.append(Part("holder", _matches(truth.holder, who), who, f"/{truth.holder}/"))
        if truth.line:
            line = str(holder.get("line"))
            found = re.search(r"app\.py:\d+", line)
            is_right = bool(found) and found is not None and found[0] in truth.lines
            parts.append(Part("line", is_right, line, " | ".join(sorted(truth.lines))))
        if truth.meanwhile:
            meanwhile = str(holder.get("meanwhile"))
            is_right = _matches(truth.meanwhile, meanwhile)
            parts.append(Part("meanwhile", is_right, meanwhile, f"/{truth.meanwhile}/"))
    parts.append(Part("remedy", remedy.get("key") in truth.right, str(remedy.get("key")), " | ".join(truth.right)))
    told = [key for key in truth.wrong if remedy.get("key") == key or (key in _WORDS and _matches(_WORDS[key], brief))]
    parts.append(Part("no wrong one", not told, ", ".join(told), f"none of {', '.join(truth.wrong)}"))
    return parts


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def service(
    name: str, serve: tuple[str, ...], load: Callable[[Clients, Scene], None], upstream_ms: float = 0, **more: Any
) -> Situation:
    """One of the programs, served so and loaded so."""
    upstreams = {"UPSTREAM": upstream_ms} if upstream_ms else {}
    return Situation(name, serve, load, upstreams, folder=SERVICES, **more)


def edited(of: Situation, *edits: tuple[str, str]) -> Situation:
    """The program with these parts of it replaced."""
    return replace(of, edits=edits)


def load(
    loops: Mapping[str, int], paced: Mapping[str, float] | None = None, seconds: float = 4
) -> Callable[[Clients, Scene], None]:
    """`loops`: path -> clients in a closed loop; `paced`: path -> requests a second. Each path is asked once before."""
    rates = paced or {}

    def run(clients: Clients, scene: Scene) -> None:
        for path in (*rates, *loops):
            clients.ask(path)
        clients.seen.clear()
        together(
            *[lambda path=path: clients.kept(path, seconds) for path, count in loops.items() for _ in range(count)],
            *[lambda path=path, per_s=per_s: clients.paced(path, per_s, seconds) for path, per_s in rates.items()],
        )

    return run


def beside(path: str, per_s: float, *others: Callable[[Clients], None], times: int = 3) -> Callable[..., None]:
    """Requests of `path`, this many a second, while all `others` are done, again and again."""

    def run(clients: Clients, scene: Scene) -> None:
        clients.ask(path)
        clients.seen.clear()
        again = [repeated(0.1, times, lambda other=other: other(clients)) for other in others]
        together(lambda: clients.paced(path, per_s, 4), *again)

    return run
