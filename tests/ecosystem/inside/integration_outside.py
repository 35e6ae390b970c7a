"""A plugin for Celery's integration suite: its worker is another process, which the runner has started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from celery.contrib.testing import worker


@contextlib.contextmanager
def _started(app: Any, **_options: object) -> Iterator[None]:
    app.finalize()
    yield


worker.start_worker = _started
