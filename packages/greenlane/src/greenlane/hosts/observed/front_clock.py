"""What a request's headers say of its arrival at the front before us, and of its deadline.

Arrival: `X-Request-Start`, `X-Queue-Start`; deadline: the default of the setting `deadline_headers`.

Forms of an arrival that fronts write: `t=1700000000.123` (nginx, seconds), `1700000000123` (Heroku, ms),
`t=1700000000123456` (Apache, us), `1700000000123456789` (ns). The unit follows from the size of the number, which is
unambiguous from 1973 to the year 5138.

Any client may send these headers. They are believed if the peer is on this machine or a private network, as fronts
do, and not of an address of the public Internet, which is a client's own.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Mapping
from typing import Final

from greenlane import deadline

__all__ = [
    "DEADLINES",
    "NAMES",
    "READ",
    "arrival_and_due",
    "arrival_ns",
    "environ_arrival_ns",
    "is_front",
    "parsed_unix_ns",
]

#: Lower case, the first present counts.
NAMES: Final = ("x-request-start", "x-queue-start")
_IN_ENVIRON: Final = tuple("HTTP_" + name.upper().replace("-", "_") for name in NAMES)

#: Headers that are read: as they are written -> as WSGI has them, and as they are wanted below.
READ: Final = {name: "HTTP_" + name.upper().replace("-", "_") for name in (*NAMES, *deadline.HEADERS)}
#: Deadline headers as `deadline.due_ns` takes them.
DEADLINES: Final = deadline.environ_names(deadline.HEADERS)

_FORM: Final = re.compile(r"\s*(?:t=)?(\d{1,19})(?:\.(\d{1,9}))?\s*")
#: Largest number of each unit, and how many ns the unit has.
_UNITS: Final = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3), (10**20, 1))
#: A header that is older is not about this queue: a wrong clock, or a client's own. Arbitrary.
_OLDEST_NS: Final = 600 * 10**9
#: A moment that is known no better makes more waiting than there was. nginx and Heroku write milliseconds.
_COARSEST_NS: Final = 10**6
#: Clocks of two machines differ; up to this much ahead of this machine's counts as "now". Arbitrary.
_AHEAD_NS: Final = 10**9


@functools.lru_cache(maxsize=1024)
def is_front(address: str | None) -> bool:
    """Whether a peer at this address may be one of our fronts. None or another kind of name: by a Unix socket."""
    import ipaddress  # only where such a header comes

    try:
        peer = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return True
    mapped = getattr(peer, "ipv4_mapped", None)
    return not (mapped or peer).is_global


def environ_arrival_ns(environ: Mapping[str, object]) -> int:
    """Give the arrival by a WSGI environ's headers, monotonic; 0 = none that can be believed. About 0.2 us without."""
    for name in _IN_ENVIRON:
        text = environ.get(name)
        if text:
            address = environ.get("REMOTE_ADDR")
            return arrival_ns(str(text)) if is_front(None if address is None else str(address)) else 0
    return 0


def arrival_ns(text: str) -> int:
    """Give a header's moment on the monotonic clock; 0 = none that can be believed, or known to a second only."""
    unix_ns, exact_to_ns = parsed_unix_ns(text)
    if not unix_ns or exact_to_ns > _COARSEST_NS:
        return 0
    now_ns = time.monotonic_ns()
    age_ns = time.time_ns() - unix_ns
    if not -_AHEAD_NS <= age_ns <= _OLDEST_NS:
        return 0
    return now_ns - max(age_ns, 0)


def parsed_unix_ns(text: str) -> tuple[int, int]:
    """Give nanoseconds since 1970, and the resolution in ns; 0 = another form."""
    found = _FORM.fullmatch(text)
    if found is None:
        return 0, 0
    whole, fraction = int(found[1]), found[2] or ""
    for below, unit_ns in _UNITS:
        if whole < below:
            unix_ns = whole * unit_ns + int((fraction + "0" * 9)[:9]) * unit_ns // 10**9
            return unix_ns, max(1, unit_ns // 10 ** len(fraction))
    return 0, 0


def arrival_and_due(told: Mapping[str, str], arrival: tuple[int, str], address: str | None) -> tuple[int, str, int]:
    """Give when a request arrived, by which clock, and when it is due (0 = it does not say).

    Args:
        told: those of its headers that are read, as WSGI has them.
        arrival: without them: (monotonic ns or 0 = unknown, the clock's name).
        address: the peer's, as in `is_front`.
    """
    arrival_ns, clock = arrival
    front_ns = environ_arrival_ns({**told, "REMOTE_ADDR": address})
    if front_ns:
        arrival_ns, clock = front_ns, "header"
    due_ns = deadline.due_ns(told, DEADLINES, arrival_ns) if arrival_ns else 0
    return arrival_ns, clock, due_ns
