"""The probes in place, with a listener; both gone after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.probes.heard import Heard
from tests.probes.observer import Observer

from greenlane import phase, probes
from greenlane._native import Recorder
from greenlane.probes.calls import clients


@pytest.fixture
def seen() -> Iterator[Observer]:
    """All probes installed and this thread's events recorded."""
    observer = Observer()
    probes.install()
    phase.subscribe(observer)
    phase.offer(observer)
    try:
        yield observer
    finally:
        phase.withdraw(observer)
        phase.unsubscribe(observer)
        probes.uninstall()
    assert observer.depth == 0


@pytest.fixture
def heard() -> Iterator[Heard]:
    """The spans of all clients installed, and what they write down."""
    listener = Heard()
    clients.install(listener)
    try:
        yield listener
    finally:
        clients.uninstall()
    assert clients.absent() == ()


@pytest.fixture
def timed(heard: Heard, tmp_path: Path) -> Iterator[Heard]:
    """Likewise, with the real recorder behind it that hears this thread's phases: calls know when they were ready."""
    recorder = Recorder()
    recorder.start(tmp_path, max_bytes=1 << 24, about="{}")
    probes.install()
    phase.subscribe(recorder)
    try:
        yield heard
    finally:
        phase.unsubscribe(recorder)
        probes.uninstall()
        recorder.stop()
