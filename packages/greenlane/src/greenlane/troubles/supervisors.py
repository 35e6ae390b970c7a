"""A process that only starts and watches those that serve: it must not answer for them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Final

from greenlane.troubles.stacks import is_at, outward
from greenlane.troubles.thread_pools import Standing
from greenlane.troubles.trouble import Trouble

__all__ = ["supervisor"]

#: Whose workers import the application, and nothing else of the main module.
_SUPERVISORS: Final = ("uvicorn/supervisors/multiprocess.py", "uvicorn/supervisors/basereload.py")


def supervisor(threads: Iterable[Standing]) -> Iterator[Trouble]:
    """The finding, if uvicorn's supervisor runs on the main thread. It counts while no worker answers itself."""
    main = next((each for each in threads if each.thread is threading.main_thread()), None)
    if main is not None and any(is_at(frame, "run", _SUPERVISORS) for frame in outward(main.frame)):
        text = "only uvicorn's supervisor answers: call greenlane.health in the module that its workers import"
        yield Trouble("supervisor", text, counts_now=True)
