"""What is packed is unpacked: equal, of its type, and memory is not pickled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from greenlane.errors import PlacementError
from greenlane.placement.processes.parcel import Parcel, pack, pack_call, unpack

LARGE = b"x" * (64 << 10)


class Matrix(np.ndarray[Any, Any]):
    """An array of a type of its own."""


def arrived(parcel: Parcel) -> tuple[bytes, list[bytes]]:
    """A parcel as the other side gets it."""
    return parcel.pickle, [bytes(buffer) for buffer in parcel.buffers]


ARRAYS = {
    "numbers": np.arange(7, dtype="f4"),
    "two dimensions": np.arange(12, dtype="i8").reshape(3, 4),
    "Fortran's order": np.asfortranarray(np.arange(12, dtype="u2").reshape(3, 4)),
    "a column": np.arange(12).reshape(3, 4)[:, 1],
    "no dimension": np.array(2.5),
    "one row of many": np.ones((1, 5, 1)),
    "empty": np.empty((0, 3), dtype="f8"),
    "truths": np.array([True, False]),
    "complex": np.array([1j, 2]),
    "another order of bytes": np.arange(3, dtype=">i4"),
    "text": np.array(["one", "three"]),
    "times": np.array(["2026-01-02"], dtype="M8[D]"),
    "records": np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    "objects": np.array([None, {}], dtype=object),
    "a type of its own": np.arange(3).view(Matrix),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_an_array_arrives_equal_and_in_its_form(array: Any) -> None:
    function, (back,), named = unpack(*arrived(pack_call("f", (array,), {"k": array}, "f")))
    assert function == "f"
    for one in (back, named["k"], unpack(*arrived(pack(array))), unpack(*arrived(pack((array, 1))))[0]):
        assert type(one) is type(array)
        assert (one.dtype, one.shape) == (array.dtype, array.shape)
        assert one.flags.f_contiguous or not array.flags.f_contiguous
        assert one.tolist() == array.tolist()


@pytest.mark.parametrize(
    "value", [LARGE, bytearray(LARGE), b"small", bytearray(b"small"), memoryview(b"any")], ids=type
)
def test_bytes_arrive_as_what_they_are(value: Any) -> None:
    for back in (
        unpack(*arrived(pack_call("f", (1, value), {}, "f")))[1][1],
        unpack(*arrived(pack_call("f", (), {"k": value}, "f")))[2]["k"],
        unpack(*arrived(pack(value))),
        unpack(*arrived(pack((1, value))))[1],
    ):
        assert type(back) is type(value)
        assert bytes(back) == bytes(value)


@pytest.mark.parametrize("result", [None, (), (None,), (1, (2, 3)), [], [(1,)]])
def test_plain_results_stay_what_they_are(result: Any) -> None:
    assert unpack(*arrived(pack(result))) == result


def test_an_array_costs_some_bytes_of_pickle_and_its_memory_none() -> None:
    call = pack_call("module:function:0", (np.zeros((1000, 60), dtype="f4"),), {}, "function")
    assert len(call.pickle) < 250
    assert call.out_of_band_bytes == 240_000
    assert not call.names_main
    assert pack_call("__main__:function:0", (), {}, "function").names_main


@pytest.mark.parametrize(
    "view", [memoryview(b"12345678").cast("d"), memoryview(b"1234").cast("B", (2, 2)), memoryview(b"1234")[::2]]
)
def test_a_memoryview_that_would_lose_its_form_is_refused(view: Any) -> None:
    with pytest.raises(PlacementError, match=r"cannot pickle .?memoryview"):
        pack_call(len, (view,), {}, "len")
