"""A gunicorn configuration that counts calls of sys.setswitchinterval: read before any worker class is imported."""

import sys

_set = sys.setswitchinterval
sys.setswitchinterval_calls = []  # type: ignore[attr-defined]


def _counting(seconds: float) -> None:
    sys.setswitchinterval_calls.append(seconds)  # type: ignore[attr-defined]
    _set(seconds)


sys.setswitchinterval = _counting
