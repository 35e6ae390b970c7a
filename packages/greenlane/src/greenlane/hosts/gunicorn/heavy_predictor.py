"""Which requests are expected to wait for a permit: learned by method and path, as requests end.

A request's route is known when its framework has run, which needs a thread. What decides who gets a thread has the
request line only. A path is known by its first segments, those that look like somebody's number left out. One that was
never seen counts as its siblings do, if it is not at the top: all articles of a shop are alike.

Cost: 0.2 us a request, of which each eighth is looked at; 0.6 while the pool is nearly full, when all are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final

from greenlane._native import threads_heavy, threads_learn_share
from greenlane.hosts.gunicorn.connection import Conn, method_and_target

__all__ = ["MOST_PATHS", "HeavyPredictor"]

#: Paths that are known: at most twice as many; the least recently requested are dropped first.
#: Arbitrary.
MOST_PATHS: Final = 512
# What looks like a word names a path; anything else may be somebody's number.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_.-]{0,31}")
_MOST_SEGMENTS: Final = 6
# One request in eight is looked at while threads are free.
_SAMPLED: Final = 8


class HeavyPredictor:
    """The `Turns` of a pool of connections. Any thread may call.

    Args:
        waiting: how many phases wait for a permit.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.waiting = waiting
        # Share of its requests that asked for a permit. Two generations: a scanner's paths drive out no path that is
        # asked for.
        self._now: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self._ended = 0

    def is_heavy(self, item: Conn) -> bool:
        """Whether most requests for such a path asked for a permit; unknown ones count as light."""
        method, target = method_and_target(item.head)
        path = target.partition(b"?")[0]
        return self.expects(method.decode("latin-1"), path.decode("latin-1"))

    def expects(self, method: str, path: str) -> bool:
        """Whether a request for `path`, without its query, is expected to ask for a permit."""
        for key in _keys(method, path):
            share = self._share(key)
            if share is not None:
                return threads_heavy(share)
        return False

    def ended(self, request: Any, asked: bool, *, nearly_full: bool) -> None:
        """Learn from a request of gunicorn's that has ended; `asked`: for a permit."""
        self._ended += 1
        if nearly_full or self._ended % _SAMPLED == 0:
            self.learn(request.method, request.path, asked)

    def learn(self, method: str, path: str, asked: bool) -> None:
        """Learn from a request for `path` whether it asked for a permit."""
        now = self._now
        if len(now) >= MOST_PATHS:
            self._before, self._now = now, {}
            now = self._now
        for key in _keys(method, path):
            now[key] = threads_learn_share(self._share(key), asked)

    def known(self) -> int:
        """How many paths are known."""
        return len(self._now.keys() | self._before.keys())

    def _share(self, key: str) -> float | None:
        share = self._now.get(key)
        return self._before.get(key) if share is None else share


@functools.lru_cache(1024)
def _keys(method: str, path: str) -> tuple[str, ...]:
    """A path's own key, and that of its siblings; at the top a service's endpoints stand beside each other."""
    segments = path.strip("/").split("/")[:_MOST_SEGMENTS]
    words = [segment if not segment or _WORD.fullmatch(segment) else "*" for segment in segments]
    own = " ".join((method, *words))
    return (own, " ".join((method, *words[:-1], "*"))) if len(words) > 1 and words[-1] != "*" else (own,)
