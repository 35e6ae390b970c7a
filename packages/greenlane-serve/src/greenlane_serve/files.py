"""Calls back when code changes (`greenlane serve --reload`): watchfiles' inotify, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from greenlane.errors import PlatformError

__all__ = ["Watch"]


class Watch:
    """Watches folders until closed.

    Args:
        folders: with everything below; what tools write there (`.git`, `__pycache__`, `.venv` …) does not count.
        changed: called in the watching thread, once for what changes within some 50 ms. Python files and
            `greenlane.toml` count.

    Raises:
        PlatformError: watchfiles is not installed.
    """

    def __init__(self, folders: list[Path], changed: Callable[[], None]) -> None:
        try:
            import watchfiles
        except ImportError:
            raise PlatformError("watch the code", name="watchfiles", value=None, rule="an installed package",
                                hint='pip install "greenlane[serve]"') from None  # fmt: skip
        self._over = threading.Event()
        events = watchfiles.watch(
            *folders, watch_filter=watchfiles.PythonFilter(extra_extensions=("greenlane.toml",)), debounce=1600,
            step=50, stop_event=self._over, rust_timeout=250, yield_on_timeout=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, args=(events, changed), name="greenlane-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; blocks up to 0.25 s."""
        self._over.set()
        self._thread.join()

    def _run(self, events: Iterable[object], changed: Callable[[], None]) -> None:
        for changes in events:
            if changes:
                changed()
