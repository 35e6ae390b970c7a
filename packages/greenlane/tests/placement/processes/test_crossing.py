"""What crosses to a worker and back: equal, without copies where that is promised, and never at another's expense."""

from __future__ import annotations

import gc
import zlib
from functools import partial

import numpy as np
import pytest
from tests.placement.processes import functions
from tests.placement.processes.conftest import Make
from tests.placement.processes.running import ended, mappings, run, submitted

from greenlane.errors import PlacementError
from greenlane.placement import Call
from greenlane.placement.processes.executor import ProcessExecutor
from greenlane.placement.processes.parcel import pack

pa = pytest.importorskip("pyarrow")

# Each starts processes.
pytestmark = pytest.mark.slow

MB = 1 << 20


@pytest.mark.parametrize(
    "value",
    [None, 1, "text", [1.5, {"a": (1, 2)}], b"x" * 10, b"x" * 200_000, bytearray(b"y" * 200_000), "z" * 300_000, {}],
    ids=lambda value: f"{type(value).__name__}-{len(value) if hasattr(value, '__len__') else ''}",
)
def test_plain_values_come_back_equal_and_of_their_type(executor: ProcessExecutor, value: object) -> None:
    back = run(executor, functions.same, value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("length", [0, 10, 9_000, 11_000, 500_000, 5_000_000])
def test_arrays_of_any_size_come_back_equal_and_writable(executor: ProcessExecutor, length: int) -> None:
    array = np.arange(length, dtype="f4")
    back = run(executor, functions.same, array)
    np.testing.assert_array_equal(back, array)
    assert back.flags.writeable
    assert run(executor, functions.is_writable, array)


def test_what_is_written_into_an_array_stays_where_it_was_written(executor: ProcessExecutor) -> None:
    for length in (100, 500_000):
        array = np.ones(length, dtype="f4")
        assert run(executor, functions.write_into, array) == 7
        assert array[0] == 1
        back = run(executor, functions.same, array)
        back[0] = 3
        assert run(executor, functions.same, array)[0] == 1


def test_a_fortran_order_and_a_strided_array_come_back_equal(executor: ProcessExecutor) -> None:
    array = np.asfortranarray(np.arange(600_000, dtype="f4").reshape(600, 1000))
    back = run(executor, functions.same, array)
    assert back.flags.f_contiguous
    np.testing.assert_array_equal(back, array)
    np.testing.assert_array_equal(run(executor, functions.same, array[::2, ::3]), array[::2, ::3])


def test_arrow_tables_cross_without_pickling_their_columns(executor: ProcessExecutor) -> None:
    table = pa.table({"a": pa.array(range(200_000), pa.int64()), "b": pa.array(["x", None] * 100_000)})
    call = submitted(executor, functions.column_sum, table)
    total, part = ended(call)
    assert total == sum(range(200_000))
    assert part.to_pydict() == {"a": [1, 2], "b": [None, "x"]}
    assert call.in_band < 5_000
    assert call.out_of_band > 200_000 * 8


def test_a_memoryview_arrives_as_one(executor: ProcessExecutor) -> None:
    text = bytes(range(256)) * 1000
    assert run(executor, functions.checksum, 1, memoryview(text)) == (1, zlib.crc32(text))


def test_many_buffers_in_one_message(executor: ProcessExecutor) -> None:
    arrays = [np.full(20_000, number, dtype="f4") for number in range(60)]
    for one, back in zip(arrays, run(executor, functions.same, arrays), strict=True):
        np.testing.assert_array_equal(one, back)


def test_results_that_are_held_stay_whole_and_never_stop_the_next(make: Make) -> None:
    executor = make()
    held = [run(executor, functions.scaled, np.full(250_000, number, dtype="f4"), 2) for number in range(12)]
    assert [float(one[0]) for one in held] == [2 * number for number in range(12)]
    assert all((one == one[0]).all() for one in held)


def test_a_small_view_of_a_result_keeps_its_block_and_no_more(make: Make) -> None:
    executor = make()
    view = run(executor, functions.arange, 250_000)[:3]
    gc.collect()
    for number in range(20):
        assert run(executor, functions.scaled, np.full(250_000, number, dtype="f4"), 1)[-1] == number
    assert view.tolist() == [0, 1, 2]


def test_an_argument_that_the_worker_keeps_stays_whole(make: Make) -> None:
    executor = make()
    contents = [np.full(250_000, number, dtype="f4") for number in range(8)]
    for number, content in enumerate(contents):
        assert run(executor, functions.keep, content, slice(10, 20)) == number + 1
    expected = [zlib.crc32(content[10:20].tobytes()) for content in contents]
    assert run(executor, functions.kept_checksums) == expected


def test_memory_is_used_again_once_nobody_looks_into_it(make: Make) -> None:
    executor = make()
    for _ in range(3):
        run(executor, functions.same, np.ones(1_500_000, dtype="f4"))
    before = len(mappings())
    for _ in range(30):
        run(executor, functions.same, np.ones(1_500_000, dtype="f4"))
    assert len(mappings()) == before
    run(executor, functions.keep, np.ones(1_500_000, dtype="f4"), slice(10, 20))
    for _ in range(30):
        run(executor, functions.same, np.ones(1_500_000, dtype="f4"))
    assert len(mappings()) == before + 1, "what the worker keeps is not filled again"


def test_a_payload_over_the_limit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(PlacementError, match="at most 1 MB, not 3"):
        pack(np.ones(800_000, dtype="f4")).check_size(MB, "ones")


def test_callables_cross_by_name_bare_of_their_decorators_or_pickled(executor: ProcessExecutor) -> None:
    assert run(executor, functions.bare, 3) == ("wrapped", 3)
    assert run(executor, functions.bare.__wrapped__, 3) == 3  # type: ignore[attr-defined]
    assert run(executor, partial(functions.scaled, factor=3), 2) == 6
    assert run(executor, functions.Thing(7).times, 6) == 42
    assert run(executor, functions.Thing.times, functions.Thing(2), 3) == 6
    assert run(executor, len, "four") == 4


def test_closures_and_lambdas_are_refused_with_a_hint(executor: ProcessExecutor) -> None:
    def closure() -> None:
        raise AssertionError

    for fn in (closure, lambda: 1):
        with pytest.raises(PlacementError, match="not a closure or lambda\nhint: define it at the top of a module"):
            executor.submit(Call(fn))


def test_arguments_and_results_that_cannot_be_pickled_are_named(executor: ProcessExecutor) -> None:
    with pytest.raises(PlacementError, match=r"same.*arguments that can be pickled \(TypeError"):
        executor.submit(Call(functions.same, (functions.give_lock(),)))
    with pytest.raises(PlacementError, match=r"give_lock.*not lock \(TypeError"):
        run(executor, functions.give_lock)
