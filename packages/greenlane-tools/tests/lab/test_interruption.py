"""A signal that comes where exceptions are ignored still ends the run."""

from __future__ import annotations

import logging
import os
import signal
import time

import pytest

from greenlane_tools.lab.interruption import checkpoint, ended_by_signals


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


class _Interrupted(logging.Handler):
    """Gets a signal while it holds its lock, and says whether it came to its end."""

    ended = False

    def emit(self, record: logging.LogRecord) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)  # Longer than a wish takes to come again: it meets the lock once more.
        self.ended = True


def test_a_signal_within_logging_waits_until_its_locks_are_given_back() -> None:
    handler = _Interrupted()
    talker = logging.Logger("talker")
    talker.addHandler(handler)
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        talker.warning("so it is")
        time.sleep(5)
    assert handler.ended
    checkpoint()


def test_what_was_put_off_and_raised_by_a_checkpoint_comes_no_second_time() -> None:
    talker = logging.Logger("talker")
    talker.addHandler(_Brief())
    tidied = False
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        try:
            talker.warning("so it is")
            checkpoint()
        finally:
            time.sleep(0.1)
            tidied = True
    assert tidied


class _Brief(logging.Handler):
    """Gets a signal, and is done before its wish can come again."""

    def emit(self, record: logging.LogRecord) -> None:
        os.kill(os.getpid(), signal.SIGINT)
