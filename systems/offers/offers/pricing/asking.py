"""Upstreams, asked over kept connections.

urllib3: pooled keep-alive at a third of the CPU that requests adds around it, and tracing libraries know it. A pool
opens connections as needed and keeps up to `_KEPT`; nobody waits for one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import urllib3

__all__ = ["UpstreamFailed", "Upstreams"]

_KEPT: Final = 256
# Far beyond any upstream's latency law: a starved process shall be seen as slow, not as failing.
_PATIENCE_S: Final = 20.0


class UpstreamFailed(Exception):
    """An upstream is not known, not there, or did not answer 200; answered 502 with the message."""


class Upstreams:
    """Those of one process.

    Args:
        addresses: host:port by name.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._pools = {name: _pool(address) for name, address in addresses.items()}

    @classmethod
    def from_environment(cls) -> Upstreams:
        """What OFFERS_UPSTREAMS says.

        Raises:
            ValueError: it is no list of name=host:port.
        """
        text = os.environ.get("OFFERS_UPSTREAMS", "")
        pairs = [one.strip().partition("=") for one in text.split(",") if one.strip()]
        if not all(name and address.rpartition(":")[2].isdigit() for name, _, address in pairs):
            raise ValueError(f"set up upstreams: OFFERS_UPSTREAMS={text!r}, expected eta=127.0.0.1:7001,routing=…")
        return cls({name: address for name, _, address in pairs})

    def ask(self, upstream: str, call_id: str, region: str, endpoint: str) -> dict[str, Any]:
        """One call; blocks until it is answered.

        Raises:
            UpstreamFailed: no answer of 200.
        """
        pool = self._pools.get(upstream)
        if pool is None:
            raise UpstreamFailed(
                f"ask {upstream}: OFFERS_UPSTREAMS={list(self._pools)}, expected {upstream} among them"
            )
        path = f"/{upstream}?{urlencode({'id': call_id, 'region': region, 'endpoint': endpoint})}"
        try:
            answer = pool.request("GET", path)
        except urllib3.exceptions.HTTPError as error:
            raise UpstreamFailed(f"ask {upstream}: {error}, expected an answer") from error
        if answer.status != 200:
            raise UpstreamFailed(f"ask {upstream}: status={answer.status}, expected 200")
        found: dict[str, Any] = json.loads(answer.data)
        return found


def _pool(address: str) -> urllib3.HTTPConnectionPool:
    host, _, port = address.rpartition(":")
    # One more try: a kept connection may have been closed meanwhile, and a question changes nothing.
    return urllib3.HTTPConnectionPool(host, int(port), maxsize=_KEPT, timeout=_PATIENCE_S, retries=1)
