"""What the switches are measured on: the candidates of one user, as one request has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from feed.candidates import MODELS
from feed.record import Item, pack, to_json
from feed.user import User
from feed.world.catalogue import FIRST_ID
from feed.world.lessons import candidates_of
from feed.world.world import World


@dataclass(frozen=True)
class Payload:
    """One request's items in the forms in which they are stored and sent.

    Args:
        world: that they are from.
        user_id: whose candidates.
        most: this many of them.
    """

    world: World
    user_id: int = 3
    most: int = 3_000

    @cached_property
    def user(self) -> User:
        """Whose."""
        return self.world.people.user(self.user_id)

    @cached_property
    def ids(self) -> list[int]:
        """Of the items, best first."""
        return candidates_of(self.world, self.user)[: self.most]

    @cached_property
    def items(self) -> list[Item]:
        """As Python sees them."""
        return [self.world.catalogue.item(item_id - FIRST_ID) for item_id in self.ids]

    @cached_property
    def json(self) -> list[bytes]:
        """A value each, about 1 kB."""
        return [to_json(item) for item in self.items]

    @cached_property
    def packed(self) -> list[bytes]:
        """A record each, 182 bytes."""
        return [pack(item) for item in self.items]

    @cached_property
    def named(self) -> dict[str, tuple[list[int], list[float]]]:
        """What each first-level model answers."""
        return {model: self.world.first_level.answer(model, self.user) for model in MODELS}
