"""A world: seed and size give items, users, first-level models; kept in a folder for the processes that share it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from feed.columns import DTYPE, Records
from feed.record import OFFSETS, VERSION

from .catalogue import FIRST_ID, Catalogue, drawn
from .first_level import FirstLevel
from .people import People

SEED: Final = 1
ITEMS: Final = 120_000
# To be raised with any change of what a seed gives: kept worlds of another edition are made again.
_EDITION: Final = 1


@dataclass(frozen=True)
class World:
    """Everything that is made up.

    Args:
        seed: gives another world each.
        catalogue: its items.
    """

    seed: int
    catalogue: Catalogue

    @cached_property
    def people(self) -> People:
        """Its users."""
        return People(self.seed, self.catalogue)

    @cached_property
    def first_level(self) -> FirstLevel:
        """What its first-level models answer."""
        return FirstLevel(self.catalogue)

    def records_of(self, ids: list[int]) -> Records:
        """The records of these items, in this order."""
        return self.catalogue.records[np.array(ids, np.intp) - FIRST_ID]


def made(seed: int = SEED, items: int = ITEMS) -> World:
    """The world of a seed, made in memory: about 5 us an item."""
    return World(seed, drawn(seed, items))


def kept(folder: Path, seed: int = SEED, items: int = ITEMS) -> World:
    """The world of a seed from `folder`, made there first if need be; its records are mapped, once for all."""
    path = folder / name(seed, items)
    if not path.exists():
        _keep(made(seed, items), path)
    with np.load(path / "arrays.npz") as arrays:
        small = {key: arrays[key] for key in ("popularity", "centres", "places")}
    return World(seed, Catalogue(np.memmap(path / "records.bin", DTYPE, "r"), **small))


def name(seed: int, items: int) -> str:
    """What a kept world's folder is called: another for everything that changes its contents."""
    return f"world-{seed}-{items}-r{VERSION}.{max(OFFSETS.values())}-e{_EDITION}"


def _keep(world: World, path: Path) -> None:
    """Written aside and renamed: two makers do no harm, the first one's stays."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.mkdir(parents=True)
    catalogue = world.catalogue
    catalogue.records.tofile(aside / "records.bin")
    np.savez(aside / "arrays.npz", popularity=catalogue.popularity, centres=catalogue.centres, places=catalogue.places)
    try:
        aside.rename(path)
    except OSError:
        for file in aside.iterdir():
            file.unlink()
        aside.rmdir()
