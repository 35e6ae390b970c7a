# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Notes exit hooks from the start of the interpreter on: Python does not tell of them later."""

import atexit

noted: list[object] = []


def _noting(register=atexit.register):
    def noting(function, *arguments, **named):
        noted.append(function)
        return register(function, *arguments, **named)

    return noting


def _forgetting(unregister=atexit.unregister):
    def forgetting(function):
        noted[:] = [one for one in noted if one != function]
        unregister(function)

    return forgetting


atexit.register = _noting()
atexit.unregister = _forgetting()
