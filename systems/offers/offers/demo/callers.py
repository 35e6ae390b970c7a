"""The direct callers of pricingservice beside offerservice: an open loop by the lab's generator, on a thread."""

from __future__ import annotations

import threading

from greenlane_tools.lab.load.generate import Generated, generate
from offers.load import Load

__all__ = ["Callers"]


class Callers:
    """Sends a plan while its starter does something else.

    Args:
        load: what is sent, and when.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._found: Generated | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        """Begin; does not wait."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Blocks until all is answered or given up, at most so long; whether it is.

        Raises:
            HostError: the load could not be sent.
        """
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    @property
    def found(self) -> Generated:
        """What came of it, once `join` has said True."""
        assert self._found is not None, "joined"
        return self._found

    def _send(self) -> None:
        try:
            self._found = generate(self._load.plan, arrivals=self._load.schedule)
        except BaseException as error:
            self._error = error
