"""`@greenlane.placed`: where calls run that somebody has said it of, and what a decorated function still is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import greenlane
from greenlane.errors import PlacementError, SettingsError
from greenlane.lanes.permits import make_permits
from greenlane.placement import Placement
from greenlane.placement.functions import PlacedFunction
from greenlane.policy.placed import workers_of
from greenlane.settings import Settings, load
from greenlane.wiring.executors import RemoteExecutors
from tests.where import IMPORT_PATH


def where() -> tuple[int, int]:
    return os.getpid(), threading.get_native_id()


class Pinned:
    """A placement of its own with worker processes."""

    def __init__(self, **settings: Any) -> None:
        given = Settings(process_workers=1, **settings)
        self.permits = make_permits(given, mode=given.mode)
        self.executors = RemoteExecutors(given)
        self.placement = Placement(given, lambda: self.permits, self.executors)

    def __call__(self, placement: str = "auto", name: str = "", fn: Any = where) -> Any:
        return self.placement.run_placed(PlacedFunction(fn, placement, name), (), {})

    def close(self) -> None:
        self.placement.lane.close(2)
        self.executors.close(2)


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Pinned] = []

    def new(**settings: Any) -> Pinned:
        made.append(Pinned(**settings))
        return made[-1]

    yield new
    for each in made:
        each.close()


def test_an_argument_says_where(make: Any) -> None:
    run = make()
    process, thread = where()
    assert run("inline") == (process, thread)
    assert run("thread")[0] == process
    assert run("thread")[1] != thread
    assert run("process")[0] != process
    counted = run.placement.counters()
    assert (counted["placed_inline"], counted["placed_thread"], counted["placed_process"]) == (1, 2, 1)


def test_it_gives_an_awaitable_on_a_loop(make: Any) -> None:
    run = make()

    async def main() -> list[int]:
        return [(await run(placement))[0] for placement in ("inline", "thread", "process")]

    inline, thread, process = asyncio.run(main())
    assert inline == thread == os.getpid() != process


@pytest.mark.parametrize(
    ("settings", "argument", "expected"),
    [
        ({"placement": "inline"}, "auto", "inline"),
        ({"placement": "inline"}, "thread", "thread"),
        ({"placements": {"tests.placement.*.where": "inline"}}, "thread", "inline"),
        ({"placements": {"tests.*": "auto"}, "placement": "inline"}, "inline", "auto"),
        ({"placements": {"Tests.*": "inline"}}, "process", "process"),
        ({"placements": {"mine": "inline"}}, "auto", "auto"),
    ],
)
def test_the_table_is_stronger_than_the_argument_and_that_than_the_default(
    settings: dict[str, Any], argument: str, expected: str
) -> None:
    given = Settings(**settings)
    assert PlacedFunction(where, argument).pin(given.placement, given.placements) == expected


def test_a_name_of_its_own_is_what_the_table_names() -> None:
    assert PlacedFunction(where, name="mine").pin("auto", {"mine": "process"}) == "process"


def test_the_table_is_read_from_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "greenlane.toml"
    file.write_text('placement = "thread"\n[placements]\n"pricing.*" = "process"\nquote = "inline"\n')
    assert load(environ={}, file=file).placements == {"pricing.*": "process", "quote": "inline"}
    environ = {"GREENLANE_PLACEMENTS": "pricing.*=thread, quote=auto", "GREENLANE_CONFIG": ""}
    assert load(environ=environ).placements == {"pricing.*": "thread", "quote": "auto"}
    for wrong in ("=process", "quote=inline,quote=thread", "pricing.quote", "pricing.quote=proces"):
        with pytest.raises(SettingsError):
            load(environ={"GREENLANE_PLACEMENTS": wrong, "GREENLANE_CONFIG": ""})


def test_marks_hold_above_and_below_the_decorator(make: Any) -> None:
    run = make()
    run.placement._default = "thread"
    for marked in (greenlane.light(greenlane.placed(where)), greenlane.placed(greenlane.light(where_marked))):
        function = PlacedFunction(marked.__wrapped__)
        function.wrapper = marked
        assert function.mark == "light"
        assert function.pin("auto", {}) == "inline"
    del where_marked.__greenlane_weight__  # type: ignore[attr-defined]


def where_marked() -> tuple[int, int]:
    return where()


def test_off_puts_what_is_pinned_elsewhere_on_the_thread(make: Any) -> None:
    run = make(mode="off")
    assert run("process")[0] == os.getpid()
    assert run("inline") == where()
    run.permits.set_mode("on")
    assert run("process")[0] != os.getpid()


def test_a_placed_function_calls_one_that_is_pinned_to_a_process(make: Any) -> None:
    run = make()
    assert run("thread", fn=lambda: run("process")[0]) != os.getpid()
    assert run("inline", fn=lambda: run("process")[0]) != os.getpid()
    assert run("thread", fn=lambda: run("thread")) == run("thread")


def test_there_is_no_placement_of_that_name(make: Any) -> None:
    with pytest.raises(PlacementError, match="one of process"):
        make().executors("nowhere")


@pytest.mark.parametrize("wrong", [3, "name", None])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(PlacementError):
        greenlane.placed(placement="thread")(wrong)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"fn": "process"}, r"write @greenlane\.placed\(placement='process'\)"),
        ({"fn": classmethod(len)}, "put @classmethod above it"),
        ({"fn": len, "name": 3}, "name=3, expected a text"),
    ],
    ids=["text", "classmethod", "name"],
)
def test_a_decorator_used_wrongly_says_how(wrong: dict[str, Any], hint: str) -> None:
    with pytest.raises(PlacementError, match=hint):
        PlacedFunction(**wrong)


def test_an_async_function_is_refused_where_it_is_decorated() -> None:
    async def view() -> None: ...

    with pytest.raises(PlacementError, match="async"):
        greenlane.placed(view)


def test_a_wrong_placement_is_refused_with_the_nearest() -> None:
    with pytest.raises(PlacementError, match="did you mean 'process'"):
        greenlane.placed(placement="proces")(where)  # type: ignore[call-overload]


def test_the_plain_function_is_there() -> None:
    decorated = greenlane.placed(where)
    assert decorated.__wrapped__ is where  # type: ignore[attr-defined]
    assert decorated.__name__ == "where"


PROGRAM = """
import os
import greenlane

class Model:
    def __init__(self, factor):
        self.factor = factor

    @greenlane.placed(placement="process")
    def scaled(self, number):
        return os.getpid(), self.factor * number, inner(number)

@greenlane.placed(placement="thread")
def inner(number):
    return os.getpid(), number

if __name__ == "__main__":
    pid, scaled, (inner_pid, number) = Model(3).scaled(2)
    assert (scaled, number) == (6, 2)
    assert pid == inner_pid != os.getpid()
    child = os.fork()
    if child == 0:
        again, _, _ = Model(3).scaled(2)
        os._exit(0 if again not in (pid, os.getpid()) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert Model(3).scaled(2)[0] == pid
    print("well")
"""


@pytest.mark.slow
def test_methods_nested_calls_forks_and_the_main_module(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environ = {**os.environ, "PYTHONPATH": IMPORT_PATH, "GREENLANE_PROCESS_WORKERS": "1"}
    done = subprocess.run([sys.executable, program], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("well\n", "", 0)


def test_worker_processes_leave_a_core_to_the_loop_where_there_are_more_than_two() -> None:
    assert [workers_of(Settings(), cores) for cores in (1, 2, 3, 4, 64)] == [1, 2, 2, 3, 63]
