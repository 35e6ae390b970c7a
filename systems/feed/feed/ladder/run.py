"""What is measured, in which order. Every part is kept as soon as it is there.

alone/V     V by itself: orders, costs, the most that it does, memory, shares of CPU
pair/V      V and greenlane in turns: one request at a time, then load at half of V's capacity,
            or of greenlane's where that is less
ladder      all variants that carry it at half of the pool's capacity, in turns: the article's steps
outage      greenlane, a shard killed under load
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from feed.build import EXTENSION, GO_LIBRARY, SERVICE, Part, build
from feed.site import Plan, Site
from greenlane_tools.lab.interruption import checkpoint
from greenlane_tools.lab.run.talk import Talk

from . import alone
from .capacity import capacity, most
from .kept import Kept
from .loaded import asking, loaded
from .options import OURS, Options
from .outage import outage
from .shares import missing, of_stages, sampled, shares
from .subject import Subject, serving
from .truth import Truth

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
            orders = alone.orders(subject, self._users, self._truth, told)
            costs = alone.costs([subject], self._users, told)[name]
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
            costs = alone.costs(subjects, self._users, self._talk.progress)
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
