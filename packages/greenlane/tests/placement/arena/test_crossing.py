"""What crosses to a worker and back: equal, without copies where that is promised, and never at another's expense."""

from __future__ import annotations

import gc
import zlib
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.placement.arena import functions
from tests.placement.arena.conftest import Make
from tests.placement.arena.running import run

from greenlane.errors import PlacementError
from greenlane.placement import Call
from greenlane.placement.arena.executor import ArenaExecutor
from greenlane.placement.arena.parcel import SMALL_BYTES

pa = pytest.importorskip("pyarrow")

# Each starts processes.
pytestmark = pytest.mark.slow

MB = 1 << 20


def root(array: Any) -> str:
    """The type of what an array's memory belongs to."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return type(array).__name__


@pytest.mark.parametrize(
    "value",
    [None, 1, "text", [1.5, {"a": (1, 2)}], b"x" * 10, b"x" * 200_000, bytearray(b"y" * 200_000), "z" * 300_000, {}],
    ids=lambda value: f"{type(value).__name__}-{len(value) if hasattr(value, '__len__') else ''}",
)
def test_plain_values_come_back_equal_and_of_their_type(executor: ArenaExecutor, value: object) -> None:
    back = run(executor, functions.same, value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("length", [0, 10, SMALL_BYTES // 4 - 1, SMALL_BYTES // 4, 500_000, 5_000_000])
def test_arrays_of_any_size_come_back_equal_and_read_only(executor: ArenaExecutor, length: int) -> None:
    array = np.arange(length, dtype="f4")
    back = run(executor, functions.same, array)
    np.testing.assert_array_equal(back, array)
    assert not back.flags.writeable or not length
    assert not run(executor, functions.is_writable, array) or not length


def test_a_large_result_lies_in_the_arena_and_a_small_one_in_memory_of_its_own(executor: ArenaExecutor) -> None:
    assert root(run(executor, functions.arange, 500_000)) == "Block"
    assert root(run(executor, functions.arange, 100)) == "bytes"


def test_writable_arrays_are_an_option_and_the_callers_own_is_untouched(make: Make) -> None:
    executor = make(writable=True)
    for length in (100, 500_000):
        array = np.ones(length, dtype="f4")
        assert run(executor, functions.write_into, array) == 7
        assert array[0] == 1
        back = run(executor, functions.same, array)
        back[0] = 3
        assert back[0] == 3


def test_writing_into_an_argument_that_is_read_only_is_an_error_of_the_call(executor: ArenaExecutor) -> None:
    with pytest.raises(ValueError, match="read-only"):
        run(executor, functions.write_into, np.ones(500_000, dtype="f4"))


def test_a_fortran_order_and_a_strided_array_come_back_equal(executor: ArenaExecutor) -> None:
    array = np.asfortranarray(np.arange(600_000, dtype="f4").reshape(600, 1000))
    back = run(executor, functions.same, array)
    assert back.flags.f_contiguous
    np.testing.assert_array_equal(back, array)
    np.testing.assert_array_equal(run(executor, functions.same, array[::2, ::3]), array[::2, ::3])


def test_arrow_tables_cross_without_pickling_their_columns(executor: ArenaExecutor) -> None:
    table = pa.table({"a": pa.array(range(200_000), pa.int64()), "b": pa.array(["x", None] * 100_000)})
    before = executor.stats()
    total, part = run(executor, functions.column_sum, table)
    after = executor.stats()
    assert total == sum(range(200_000))
    assert part.to_pydict() == {"a": [1, 2], "b": [None, "x"]}
    assert after.in_band_bytes - before.in_band_bytes < 5_000
    assert after.out_of_band_bytes - before.out_of_band_bytes > 200_000 * 8


def test_a_memoryview_arrives_as_one(executor: ArenaExecutor) -> None:
    text = bytes(range(256)) * 1000
    assert run(executor, functions.checksum, 1, memoryview(text)) == (1, zlib.crc32(text))


def test_many_buffers_in_one_message(executor: ArenaExecutor) -> None:
    arrays = [np.full(20_000, number, dtype="f4") for number in range(60)]
    for one, back in zip(arrays, run(executor, functions.same, arrays), strict=True):
        np.testing.assert_array_equal(one, back)


def test_what_finds_no_room_takes_the_slow_way(make: Make) -> None:
    executor = make(arena_mb=1)
    array = np.arange(1_000_000, dtype="f4")
    held = [run(executor, functions.scaled, array, number) for number in range(4)]
    assert executor.stats().overflows == 8
    for number, one in enumerate(held):
        np.testing.assert_array_equal(one, array * number)


def test_results_that_are_held_stay_whole_and_never_stop_the_next(make: Make) -> None:
    executor = make(arena_mb=4)
    held = [run(executor, functions.scaled, np.full(250_000, number, dtype="f4"), 2) for number in range(12)]
    assert [float(one[0]) for one in held] == [2 * number for number in range(12)]
    assert all((one == one[0]).all() for one in held)


def test_a_small_view_of_a_result_keeps_its_block_and_no_more(make: Make) -> None:
    executor = make(arena_mb=4)
    view = run(executor, functions.arange, 250_000)[:3]
    gc.collect()
    for number in range(20):
        assert run(executor, functions.scaled, np.full(250_000, number, dtype="f4"), 1)[-1] == number
    assert view.tolist() == [0, 1, 2]


def test_an_argument_that_the_worker_keeps_stays_whole(make: Make) -> None:
    executor = make(arena_mb=4)
    contents = [np.full(250_000, number, dtype="f4") for number in range(8)]
    for number, content in enumerate(contents):
        assert run(executor, functions.keep, content, slice(10, 20)) == number + 1
    expected = [zlib.crc32(content[10:20].tobytes()) for content in contents]
    assert run(executor, functions.kept_checksums) == expected
    run(executor, functions.drop_kept)
    run(executor, functions.same, contents[0])
    assert executor.stats().lent_bytes <= 2 * MB


def test_blocks_are_free_again_after_each_call(executor: ArenaExecutor) -> None:
    before = executor.stats().overflows
    for _ in range(30):
        run(executor, functions.same, np.ones(1_500_000, dtype="f4"))
    assert executor.stats().overflows == before


def test_a_payload_over_the_limit_is_refused_before_it_is_sent(make: Make) -> None:
    executor = make(payload_max_mb=1)
    with pytest.raises(PlacementError, match="at most 1 MB, not 3"):
        executor.submit(Call(functions.same, (np.ones(800_000, dtype="f4"),)))
    with pytest.raises(PlacementError, match="at most 1 MB, not 3"):
        run(executor, functions.arange, 800_000)


def test_callables_cross_by_name_bare_of_their_decorators_or_pickled(executor: ArenaExecutor) -> None:
    assert run(executor, functions.bare, 3) == ("wrapped", 3)
    assert run(executor, functions.bare.__wrapped__, 3) == 3  # type: ignore[attr-defined]
    assert run(executor, partial(functions.scaled, factor=3), 2) == 6
    assert run(executor, functions.Thing(7).times, 6) == 42
    assert run(executor, functions.Thing.times, functions.Thing(2), 3) == 6
    assert run(executor, len, "four") == 4


def test_closures_and_lambdas_are_refused_with_a_hint(executor: ArenaExecutor) -> None:
    def closure() -> None:
        raise AssertionError

    for fn in (closure, lambda: 1):
        with pytest.raises(PlacementError, match="not a closure or lambda\nhint: define it at the top of a module"):
            executor.submit(Call(fn))


def test_arguments_and_results_that_cannot_be_pickled_are_named(executor: ArenaExecutor) -> None:
    with pytest.raises(PlacementError, match=r"same.*arguments that can be pickled \(TypeError"):
        executor.submit(Call(functions.same, (functions.give_lock(),)))
    with pytest.raises(PlacementError, match=r"give_lock.*not lock \(TypeError"):
        run(executor, functions.give_lock)


def test_an_array_that_was_made_in_shared_memory_is_seen_where_it_lies(executor: ArenaExecutor) -> None:
    array = executor.empty((1000, 60), "f4")
    array[...] = 3
    before = executor.stats()
    address, is_writable = run(executor, functions.place_of, array)
    assert not is_writable
    array[...] = 4
    assert run(executor, functions.read_at, address) == 4.0, "the worker's array is ours"
    assert run(executor, functions.scaled, array[10:900], 2)[5, 7] == 8
    assert executor.stats().lent_bytes <= before.lent_bytes, "nothing was copied into the arena"


def test_shared_room_comes_back_when_nobody_looks_any_more(make: Make) -> None:
    executor = make(shared_mb=4)
    for number in range(30):
        array = executor.empty(500_000, "f4")
        assert root(array) == "Block"
        array[...] = number
        assert run(executor, functions.scaled, array, 1)[-1] == number
        del array


def test_what_a_worker_keeps_of_a_shared_array_stays_whole(make: Make) -> None:
    executor = make(shared_mb=4)
    array = executor.empty(700_000, "f4")
    array[...] = 7
    assert run(executor, functions.keep, array, slice(10, 20)) == 1
    del array
    gc.collect()
    other = executor.empty(700_000, "f4")
    assert root(other) == "ndarray", "no room: an ordinary array"
    other[...] = 8
    assert run(executor, functions.scaled, other, 1)[0] == 8
    assert run(executor, functions.kept_checksums) == [zlib.crc32(np.full(10, 7, dtype="f4").tobytes())]
    run(executor, functions.drop_kept)
    assert root(executor.empty(700_000, "f4")) == "Block"


def test_shared_arrays_outlive_their_executor_and_are_ordinary_where_they_must(make: Make) -> None:
    executor = make()
    array = executor.empty(100_000)
    array[...] = 1
    assert run(executor, functions.scaled, array, 2).sum() == 200_000
    executor.close(5)
    assert array.sum() == 100_000
    assert root(make().empty(10)) == root(make(writable=True).empty(100_000)) == "ndarray"
