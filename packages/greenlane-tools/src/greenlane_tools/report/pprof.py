"""A pprof profile, for `go tool pprof`, Pyroscope, Polar Signals: jobs' own CPU, and what others waited for culprits.

Format: <https://github.com/google/pprof/blob/main/proto/profile.proto>, gzipped. Written by hand: six small messages of
numbers, and no library of protobuf's is worth a dependency for them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from typing import BinaryIO, Final

from greenlane_tools.reader.rows import Own, Stack
from greenlane_tools.report.culprits import frames, stacks_of

__all__ = ["write_pprof"]

_VARINT, _BYTES = 0, 2
#: Fields of `Profile`.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _TIME_NS, _DURATION_NS = 1, 2, 4, 5, 6, 9, 10
#: Each sample has both values. Readers show the last one by default.
_KINDS: Final = (("cpu", "nanoseconds"), ("waited", "nanoseconds"))


def write_pprof(stacks: Iterable[Stack], own: Iterable[Own], at_unix_ns: int, duration_ns: int, out: BinaryIO) -> None:
    """Write what others waited for, and jobs' own CPU, by stack; the culprit or the job's route is the outermost frame.

    Args:
        at_unix_ns: when the recording began; 0 = unknown.
        duration_ns: of the recording.
    """
    profile = _Profile()
    for stack, ns in stacks_of(Stack(row.route, row.stack, row.cpu_ns) for row in own):
        profile.add(stack.split(";"), cpu_ns=ns)
    for stack, ns in stacks_of(stacks):
        profile.add(stack.split(";"), waited_ns=ns)
    out.write(gzip.compress(profile.bytes(at_unix_ns, duration_ns), mtime=0))


class _Profile:
    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        #: A function by name and file, a location by function and line: numbers from 1.
        self._functions: dict[tuple[int, int], int] = {}
        self._locations: dict[tuple[int, int], int] = {}
        self._samples: dict[tuple[int, ...], tuple[int, int]] = {}

    def add(self, texts: list[str], *, cpu_ns: int = 0, waited_ns: int = 0) -> None:
        if cpu_ns + waited_ns <= 0:
            return
        # The innermost frame comes first.
        stack = tuple(self._location(text) for text in reversed(texts))
        cpu, waited = self._samples.get(stack, (0, 0))
        self._samples[stack] = cpu + cpu_ns, waited + waited_ns

    def bytes(self, at_unix_ns: int, duration_ns: int) -> bytes:
        parts = [
            _message(_SAMPLE_TYPE, _number(1, self._string(kind)) + _number(2, self._string(unit)))
            for kind, unit in _KINDS
        ]
        for stack, values in self._samples.items():
            parts.append(_message(_SAMPLE, _packed(1, stack) + _packed(2, values)))
        for (function, line), number in self._locations.items():
            at = _number(1, function) + _number(2, line)
            parts.append(_message(_LOCATION, _number(1, number) + _message(4, at)))
        for (name, file), number in self._functions.items():
            said = _number(1, number) + _number(2, name) + _number(3, name) + _number(4, file)
            parts.append(_message(_FUNCTION, said))
        parts += [_message(_STRING, text.encode("utf-8", "backslashreplace")) for text in self._strings]
        parts += [_number(_TIME_NS, at_unix_ns), _number(_DURATION_NS, duration_ns)]
        return b"".join(parts)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _location(self, text: str) -> int:
        found = frames(text)
        name, file, line = (found[0].function, found[0].file, found[0].line) if found else (text, "", 0)
        key = (self._string(name), self._string(file))
        function = self._functions.setdefault(key, len(self._functions) + 1)
        return self._locations.setdefault((function, line), len(self._locations) + 1)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(number)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _packed(field: int, numbers: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, numbers)))
