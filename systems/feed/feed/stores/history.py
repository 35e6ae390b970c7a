"""The user-history store, a Redis of its own: what a month of actions says, and the feeds last given."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

import redis

from feed.user import User

# How long a ranked feed can be paged through, s.
KEPT_S: Final = 900
_BATCH: Final = 500


def interests_key(user: int) -> str:
    """Where a user's interests lie: JSON of `User` without the two lists that have keys of their own."""
    return f"interests:{user}"


def seen_key(user: int) -> str:
    """Where the ids lie that a user has seen enough of: JSON."""
    return f"seen:{user}"


def sellers_key(user: int) -> str:
    """Where the sellers lie that a user has contacted: JSON."""
    return f"sellers:{user}"


def feed_key(token: str) -> str:
    """Where a ranked feed lies for paging: its ids as little-endian u32."""
    return f"feed:{token}"


def entries(user: User) -> dict[str, bytes]:
    """What the store keeps of a user."""
    interests = asdict(user)
    seen, sellers = interests.pop("seen"), interests.pop("sellers")
    values = {interests_key: interests, seen_key: seen, sellers_key: sellers}
    return {key(user.user_id): json.dumps(value, separators=(",", ":")).encode() for key, value in values.items()}


def fill(port: int, users: Iterable[User]) -> None:
    """Puts users into the store; who has no history is left out, as in life."""
    with redis.Redis(port=port) as client:
        pipe = client.pipeline(transaction=False)
        for number, user in enumerate(users):
            if user.categories:
                pipe.mset(entries(user))
            if number % _BATCH == _BATCH - 1:
                pipe.execute()
        pipe.execute()
