"""What is measured, in which order. Every part is kept as soon as it is there.

alone/V     V by itself: orders, costs, the most that it does, memory, shares of CPU
pair/V      V and greenlane in turns: one request at a time, then load at half of V's capacity,
            or of greenlane's where that is less
ladder      all variants that carry it at half of the pool's capacity, in turns: the article's steps
outage      greenlane, a shard killed under load
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import greenlane
from feed.ladder.loaded import asking, capacity, loaded, most, outage
from feed.ladder.loaded import costs as costs_of
from feed.ladder.loaded import orders as orders_of
from feed.ladder.options import ATTEMPTED, OURS, Options
from feed.ladder.shares import missing, of_stages, sampled, shares
from feed.ladder.subject import Subject, serving
from feed.ladder.truth import Truth
from feed.native import EXTENSION, GO_LIBRARY, NATIVE, PACKAGE, SERVICE, Part, build
from feed.site import Plan, Site
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.written import trying

# --- What a run has measured so far, in its folder: Ctrl-C or a crash costs the part under way and nothing else.


_FILE: Final = "run.json"


class Kept:
    """The parts of one run by name; a finished run is never gone on with.

    Args:
        folder: made when missing.
        identity: what the meaning of a part depends on; parts of another are forgotten.
    """

    def __init__(self, folder: Path, identity: Mapping[str, object], *, fresh: bool) -> None:
        self._folder = folder
        self._identity = json.loads(json.dumps(identity, default=str))
        self._parts: dict[str, Any] = {}
        with trying(folder, ATTEMPTED):
            folder.mkdir(parents=True, exist_ok=True)
            if not fresh:
                self._parts = self._found()
            self._write(complete=False)

    def __len__(self) -> int:
        return len(self._parts)

    def part(self, name: str, measure: Callable[[], Any]) -> Any:
        """What is kept under the name; measured now, and kept, if nothing is."""
        if name not in self._parts:
            # As it will be read again: the same whether it was measured just now or before.
            self._parts[name] = json.loads(json.dumps(measure()))
            self._keep(complete=False)
        return self._parts[name]

    def complete(self) -> None:
        """The run is over: the same command measures again."""
        self._keep(complete=True)

    def _keep(self, *, complete: bool) -> None:
        try:
            self._write(complete=complete)
        except OSError as error:
            rule = f"a folder that can be written ({error.strerror})"
            hint = "free some space there; the same command resumes"
            raise GreenlaneError(ATTEMPTED, name="--out", value=str(self._folder), rule=rule, hint=hint) from None

    def _found(self) -> dict[str, Any]:
        try:
            before = json.loads((self._folder / _FILE).read_text("utf-8"))
            same = before["identity"] == self._identity and not before["complete"]
            return dict(before["parts"]) if same else {}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}

    def _write(self, *, complete: bool) -> None:
        state = {"identity": self._identity, "complete": complete, "parts": self._parts}
        aside = self._folder / f".{_FILE}.part"
        aside.write_text(json.dumps(state) + "\n", encoding="utf-8")
        os.replace(aside, self._folder / _FILE)


def sources_digest() -> str:
    """Of the code of the system and of Greenlane: what was measured of another code is not gone on with."""
    digest = hashlib.sha256()
    ours = Path(greenlane.__file__).parent
    for folder, endings in ((PACKAGE, {".py"}), (NATIVE, {".rs", ".go", ".toml"}), (ours, {".py", ".so"})):
        for path in sorted(folder.rglob("*")):
            if path.suffix in endings:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


Json = dict[str, Any]
#: Beside whom the article's steps are taken.
POOL: Final = "pool"
#: Share of its capacity that a variant is loaded with.
HALF: Final = 0.5
#: Of its own capacity: a variant that would have more than this at the pool's rate is left out of the steps.
_CARRIES: Final = 0.9
#: Who needs which native part; the extension also judges the orders.
_NEEDED: Final[dict[Part, tuple[str, ...]]] = {EXTENSION: (OURS,), SERVICE: ("compiled",), GO_LIBRARY: ("native-go",)}
#: Requests before anything counts.
_WARM, _WARM_PLACED = 4, 30
#: A killed shard is watched at a rate that leaves room for threads of Python that ask.
_OUTAGE_PER_S, _OUTAGE_S = 12.0, 9.0


@dataclass(frozen=True)
class Result:
    """All that was measured.

    Args:
        alone, pairs: by variant.
        ladder: by variant: repetitions of a cell; empty without the pool.
        outage: of greenlane.
        users: who asked; active: how many of them are very active.
    """

    alone: dict[str, Json]
    pairs: dict[str, Json]
    ladder: dict[str, list[Json]]
    outage: Json
    users: int
    active: int


class _Run:
    def __init__(self, options: Options, kept: Kept, talk: Talk, site: Site, logs: Path) -> None:
        self._options = options
        self._kept = kept
        self._talk = talk
        self._site = site
        self._logs = logs
        self._truth = Truth(site.world, site.model)
        self._users = asking(site.world.people, options.users, site.addresses.users)

    def all(self) -> Result:
        variants = self._options.variants
        by_itself = {name: self._part(f"alone/{name}", partial(self._alone, name)) for name in variants}
        rates = {name: HALF * by_itself[name]["rush"]["per_s"] for name in variants}
        pairs = {
            name: self._part(f"pair/{name}", partial(self._pair, name, min(rates[name], rates[OURS])))
            for name in variants
        }
        ladder = self._part("ladder", lambda: self._ladder(rates)) if POOL in variants else {}
        outage = self._part("outage", lambda: self._outage(min(rates[OURS], _OUTAGE_PER_S)))
        active = sum(self._site.world.people.user(user).active for user in self._users)
        return Result(by_itself, pairs, ladder, outage, len(self._users), active)

    def _part(self, name: str, measure: Callable[[], Any]) -> Any:
        checkpoint()
        return self._kept.part(name, measure)

    def _alone(self, name: str) -> Json:
        options, told = self._options, self._talk.progress
        once_s, seed = options.seconds / options.repetitions, f"{options.seed}/{name}"
        with self._serving(name) as subject:
            orders = orders_of(subject, self._users, self._truth, told)
            costs = costs_of([subject], self._users, told)[name]
            rush = capacity(subject, self._users, costs, seed, told)
            best = most(subject, self._users, rush, (once_s, options.seconds), seed, told)
            found = self._shares(subject, HALF * rush["per_s"], options.seconds)
            placements = subject.placements()
        self._talk.say(
            f"{name}: {orders['right']}/{orders['of']} orders right, NDCG {orders['ndcg']:.3f}, "
            f"{costs['cpu_ms']:.3g} ms CPU a request ({costs['path_cpu_ms']:.3g} on the ranking path), "
            f"{rush['per_s']:.3g}/s at most, {best['max_per_s']:.3g}/s with p95 in time"
        )
        return {"orders": orders, "costs": costs, "rush": rush, "most": best, "shares": found, "placements": placements}

    def _shares(self, subject: Subject, per_s: float, seconds: float) -> dict[str, float]:
        """Of a service without Python by its own stages; {} when nothing can sample."""
        found: Counter[str] = Counter()
        seed = f"{self._options.seed}/shares"
        if missing() or subject.variant == "compiled":
            usage = loaded(subject, self._users, per_s, seconds, seed, self._talk.progress)["usage"]
            return of_stages(usage) if subject.variant == "compiled" else {}
        with sampled(subject.running.process.pid, seconds, found):
            usage = loaded(subject, self._users, per_s, seconds, seed, self._talk.progress)["usage"]
        return shares(found, usage["stages"])

    def _pair(self, name: str, per_s: float) -> Json:
        """`name` and ours, in turns that begin with either; ours by itself at its own rate."""
        names = list(dict.fromkeys((name, OURS)))
        with ExitStack() as stack:
            subjects = [stack.enter_context(self._serving(one)) for one in names]
            for subject in subjects:
                self._warm(subject)
            costs = costs_of(subjects, self._users, self._talk.progress)
            cells = self._turns(subjects, per_s, f"pair/{name}")
        self._talk.say(f"{name} beside {OURS} at {per_s:.3g}/s: measured")
        return {"per_s": per_s, "costs": costs, "cells": cells}

    def _ladder(self, rates: dict[str, float]) -> dict[str, list[Json]]:
        per_s = rates[POOL]
        carry = [name for name, rate in rates.items() if per_s <= _CARRIES * rate / HALF]
        with ExitStack() as stack:
            subjects = [stack.enter_context(self._serving(name)) for name in carry]
            for subject in subjects:
                self._warm(subject)
            cells = self._turns(subjects, per_s, "ladder")
        self._talk.say(f"{', '.join(carry)} at {per_s:.3g}/s: measured")
        return cells

    def _turns(self, subjects: Sequence[Subject], per_s: float, seed: str) -> dict[str, list[Json]]:
        """Repetitions of a cell of each; the order is turned round from one to the next."""
        options = self._options
        cells: dict[str, list[Json]] = {subject.variant: [] for subject in subjects}
        for number in range(options.repetitions):
            for subject in subjects if number % 2 == 0 else reversed(subjects):
                seconds = options.seconds / options.repetitions
                # Everybody gets the same questions at the same instants.
                found = loaded(
                    subject, self._users, per_s, seconds, f"{options.seed}/{seed}/{number}", self._talk.progress
                )
                cells[subject.variant].append(found)
        return cells

    def _outage(self, per_s: float) -> Json:
        with self._serving(OURS) as subject:
            self._warm(subject)
            found = outage(subject, self._site, self._users, per_s, _OUTAGE_S, self._talk.progress)
        self._talk.say("a shard killed under load: measured")
        return found

    def _warm(self, subject: Subject) -> None:
        """Connections and caches settle within a few requests, placement within some 20."""
        many = _WARM_PLACED if subject.variant == OURS else _WARM
        for user in (self._users * many)[:many]:
            self._talk.progress(f"{subject.variant}: warming up")
            subject.feed(user)

    @contextmanager
    def _serving(self, name: str) -> Iterator[Subject]:
        self._talk.progress(f"{name}: starting")
        with serving(name, self._site, self._logs, self._options.workers) as subject:
            yield subject


def run(options: Options, kept: Kept, talk: Talk) -> Result:
    """Measures what is not kept yet. Blocks; every process that it starts has ended afterwards, Ctrl-C included."""
    talk.progress("building what is not built yet")
    build(*(part for part, variants in _NEEDED.items() if set(variants) & set(options.variants)))
    plan = Plan(options.folder, items=options.items)
    with Site(plan, talk.say) as site:
        return measured(options, kept, talk, site)


def measured(options: Options, kept: Kept, talk: Talk, site: Site) -> Result:
    """The same on a site that runs."""
    with tempfile.TemporaryDirectory(prefix="feed-ladder-") as logs:
        return _Run(options, kept, talk, site, Path(logs)).all()
