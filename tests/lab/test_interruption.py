"""A signal that comes where exceptions are ignored still ends the run."""

from __future__ import annotations

import os
import signal

import pytest

from greenlane.lab.interruption import checkpoint, ended_by_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_was_swallowed_is_raised_again(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        checkpoint()
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            pass  # as a destructor or a hook around fork does
        checkpoint()
    checkpoint()
    assert signal.getsignal(number) is before
