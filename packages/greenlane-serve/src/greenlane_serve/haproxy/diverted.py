"""Lines of the public frontend that send a share of a route to another version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from greenlane_serve.diversion import MAP, WHOLE
from greenlane_serve.haproxy.words import word
from greenlane_serve.versions import version_of

__all__ = ["choosing", "taken", "using"]

_FOUND: Final = "{ var(txn.diverted) -m found }"


def choosing(groups: Iterable[str], folder: Path, header: str) -> Iterator[str]:
    """Look the request up, and throw the dice: once, or by the header's value, which stays on one side."""
    if not any(map(version_of, groups)):
        return
    yield "http-request set-var(txn.path) path,url_dec"
    yield f"http-request set-var(txn.diverted) method,concat(:,txn.path),map_reg({word(str(folder / MAP))})"
    yield f"http-request set-var(txn.share) var(txn.diverted),field(2,:) if {_FOUND}"
    yield f"http-request set-var(txn.dice) rand({WHOLE}) if {_FOUND}"
    if header:
        value = f"req.fhdr({header})"
        yield f"http-request set-var(txn.dice) {value},xxh32,mod({WHOLE}) if {_FOUND} {{ {value} -m found }}"


def using(groups: Iterable[str]) -> Iterator[str]:
    """To the version's workers, if there are any: else the request goes on as if nothing were diverted."""
    for group in groups:
        if version_of(group):
            yield f"use_backend {group} if {taken(group)}"


def taken(group: str) -> str:
    """Whether a request goes to this group of a version."""
    mine = f"{{ var(txn.diverted),field(1,:) -m str {word(version_of(group))} }}"
    under = "{ var(txn.dice),sub(txn.share) -m int lt 0 }"
    return f"{_FOUND} {mine} {under} {{ nbsrv({group}) gt 0 }}"
