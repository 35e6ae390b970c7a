"""The error tree: codes, exit codes, one form of message."""

from __future__ import annotations

import pickle

import pytest

from greenlane import errors
from greenlane.errors import (
    ArgumentError,
    ControlError,
    DeadLettersError,
    DeadlineExceeded,
    DiversionError,
    DiversionUnreadable,
    FrontError,
    GreenlaneError,
    HostError,
    OrderWaits,
    Overloaded,
    PlacementError,
    PlanError,
    PlatformError,
    RecordError,
    RecordingError,
    ServeError,
    SettingsError,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    WorkerDied,
)

CODES = {
    GreenlaneError: ("greenlane", 1),
    SettingsError: ("settings", 2),
    ArgumentError: ("argument", 2),
    PlatformError: ("platform", 2),
    HostError: ("host", 2),
    FrontError: ("front", 2),
    ServeError: ("fleet", 1),
    RecordingError: ("recording", 2),
    ControlError: ("control", 1),
    RecordError: ("record", 1),
    PlanError: ("plan", 2),
    PlacementError: ("placement", 2),
    Overloaded: ("overloaded", 1),
    StoreError: ("store", 1),
    StoreUnavailable: ("store-gone", 1),
    StoreRefused: ("store-refused", 2),
    OrderWaits: ("order-waits", 1),
    DeadLettersError: ("dead-letters", 2),
    DiversionError: ("diversion", 2),
    DiversionUnreadable: ("diversion-text", 2),
    WorkerDied: ("worker-died", 1),
    DeadlineExceeded: ("deadline", 1),
}


@pytest.mark.parametrize("kind", CODES)
def test_codes_and_exit_codes_are_as_released(kind: type[GreenlaneError]) -> None:
    assert (kind.code, kind.exit_code) == CODES[kind]


def test_the_tree_at_the_top_of_the_module_names_every_error_with_its_code() -> None:
    defined = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GreenlaneError)]
    assert set(defined) == set(CODES)
    for kind in defined:
        line = next(line for line in (errors.__doc__ or "").splitlines() if kind.__name__ in line)
        assert kind.code in line.split()


def test_a_message_says_what_was_attempted_the_value_the_rule_and_one_hint() -> None:
    error = SettingsError("interval_ms", "fast", "a number", "leave it out", attempted="read x.toml")
    assert str(error) == "read x.toml: interval_ms='fast', expected a number\nhint: leave it out"


def test_a_message_without_a_name_or_hint_is_what_was_attempted() -> None:
    assert str(ControlError("ask a process")) == "ask a process"


def test_a_long_value_does_not_bury_the_rule() -> None:
    message = str(SettingsError("x", "v" * 10_000, "less", "cut it"))
    assert len(message) < 400
    assert "(10002 characters), expected less\nhint: cut it" in message


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("amqp://me:secret@host//", "'amqp://me:***@host//'"),
        ("redis://:sec/r@et@host/0 ", "'redis://:***@host/0 '"),
        ("Postgresql://me@host/x?password=secret&a=1", "'Postgresql://me@host/x?password=***&a=1'"),
        ("postgresql://host/x?sslpassword=secret", "'postgresql://host/x?sslpassword=***'"),
        ({"store": "redis://me:secret@host"}, "{'store': 'redis://me:***@host'}"),
        ("redis://host:6379/0", "'redis://host:6379/0'"),
    ],
)
def test_a_message_has_no_password_of_a_url(value: object, shown: str) -> None:
    assert f"task_store={shown}, expected" in str(SettingsError("task_store", value, "a URL"))


def test_a_value_whose_repr_fails_does_not_hide_the_message() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "x=<Rude whose repr fails>, expected y" in str(SettingsError("x", Rude(), "y"))


def test_deadline_exceeded_is_met_by_code_that_meets_time_outs() -> None:
    with pytest.raises(TimeoutError, match="past its deadline"):
        raise DeadlineExceeded


@pytest.mark.parametrize(
    "error",
    [
        SettingsError("a", 1, "r", "h", attempted="load"),
        DeadlineExceeded(),
        WorkerDied("run f", pid=4711, code=-9, last_line="half way"),
        HostError("start", name="worker", value="gevent", rule="threads", hint="use threads"),
    ],
)
def test_errors_cross_processes_whole(error: GreenlaneError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert (str(twin), twin.__dict__) == (str(error), error.__dict__)
