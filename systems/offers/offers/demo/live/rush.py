"""What the live services are asked: each region as in measured runs, thinned out, its bursts more frequent.

Six services share the machine with their page: each side may take some 0.4 of a core for all regions together. Steady
callers are fewer; what makes offers late, a burst, is as large as ever and comes more often, so that a minute shows
what a rider of the measured region waits longer for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from offers.table import Region

__all__ = ["BURST_EVERY_S", "POLLS_PER_S", "rush"]

#: Polls a second of each region.
POLLS_PER_S: Final = 4.0
#: Of the region's steady callers.
_CALLERS_FRAC: Final = 0.15
#: Length of the periods where the region has bursts; each has one.
BURST_EVERY_S: Final = 14.0


def rush(region: Region) -> Region:
    """The region as it is asked live."""
    kinds = {name: replace(kind, per_s=kind.per_s * _CALLERS_FRAC) for name, kind in region.kinds.items()}
    bursts = tuple(replace(one, every_s=BURST_EVERY_S) for one in region.bursts)
    return replace(region, riders_per_s=POLLS_PER_S, kinds=kinds, bursts=bursts)
