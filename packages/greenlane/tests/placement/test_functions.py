"""What is refused before it runs, with which hint; and what functions are called."""

from __future__ import annotations

import functools
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from greenlane.errors import PlacementError
from greenlane.placement.functions import name_of, refuse_result, refuse_unplaceable


class Model:
    def predict(self) -> int:
        return 1

    async def fetch(self) -> None:
        """Nothing."""

    def __call__(self) -> int:
        return 2


class AsyncModel:
    async def __call__(self) -> None:
        """Nothing."""


def rows() -> Iterator[int]:
    yield 1


async def async_rows() -> AsyncIterator[int]:
    yield 1


async def fetch() -> None:
    """Nothing."""


@pytest.mark.parametrize("fn", [Model().predict, Model(), Model, zlib.compress, print, functools.partial(int, "7")])
def test_anything_whose_call_is_the_work_can_be_placed(fn: Any) -> None:
    refuse_unplaceable(fn)


@pytest.mark.parametrize("result", [12.5, None, [1], "text"])
def test_the_result_of_a_call_is_refused_with_the_way_to_write_it(result: object) -> None:
    with pytest.raises(PlacementError, match=r"hint: write run\(fn, x\) for run\(fn\(x\)\)"):
        refuse_unplaceable(result)


@pytest.mark.parametrize(
    "fn", [fetch, Model().fetch, AsyncModel(), functools.partial(functools.partial(fetch)), rows, async_rows]
)
def test_functions_that_give_something_to_be_driven_are_refused(fn: Any) -> None:
    with pytest.raises(PlacementError, match="hint: "):
        refuse_unplaceable(fn)


def test_a_coroutine_is_refused_and_closed() -> None:
    with pytest.raises(PlacementError, match="await it"):
        refuse_unplaceable(fetch())  # Warnings are errors: it must not be "never awaited".


@pytest.mark.parametrize("make", [fetch, rows])
def test_a_result_that_has_yet_to_be_driven_is_refused(make: Any) -> None:
    with pytest.raises(PlacementError, match="give what comes out"):
        refuse_result(make(), "run x")


def test_a_misuse_is_also_a_type_error() -> None:
    assert issubclass(PlacementError, TypeError)


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (rows, "rows"),
        (Model().predict, "Model.predict"),
        (Model(), "Model"),
        (functools.partial(rows), "rows"),
    ],
)
def test_a_function_is_called_by_its_qualified_name(fn: Any, name: str) -> None:
    assert name_of(fn) == f"run {__name__}.{name}"


def test_builtins_have_names_too() -> None:
    assert name_of(zlib.compress) == "run zlib.compress"
    assert name_of([].append) == "run builtins.list.append"
