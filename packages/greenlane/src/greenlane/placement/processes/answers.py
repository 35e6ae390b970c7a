"""What a call's function gave or raised, on its way back."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

from greenlane.errors import PlacementError
from greenlane.placement.processes.parcel import Parcel, pack

__all__ = ["WorkerTraceback", "error_parcel", "raised", "result_parcel", "unreadable"]


class WorkerTraceback(Exception):
    """The cause of what a placed function raised: where it raised it, in the worker, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        """Begin on a line of its own under 'WorkerTraceback:'."""
        return f"\n{self.text}"


def result_parcel(result: object, name: str, most_bytes: int) -> Parcel:
    """Pack a result.

    Raises:
        PlacementError: it cannot be pickled, or is larger than `most_bytes`.
    """
    try:
        parcel = pack(result)
    except Exception as error:
        raise PlacementError(
            "send a result from a worker process", name="function", value=name,
            rule=f"a result that can be pickled, not {type(result).__name__} ({type(error).__name__}: {error})",
            hint="give back plain values, arrays or bytes, or run it on the heavy lane's thread",
        ) from error  # fmt: skip
    parcel.check_size(most_bytes, name)
    return parcel


def error_parcel(error: BaseException) -> Parcel:
    """Pack what a function raised: itself if that can be pickled, in any case its type, words and traceback."""
    text = "".join(traceback.format_exception(error)).rstrip()
    try:
        pickled = pickle.dumps(error, 5)
    except Exception:
        pickled = b""
    return pack((pickled, type(error).__qualname__, _words(error), text))


def raised(sent: tuple[bytes, str, str, str]) -> BaseException:
    """Make the exception again, with the worker's traceback as its cause.

    One that cannot be made again here is a PlacementError that names it.
    """
    pickled, kind, words, text = sent
    error: Any = None
    reason = "its pickling fails"
    if pickled:
        try:
            error = pickle.loads(pickled)
        except BaseException as problem:
            reason = f"{type(problem).__name__}: {problem}"
    if not isinstance(error, BaseException):
        error = PlacementError(
            "carry an exception from a worker process", name=kind, value=words,
            rule=f"an exception that can be pickled ({reason})",
            hint="hand all arguments of its __init__ to super().__init__, or give it a __reduce__",
        )  # fmt: skip
    made: BaseException = error
    made.__cause__ = WorkerTraceback(text)
    return made


def unreadable(attempted: str, name: str, error: BaseException) -> PlacementError:
    """Say that the result of the function `name` came, and cannot be unpickled here."""
    rule = f"one that can be unpickled here ({type(error).__name__}: {error})"
    hint = "give back plain values, arrays or bytes"
    problem = PlacementError(attempted, name="function", value=name, rule=rule, hint=hint)
    problem.__cause__ = error
    return problem


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "<its str fails>"
