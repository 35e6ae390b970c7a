"""Takes the calls that the clients' probes write down, and knows when I/O was ready from the real recorder."""

from __future__ import annotations

from typing import NamedTuple

from greenlane._native import Recorder


class Call(NamedTuple):
    from_ns: int
    ready_ns: int
    to_ns: int
    deadline_ns: int
    upstream: str
    operation: str
    outcome: int
    own_ns: int = 0

    @property
    def told(self) -> tuple[str, str, int]:
        return self.upstream, self.operation, self.outcome


class Heard:
    """A sink of `greenlane.probes.calls`."""

    def __init__(self) -> None:
        self.on = True
        self.calls: list[Call] = []
        self.waits: list[tuple[str, int, int]] = []
        self._recorder = Recorder()

    def recording(self) -> bool:
        return self.on

    def io_ready_ns(self) -> int:
        return self._recorder.io_ready_ns()

    def call(self, *fields: int | str) -> None:
        self.calls.append(Call(*fields))  # type: ignore[arg-type]
        self._recorder.call(*fields)  # type: ignore[arg-type]

    def waited(self, kind: str, from_ns: int, to_ns: int) -> None:
        self.waits.append((kind, from_ns, to_ns))

    def told(self) -> list[tuple[str, str, int]]:
        """(upstream, operation, outcome) of all calls so far, and forget them."""
        told = [call.told for call in self.calls]
        self.calls.clear()
        return told
