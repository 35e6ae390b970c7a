"""A profile that may leave the house: names replaced by tokens, numbers kept.

The tokens are keyed hashes: whoever has the key gets the same tokens again, so that anonymous profiles can still be
merged and compared; whoever has not cannot find the names by trying likely ones.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Final

from greenlane_tools.plan.profile import Profile, Route, Upstream

__all__ = ["anonymised"]

#: Of a token, bytes: 1,000 names have two alike in 1 of 8 million profiles.
_SIZE: Final = 6
#: Sentences of the recorder name processes.
_NAMING: Final = re.compile(r"process \d+")


def anonymised(profile: Profile, key: bytes) -> Profile:
    """The same with tokens for its own name, routes, lanes and upstreams. One that is anonymous comes back as it is.

    Args:
        key: of any length; the same key gives the same tokens.
    """
    if profile.anonymous:
        return profile
    named = _Tokens(key)
    routes = tuple(_route(route, named) for route in profile.routes)
    upstreams = [Upstream(named.token("upstream", each.name), each.limit) for each in profile.upstreams]
    words = [profile.name, *(route.route for route in profile.routes), *(each.name for each in profile.upstreams)]
    return replace(
        profile,
        anonymous=True,
        name=named.token("service", profile.name) if profile.name else "",
        routes=tuple(sorted(routes, key=lambda each: (-each.rate_per_s, each.route))),
        upstreams=tuple(sorted(upstreams, key=lambda each: each.name)),
        measured={named.token("route", name): each for name, each in profile.measured.items()},
        notes=tuple(note for note in profile.notes if not _tells(note, words)),
    )


class _Tokens:
    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key).digest()

    def token(self, kind: str, name: str) -> str:
        """What stands for the name."""
        text = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        return f"{kind}-{hashlib.blake2b(text, digest_size=_SIZE, key=self._key).hexdigest()}"


def _route(route: Route, named: _Tokens) -> Route:
    return replace(
        route,
        route=named.token("route", route.route),
        lane=named.token("lane", route.lane) if route.lane else None,
        upstreams=tuple(named.token("upstream", name) for name in route.upstreams),
    )


def _tells(note: str, words: list[str]) -> bool:
    return bool(_NAMING.search(note)) or any(word and word in note for word in words)
