"""Room of a segment: given out once, and all of it there again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from greenlane.lanes.arena.blocks import ALIGNMENT_BYTES, Blocks, aligned

SIZE = 64 * 40


class ByteMap:
    """The obvious slow twin: a flag a cache line."""

    def __init__(self) -> None:
        self.lines = [False] * (SIZE // ALIGNMENT_BYTES)
        self.taken: dict[int, int] = {}

    def take(self, length: int) -> int | None:
        lines = aligned(length) // ALIGNMENT_BYTES
        for first in range(len(self.lines) - lines + 1):
            if not any(self.lines[first : first + lines]):
                self.lines[first : first + lines] = [True] * lines
                self.taken[first * ALIGNMENT_BYTES] = lines
                return first * ALIGNMENT_BYTES
        return None

    def give_back(self, offset: int) -> None:
        first = offset // ALIGNMENT_BYTES
        lines = self.taken.pop(offset)
        self.lines[first : first + lines] = [False] * lines


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(0, 700), st.floats(0, 1, exclude_max=True)), max_size=80))
def test_it_gives_what_the_slow_twin_gives(steps: list[int | float]) -> None:
    """An integer takes so many bytes, a fraction gives back that one of the taken."""
    ours, twin = Blocks(SIZE), ByteMap()
    for step in steps:
        if isinstance(step, int):
            assert ours.take(step) == twin.take(step)
        elif twin.taken:
            offset = sorted(twin.taken)[int(step * len(twin.taken))]
            ours.give_back(offset)
            twin.give_back(offset)
        assert ours.taken_bytes == sum(twin.taken.values()) * ALIGNMENT_BYTES


def test_all_is_one_hole_again_when_all_is_given_back() -> None:
    blocks = Blocks(SIZE)
    offsets = [blocks.take(100) for _ in range(20)]
    assert blocks.take(1) is None
    for offset in offsets[::2] + offsets[1::2]:
        assert offset is not None
        blocks.give_back(offset)
    assert blocks.take(SIZE) == 0
