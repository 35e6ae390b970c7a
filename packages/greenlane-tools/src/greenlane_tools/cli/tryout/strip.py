"""Riders who ask for one route, ten a second, and a strip that shows as it comes whether each is answered in time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from typing import Final

from greenlane.cli.output import Output
from greenlane_tools.lab.ending import checkpoint

__all__ = ["Strip", "ride"]

_EVERY_S: Final = 0.1
_PATIENCE_S: Final = 5.0
_YES, _NO, _OPEN = "|", "x", "."


class Strip:
    """One line, written over itself; where nobody looks on, written once at its end."""

    def __init__(self, output: Output, name: str) -> None:
        self._output, self._name = output, name
        self._live = output.err.isatty()
        #: In time, too late, not known yet: by rider.
        self.answers: list[bool | None] = []

    def draw(self, *, last: bool = False) -> None:
        """Show what is known; `last`: it stays."""
        if not (self._live or last):
            return
        known = [answer for answer in self.answers if answer is not None]
        share = f"{100 * sum(known) / len(known):4.0f} %" if known else ""
        room = max(8, shutil.get_terminal_size().columns - len(self._name) - 10)
        marks = "".join(self._painted(answer) for answer in self.answers[-room:])
        blank = " " * (room - len(self.answers[-room:]))
        back, end = "\r\x1b[K" if self._live else "", "\n" if last else ""
        self._output.err.write(f"{back}{self._name} {marks}{blank} {share}{end}")
        self._output.err.flush()

    def _painted(self, answer: bool | None) -> str:
        mark = _OPEN if answer is None else _YES if answer else _NO
        if not self._live or answer is None or os.environ.get("NO_COLOR"):
            return mark
        return f"\x1b[{32 if answer else 31}m{mark}\x1b[0m"


async def ride(strip: Strip, address: str, path: str, deadline_ms: float, seconds: float) -> None:
    """Ask for `path` ten times a second, and draw."""
    loop = asyncio.get_running_loop()
    began, riders = loop.time(), set[asyncio.Task[None]]()
    for number in range(int(seconds / _EVERY_S)):
        await asyncio.sleep(max(0.0, began + number * _EVERY_S - loop.time()))
        checkpoint()
        strip.answers.append(None)
        riders.add(loop.create_task(_rider(strip, number, address, path, deadline_ms)))
        strip.draw()
    await asyncio.gather(*riders)
    strip.draw(last=True)


async def _rider(strip: Strip, number: int, address: str, path: str, deadline_ms: float) -> None:
    loop = asyncio.get_running_loop()
    began, is_well = loop.time(), False
    with contextlib.suppress(OSError, TimeoutError):
        is_well = await asyncio.wait_for(_ask(address, path), _PATIENCE_S)
    strip.answers[number] = is_well and (loop.time() - began) * 1000 <= deadline_ms


async def _ask(address: str, path: str) -> bool:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with contextlib.closing(writer):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        return (await reader.read(-1))[9:10] in (b"2", b"3")
