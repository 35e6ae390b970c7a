"""What has begun is ended, however the start or the block ends."""

from __future__ import annotations

import pytest

from greenlane_tools.lab.processes import Block


class Parts(Block):
    """Two parts, the second of which may not come up."""

    def __init__(self, *, comes_up: bool = True) -> None:
        self.running: list[str] = []
        self.ended = 0
        self._comes_up = comes_up

    def begin(self) -> None:
        """Begin."""
        self.running.append("first")
        if not self._comes_up:
            raise OSError("no second")
        self.running.append("second")

    def end(self) -> None:
        """End."""
        self.running.clear()
        self.ended += 1


def test_a_block_ends_what_it_has_begun() -> None:
    with Parts() as parts:
        assert parts.running == ["first", "second"]
    assert not parts.running and parts.ended == 1


def test_a_start_that_fails_ends_what_had_begun() -> None:
    parts = Parts(comes_up=False)
    with pytest.raises(OSError, match="no second"), parts:
        pass
    assert not parts.running and parts.ended == 1


def test_what_is_raised_in_the_block_goes_on_when_all_has_ended() -> None:
    parts = Parts()
    with pytest.raises(ValueError, match="inside"), parts:
        raise ValueError("inside")
    assert not parts.running
