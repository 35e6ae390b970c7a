"""What a program finds in the handles of its callbacks is as good as the callbacks, though the loop runs ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.command import record

SOURCE = """
import asyncio

def first(): pass
def second(): pass

async def main():
    loop = asyncio.get_running_loop()
    for handle in (loop.call_soon(first), loop.call_later(0, first), loop.call_soon_threadsafe(first)):
        found = handle._callback
        assert hasattr(found, "__wrapped__"), "it is ours, or this test shows nothing"
        assert found == first and first == found and found != second and not found != first
        assert hash(found) == hash(first) and found in {first} and first in {found}
        assert found == loop.call_soon(first)._callback != loop.call_soon(second)._callback
        assert repr(found) == repr(first) and found.__name__ == "first"
        try:
            found < first
        except TypeError:
            pass
        else:
            raise AssertionError("functions have no order")

asyncio.run(main())
print("done")
"""


@pytest.mark.slow
def test_the_callback_of_a_handle_is_equal_to_the_programs_own(tmp_path: Path) -> None:
    ended = record(SOURCE, cwd=tmp_path)
    assert "done" in ended.out, ended.err
