"""What `greenlane serve` stands behind, asked for before minutes of measuring rather than when its turn comes."""

from __future__ import annotations

from greenlane_serve.haproxy.found import found

__all__ = ["needed"]


def needed() -> None:
    """This machine has a HAProxy that will do. Cost: runs `haproxy -v` once.

    Raises:
        FrontError: it has none, or too old a one; the hint says how to install it.
    """
    found()
