"""One executor for a module's tests that do it no harm, and others for those that do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from greenlane.placement.processes.executor import ProcessExecutor
from greenlane.placement.processes.options import ProcessOptions

Make = Callable[..., ProcessExecutor]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes executors with these options (one worker), closed with the test."""
    with contextlib.ExitStack() as open_ones:

        def made(**options: Any) -> ProcessExecutor:
            executor = ProcessExecutor(ProcessOptions(**{"workers": 1, **options}))
            open_ones.callback(executor.close, 0)
            return executor

        yield made


@pytest.fixture(scope="module")
def executor() -> Iterator[ProcessExecutor]:
    """One worker."""
    executor = ProcessExecutor(ProcessOptions(workers=1))
    yield executor
    executor.close(0)
