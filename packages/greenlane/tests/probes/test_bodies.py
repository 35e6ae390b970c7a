"""A Python function that runs our code is the same object, with the same looks, and gets its own code back."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenlane.probes import bodies


class Base:
    def work(self, first: int, second: int = 2, /, third: int = 3, *more: int, key: int = 4, **named: int) -> Any:
        return first, second, third, more, key, named


class Target(Base):
    def work(self, first: int, second: int = 2, /, third: int = 3, *more: int, key: int = 4, **named: int) -> Any:
        """Has a cell, for `super`."""
        return super().work(first, second, third, *more, key=key, **named)

    async def wait(self, first: int = 1) -> int:
        await asyncio.sleep(0)
        return first

    def optional(self, first: int, second: int = 2) -> tuple[int, int]:
        return first, second


WORK: Any = Target.work
OPTIONAL: Any = Target.optional

Calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


def noting(calls: Calls, name: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls.append((name, args[1:], kwargs))
            return original(*args, **kwargs)

        return wrapper

    return make


@pytest.fixture
def calls() -> Calls:
    return []


def test_every_kind_of_parameter_arrives_as_it_was_given(calls: Calls) -> None:
    make = noting(calls, "ours")
    bodies.wrap(WORK, make)
    try:
        assert Target().work(1) == (1, 2, 3, (), 4, {})
        assert Target().work(1, 5, 6, 7, key=8, other=9) == (1, 5, 6, (7,), 8, {"other": 9})
        with pytest.raises(TypeError, match="work"):
            Target().work()  # type: ignore[call-arg]
    finally:
        assert bodies.unwrap(WORK, make)
    assert len(calls) == 2


def test_what_has_a_default_arrives_by_its_name(calls: Calls) -> None:
    make = noting(calls, "ours")
    bodies.wrap(OPTIONAL, make)
    assert Target().optional(1, 5) == (1, 5)
    assert bodies.unwrap(OPTIONAL, make)
    assert calls == [("ours", (1,), {"second": 5})]


def test_a_function_looks_as_before(calls: Calls) -> None:
    function: Any = Target.wait
    bound, dumped, code = Target().wait, pickle.dumps(function), function.__code__
    seen = inspect.signature(function), inspect.getsource(function), dict(vars(function)), repr(function)
    make = noting(calls, "ours")
    bodies.wrap(function, make)
    try:
        now = inspect.signature(function), inspect.getsource(function), dict(vars(function)), repr(function)
        assert id(Target.wait) == id(function) and now == seen and pickle.dumps(function) == dumped
        assert inspect.iscoroutinefunction(function)
        assert asyncio.run(bound(3)) == 3 and calls, "a method that was bound before is seen, too"
    finally:
        assert bodies.unwrap(function, make)
    assert function.__code__ is code


def test_wrappers_go_in_any_order(calls: Calls) -> None:
    function: Any = Target.optional
    code, first, second = function.__code__, noting(calls, "first"), noting(calls, "second")
    bodies.wrap(function, first)
    bodies.wrap(function, second)
    Target().optional(1)
    assert bodies.unwrap(function, first)
    Target().optional(1)
    assert [name for name, *_ in calls] == ["second", "first", "second"]
    assert bodies.unwrap(function, second)
    assert function.__code__ is code


def test_code_that_somebody_else_has_put_there_stays(calls: Calls) -> None:
    def one() -> int:
        return 1

    target: Any = one

    make: Any = noting(calls, "ours")
    bodies.wrap(target, make)
    theirs = (lambda: 2).__code__
    target.__code__ = theirs
    assert not bodies.unwrap(target, make)
    assert target.__code__ is theirs and target() == 2


def test_generators_and_what_is_written_in_c_are_left_alone() -> None:
    def generates() -> Any:
        yield

    assert [bodies.can_wrap(each) for each in (generates, len, str.join, Target)] == [False] * 4


def test_calls_of_other_threads_meanwhile_all_give_what_they_should(calls: Calls) -> None:
    stop, wrong = threading.Event(), []

    def call() -> None:
        target = Target()
        while not stop.is_set():
            if target.optional(1) != (1, 2):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        make = noting([], "ours")
        bodies.wrap(OPTIONAL, make)
        assert bodies.unwrap(OPTIONAL, make)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
