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


DEBUG = """
import asyncio, sys

async def main():
    loop = asyncio.get_running_loop()
    for make in (loop.call_soon, loop.call_soon_threadsafe):
        handle = make(int)
        assert hasattr(handle._callback, "__wrapped__"), "it is ours, or this test shows nothing"
        last = handle._source_traceback[-1]
        assert (last.name, last.lineno) == ("main", sys._getframe().f_lineno - 3), handle._source_traceback
    for make in (loop.call_later, loop.call_at):
        handle = make(0, int)
        last = handle._source_traceback[-1]
        assert (last.name, last.lineno) == ("main", sys._getframe().f_lineno - 2), handle._source_traceback
    task = asyncio.create_task(asyncio.sleep(0))
    names = [frame.name for frame in task._source_traceback]
    assert names[-2:] == ["main", "create_task"], names
    await task

asyncio.run(main(), debug=True)
print("done")
"""


@pytest.mark.slow
def test_a_handle_of_a_loop_in_debug_mode_was_made_where_the_program_made_it(tmp_path: Path) -> None:
    ended = record(DEBUG, cwd=tmp_path)
    assert "done" in ended.out, ended.err
