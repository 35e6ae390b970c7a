"""The probes in place, with a listener; both gone after the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from greenlane import phase, probes
from tests.probes.observer import Observer


@pytest.fixture
def seen() -> Iterator[Observer]:
    """All probes installed and this thread's events recorded."""
    observer = Observer()
    probes.install()
    phase.subscribe(observer)
    phase.provide(observer)
    try:
        yield observer
    finally:
        phase.provide(None)
        phase.unsubscribe(observer)
        probes.uninstall()
    assert observer.depth == 0
