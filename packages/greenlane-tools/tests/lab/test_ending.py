"""A measuring command's last words, and tables."""

from __future__ import annotations

import errno
import io
import os
import signal

import pytest

from greenlane.errors import PlatformError, SettingsError
from greenlane_tools.lab.columns import columns
from greenlane_tools.lab.ending import exit_code


def ended(error: BaseException) -> tuple[int, str]:
    err = io.StringIO()

    def run() -> int:
        raise error

    return exit_code("try it", run, err, "stopped; all processes ended"), err.getvalue()


def test_what_somebody_can_act_on_is_said_in_two_lines() -> None:
    code, said = ended(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/x"))
    assert (code, said) == (
        1, "try it: path='out/x', expected one that can be used (No space left on device)\nhint: make room there\n",
    )  # fmt: skip
    assert ended(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))[1].startswith("try it: No space left on device\n")
    assert ended(SettingsError("--x", "1", "2", "give 2"))[0] == 2
    assert ended(PlatformError("try it", name="x", hint="get x"))[1].endswith("hint: get x\n")


@pytest.mark.parametrize("error", [ValueError("x"), ConnectionResetError(104, "reset"), TimeoutError(110, "late")])
def test_a_bug_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        ended(error)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_it_with_130(number: signal.Signals) -> None:
    err = io.StringIO()

    def run() -> int:
        signal.raise_signal(number)
        raise AssertionError("it went on")

    assert exit_code("try it", run, err, "stopped") == 130 and err.getvalue() == "\nstopped\n"


def test_words_stand_to_the_left_and_numbers_to_the_right() -> None:
    rows = [{"name": "four", "rate": 12.5}, {"name": "ours", "rate": 226.0}]
    text = columns(rows, (("who", "name"), ("per s", "rate")), lambda _, value: f"{value:>.4}")
    assert text == "who   per s\nfour   12.5\nours  226.0"
