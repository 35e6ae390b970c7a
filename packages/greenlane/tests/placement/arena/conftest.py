"""One executor for a module's tests that do it no harm, and others for those that do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from greenlane.placement.arena.executor import ArenaExecutor
from greenlane.placement.arena.options import ArenaOptions

Make = Callable[..., ArenaExecutor]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes executors with these options (one worker, small arenas), closed with the test."""
    with contextlib.ExitStack() as open_ones:

        def made(**options: Any) -> ArenaExecutor:
            executor = ArenaExecutor(ArenaOptions(**{"workers": 1, "arena_mb": 8, **options}))
            open_ones.callback(executor.close, 0)
            return executor

        yield made


@pytest.fixture(scope="module")
def executor() -> Iterator[ArenaExecutor]:
    """One worker."""
    executor = ArenaExecutor(ArenaOptions(workers=1, arena_mb=8))
    yield executor
    executor.close(0)
