"""One region's service on one side: pricingservice and offerservice, and how one pricingservice takes another's place.

Processes are started and ended on one thread that lives as long as the page: they end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from greenlane_tools.lab.environment import front
from greenlane_tools.lab.processes import StartFailed
from offers.contenders import FIXES, Fix
from offers.site import Offerservice, Pricing, Site

from ..warm import asked_before, offer_cpu_ms

_WARM_S: Final = 1.0
#: What the old one has in progress may take so long.
_DRAIN_S: Final = 6.0


class Service:
    """Serves one region.

    Args:
        site: with its upstreams.
        starter: the one thread that starts and ends processes.
        side, region: which it is.
        fix: to begin with.
        cancel, propagate_deadline: of offerservice.
    """

    def __init__(
        self, site: Site, starter: ThreadPoolExecutor, side: str, region: str, fix: Fix, *,
        cancel: bool = False, propagate_deadline: bool = False,
    ) -> None:  # fmt: skip
        self.side, self.region, self.fix = side, region, fix
        self._site, self._starter = site, starter
        self._cancel, self._propagate_deadline = cancel, propagate_deadline
        self.pricing: Pricing
        self.offers: Offerservice

    @property
    def name(self) -> str:
        """As the page calls it."""
        return f"{self.side}/{self.region}"

    def start(self) -> None:
        """Starts both; blocks. On the starter's thread.

        Raises:
            StartFailed: one did not come up.
            FrontError: it is a lane, and HAProxy is missing.
        """
        self.pricing = self._warmed(self.fix)
        self.offers = self._site.offerservice(
            self.pricing, cancel=self._cancel, propagate_deadline=self._propagate_deadline
        )

    def check(self) -> None:
        """Both run. Raises StartFailed with the last words of the one that does not."""
        self.pricing.check()
        if not self.offers.process.running():
            said = self.offers.process.said()
            raise StartFailed(f"run offerservice of {self.name}: it ended, expected it to stay; it said:\n{said}")

    async def switch(self, fix: Fix, switched: Callable[[], None]) -> None:
        """Another pricingservice takes its place: started, warmed, asked from the next offer on; the old one drained.

        Args:
            switched: called once offers ask the new one, before the old one is drained.

        Raises:
            GreenlaneError: it did not come up; the old one goes on.
            OSError: offerservice did not take it; the old one goes on.
        """
        loop, old = asyncio.get_running_loop(), self.pricing
        fresh = await loop.run_in_executor(self._starter, self._warmed, fix)
        try:
            await loop.run_in_executor(None, self.offers.point_at, fresh)
        except BaseException:
            self._starter.submit(self._site.stop, fresh)
            raise
        self.pricing, self.fix = fresh, fix
        switched()
        await loop.run_in_executor(self._starter, lambda: self._site.stop(old, grace_s=_DRAIN_S))

    def _warmed(self, fix: Fix) -> Pricing:
        if fix == "lane":
            front()
        pricing = self._site.pricing(FIXES[fix], f"{self.side}-{self.region}-{fix}")
        try:
            offer_cpu_ms(self._site.table, pricing, _WARM_S)
            asked_before(self._site.table, self._site.table.regions[self.region], pricing, rare=False)
        except BaseException:
            self._site.stop(pricing)
            raise
        return pricing
