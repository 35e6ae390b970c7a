"""Shares in Redis, for producers on many machines: a key a flow, and one for each producer's last word."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from greenlane.errors import DiversionError, DiversionUnreadable
from greenlane_work.diversion.share import KEEP_S, Change, NotAShare, Share, Sighting, decoded, encoded
from greenlane_work.drivers import redis_client, redis_for, without_password

__all__ = ["RedisKeys"]

_TIMEOUT_S: Final = 1.0


class RedisKeys:
    """A `SharePlace` in a Redis."""

    def __init__(self, url: str, prefix: str = "greenlane:diversion:") -> None:
        """Nothing is opened yet. Raises SettingsError where redis-py is not installed, or cannot read the URL."""
        self._redis = redis_for("diversion", url)
        self.url = without_password(url)
        self._connect_url = url
        self._prefix = prefix
        self._opened: Any = None

    def read(self, flow: str) -> Share:
        """Give a flow's share; see `SharePlace`. Cost: one round trip."""
        with self._client("read the diversion") as client:
            text = client.get(self._prefix + flow)
        return self._share(flow, text)

    def change(self, flow: str, change: Change) -> Share:
        """Replace a flow's share; see `SharePlace`."""

        def exchange(pipeline: Any) -> Share:
            try:
                before = self._share(flow, pipeline.get(self._prefix + flow))
            except DiversionUnreadable:
                before = Share(flow)
            share = change(before)
            pipeline.multi()
            pipeline.set(self._prefix + flow, encoded(share))
            return share

        with self._client("set the diversion") as client:
            share: Share = client.transaction(exchange, self._prefix + flow, value_from_callable=True)
        return share

    def say(self, flow: str, sighting: Sighting) -> None:
        """Keep a producer's word; see `SharePlace`."""
        with self._client("say what was seen of the diversion") as client:
            client.set(f"{self._prefix}{flow}:seen:{sighting.producer}", sighting.text(), px=int(KEEP_S * 1000))

    def sightings(self, flow: str) -> list[Sighting]:
        """Give the producers' last words; see `SharePlace`."""
        with self._client("read which processes have seen the diversion") as client:
            keys = list(client.scan_iter(match=f"{self._prefix}{flow}:seen:*", count=1000))
            texts = client.mget(keys) if keys else []
        found = [sighting for text in texts if text and (sighting := Sighting.of(text)) is not None]
        return sorted(found, key=lambda sighting: sighting.producer)

    def _share(self, flow: str, text: bytes | None) -> Share:
        if text is None:
            return Share(flow)
        try:
            return decoded(text, flow)
        except NotAShare as error:
            rule, hint = f"a share ({error})", "set it again: it is then written afresh"
            key = self._prefix + flow
            raise DiversionUnreadable("read the diversion", name="key", value=key, rule=rule, hint=hint) from None

    @contextlib.contextmanager
    def _client(self, attempted: str) -> Iterator[Any]:
        try:
            if self._opened is None:
                self._opened = redis_client(self._connect_url, _TIMEOUT_S)
            yield self._opened
        except self._redis.RedisError as error:
            opened, self._opened = self._opened, None
            if opened is not None:
                with contextlib.suppress(Exception):
                    opened.close()
            rule = f"a Redis that serves ({' '.join(str(error).split())})"
            hint = "see whether it runs, and look at user and password"
            raise DiversionError(attempted, name="diversion", value=self.url, rule=rule, hint=hint) from error
