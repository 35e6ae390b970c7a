"""A measuring command's last words, and tables."""

from __future__ import annotations

import errno
import io
import logging
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from greenlane.errors import PlatformError, SettingsError
from greenlane_tools.lab.arguments import Values, number, one_of, options, path, some_of, switch, whole, words
from greenlane_tools.lab.demo import cell, chosen, columns, finite, percentiles, shares
from greenlane_tools.lab.ending import checkpoint, ended_by_signals, exit_code

# --- What demos share: options as fields, row fields, cells of tables, numbers that JSON knows.


VALUES = Values("try", "try again")


@dataclass(frozen=True)
class Options:
    """Of each kind one."""

    per_s: float = number(1.5, 1, 9, "orders, 5 % more")
    seconds: float | None = number(None, 1, 9, "as long as it says")
    repetitions: int = whole(2, 1, 9, "runs")
    kind: str = one_of(("plain", "odd"), "kind")
    names: tuple[str, ...] = some_of(("a", "b", "c"), ("c",), "names")
    seed: str = words("1", "seed")
    fresh: bool = switch("again")
    out: Path = path("out/x", "folder")
    aside: int = 7


def parsed(*argv: str) -> Options:
    found = options(Options, VALUES, "try", "Tries.", argv, [("--beside", "other")])
    assert not isinstance(found, str)
    return Options(**found[0])


def test_what_nobody_says_is_the_default() -> None:
    assert parsed() == Options(1.5, None, 2, "plain", ("c",), "1", False, Path("out/x"), 7)


def test_each_field_is_read_by_its_rule_and_names_stand_in_their_order() -> None:
    argv = ["--per-s", "2", "--seconds", "3", "--repetitions", "4", "--kind", "odd", "--names", "b,a", "--seed", "x",
            "--fresh", "--out", "y", "--beside", "z"]  # fmt: skip
    assert parsed(*argv) == Options(2.0, 3.0, 4, "odd", ("a", "b"), "x", True, Path("y"))
    with pytest.raises(SettingsError, match="--per-s='10', expected a number from 1 to 9"):
        parsed("--per-s", "10")
    with pytest.raises(SettingsError, match="options that exist"):
        parsed("--aside", "8")


def test_help_names_defaults() -> None:
    text = options(Options, VALUES, "try", "Tries.", ["--help"])
    assert isinstance(text, str) and "orders, 5 % more (1.5)" in text and "--beside" not in text
    assert chosen(Options())["out"] == "out/x"


def test_an_order_that_never_came_is_later_than_all_that_did() -> None:
    assert percentiles([1.0, 2.0, 3.0], 4) == {"p50_ms": 2.0, "p95_ms": None, "p99_ms": None}
    assert percentiles([], 0) == {"p50_ms": None, "p95_ms": None, "p99_ms": None}
    assert percentiles([1.0] * 10_000)["p999_ms"] == 1.0


def test_a_share_has_its_interval_and_none_of_none() -> None:
    found = shares("done", 7, 8)
    assert found["done_frac"] == 7 / 8 and found["done_low_frac"] < 7 / 8 < found["done_high_frac"]
    assert shares("done", 0, 0) == {"done_frac": None, "done_low_frac": None, "done_high_frac": None}


def test_a_cell_reads_as_its_name_says() -> None:
    cells = {"done_frac": 0.5, "p95_ms": 1200.0, "poll_p50_ms": 3.0, "p95_done_ms": 2.0, "pss_mb": 61.04, "done": 1234}
    assert [cell(name, value) for name, value in cells.items()] == ["50 %", "1.2 s", "3 ms", "2 ms", "61", "1,234"]
    assert (cell("p50_ms", None), cell("contender", "go")) == ("-", "go")


def test_json_knows_neither_infinity_nor_nan() -> None:
    assert finite({"a": [math.inf, 1.0, {"b": math.nan}], "c": "word", "d": (1, None)}) == {
        "a": [None, 1.0, {"b": None}], "c": "word", "d": [1, None],
    }  # fmt: skip


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


# --- A signal that comes where exceptions are ignored still ends the run.


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
