"""What the ranking model learns from: candidates of users, and what those users would have done with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feed.candidates import MODELS, chosen
from feed.columns import Records
from feed.user import User

from .catalogue import NOW_S
from .utility import utility
from .world import World

# Spread of what users do around what they like: their clicks do not say everything.
_NOISE = 0.8


@dataclass(frozen=True)
class Lesson:
    """One user's candidates in training.

    Args:
        user: who.
        records: the items' packed records, in the order of `ids`.
        ids: the items.
        now_s: when, Unix time.
        label: (n,) float32: how much the user made of each; higher is better.
    """

    user: User
    records: Records
    ids: list[int]
    now_s: int
    label: NDArray[np.float32]


def candidates_of(world: World, user: User) -> list[int]:
    """What all four models and the filter give for a user, without any server: ids, best first."""
    return chosen({model: world.first_level.answer(model, user) for model in MODELS}, user)


def lessons(world: World, users: Iterable[int], most: int = 300) -> Iterator[Lesson]:
    """A lesson for each of these users with at most `most` of the candidates, drawn evenly; the same every time."""
    for number in users:
        user = world.people.user(number)
        candidates = candidates_of(world, user)
        rng = np.random.Generator(np.random.PCG64([world.seed, 3, number]))
        rows = np.sort(rng.permutation(len(candidates))[:most])
        ids = [candidates[row] for row in rows]
        records = world.records_of(ids)
        label = utility(records, user) + rng.gumbel(0, _NOISE, len(ids))
        yield Lesson(user, records, ids, NOW_S, label.astype(np.float32))
