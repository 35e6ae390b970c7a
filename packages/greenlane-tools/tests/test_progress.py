"""The bar on stderr: when it is shown, and what stays of it where stderr is no terminal."""

from __future__ import annotations

import io

from greenlane.cli.output import Output
from greenlane.cli.progress import Bar


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _said(err: io.StringIO, *calls: tuple[float, float, str]) -> str:
    """What is written where the bar is called at these seconds with these parts and stages, and ended."""
    at_s = [0.0]
    bar = Bar(Output(io.StringIO(), err), "planning", lambda: at_s[0])
    for now_s, part, stage in calls:
        at_s[0] = now_s
        bar(part, stage)
    bar.end()
    return err.getvalue()


def test_off_a_terminal_a_long_stage_says_its_quarters_and_a_short_one_nothing() -> None:
    calls = [(1, 0.1, "trying"), (3, 0.5, "trying"), (4, 0.6, "trying"), (5, 0.75, "trying"), (6, 1.0, "looking")]
    assert _said(io.StringIO(), *calls) == "trying: 50%, 2 s left\ntrying: 75%, 1 s left\n"


def test_without_stages_the_quarters_are_of_the_whole() -> None:
    assert _said(io.StringIO(), (1, 0.2, ""), (4, 0.5, "")) == "planning: 50%, 4 s left\n"


def test_on_a_terminal_each_stage_is_drawn_once_it_takes_long_and_removed() -> None:
    text = _said(_Terminal(), (1, 0.5, "trying"), (2.5, 0.9, "trying"), (3, 0.5, "looking at the best at length"))
    assert "trying [" in text and "50%" in text and text.endswith("\r\x1b[K")
    assert text.count("\r\x1b[K") == 3
    assert max(map(len, text.split("\r\x1b[K"))) < 80
