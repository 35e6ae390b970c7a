"""A share of some flow that goes elsewhere: of a queue's orders, or of a route's requests.

The one noun that `greenlane divert` sets and shows; how it is kept and obeyed is for `tasks.diversion` and
`fleet.diversion`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Diverted"]


@dataclass(frozen=True)
class Diverted:
    """How much of a flow goes elsewhere, and who said so."""

    #: A queue's name, or a route as a lane's `match`: "/bikes/*", "GET /bikes/<id>".
    flow: str
    #: Another queue, or another version of the application; "" = none was ever named.
    to: str = ""
    #: 0 to 1.
    share_frac: float = 0.0
    #: user@host; "" = nobody has set it.
    set_by: str = ""
    #: Seconds since the epoch, by the clock of who set it.
    set_s: float = 0.0
