"""Functions that tests place in worker processes."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import greenlane
from greenlane.placement import Call
from greenlane.placement.processes.executor import ProcessExecutor

WARM: list[str] = []
KEPT: list[Any] = []


def echo(*args: object) -> tuple[object, ...]:
    return args


def same(value: object) -> object:
    return value


def pid() -> int:
    return os.getpid()


def checksum(number: int, content: Any) -> tuple[int, int]:
    """What a result is told by."""
    return number, zlib.crc32(content)


def scaled(array: Any, factor: float) -> Any:
    return array * factor


def is_writable(array: Any) -> bool:
    return bool(array.flags.writeable)


def write_into(array: Any) -> float:
    array[0] = 7
    return float(array[0])


def fork_a_reader(array: Any, go: Path, told: Path) -> None:
    """Leave a child that tells an element when it is let go."""
    if os.fork() == 0:
        until = time.monotonic() + 30
        while not go.exists() and time.monotonic() < until:
            time.sleep(0.002)
        told.with_suffix(".new").write_text(str(int(array[1000])))
        told.with_suffix(".new").rename(told)
        os._exit(0)


def keep(array: Any, part: slice) -> int:
    """Keep a view beyond the call."""
    KEPT.append(array[part])
    return len(KEPT)


def kept_checksums() -> list[int]:
    return [zlib.crc32(bytes(one)) for one in KEPT]


def drop_kept() -> None:
    KEPT.clear()
    gc.collect()


def arange(length: int) -> Any:
    import numpy

    return numpy.arange(length, dtype="f4")


def column_sum(table: Any) -> tuple[int, Any]:
    import pyarrow.compute

    return pyarrow.compute.sum(table["a"]).as_py(), table.slice(1, 2)


def warm_up() -> None:
    WARM.append("warm")


def import_numpy() -> None:
    import numpy  # noqa: F401


def cold_start() -> None:
    raise LookupError("no model")


def warmth() -> list[str]:
    return WARM


def die(number: int) -> None:
    sys.stderr.write("something before\nlast line of the worker\n")
    os.kill(os.getpid(), number)
    time.sleep(10)


def leave(status: int) -> None:
    os._exit(status)


def leave_a_child(path: Path) -> None:
    """End while a forked child, which has all descriptors, lives on."""
    child = os.fork()
    if not child:
        signal.pause()
    path.write_text(str(child))
    os._exit(3)


def abort() -> None:
    os.abort()


def spin_until_told(begun: Path, met: Path) -> None:
    """Compute until a checkpoint raises; write down what."""
    begun.touch()
    until = time.monotonic() + 20
    try:
        while time.monotonic() < until:
            greenlane.checkpoint()
    except BaseException as error:
        met.write_text(type(error).__name__)
        raise


def spin_deaf(begun: Path, seconds: float = 20) -> None:
    """Compute without a checkpoint."""
    begun.touch()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Awkward(Exception):
    """An exception that pickles and cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def raise_awkward() -> None:
    raise Awkward("one ", "two")


def raise_lock() -> None:
    raise ValueError(threading.Lock())


def give_lock() -> object:
    return threading.Lock()


def nest() -> None:
    ProcessExecutor().submit(Call(pid))


def ignored_signals() -> list[int]:
    return [int(one) for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN]


def open_descriptors() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}").split(":")[0])
    return found


def decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return ("wrapped", fn(*args))

    return wrapper


@decorated
def bare(value: int) -> int:
    return value


class Thing:
    def __init__(self, value: int) -> None:
        self.value = value

    def times(self, factor: int) -> int:
        return self.value * factor


def told_and_echoed(number: int, content: Any) -> tuple[tuple[int, int], Any]:
    """Give both back; some take a while, asking whether anybody still waits."""
    until = time.monotonic() + number % 40 / 1000 if number % 10 == 0 else 0
    while time.monotonic() < until:
        greenlane.checkpoint()
    return checksum(number, content), content


def spin_forever() -> None:
    while True:
        pass


def filled(length: int, value: float) -> Any:
    import numpy

    return numpy.full(length, value, dtype="f4")


def told_deaf(number: int, content: Any) -> tuple[tuple[int, int], Any]:
    """Go on for a second without a checkpoint."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        pass
    return told_and_echoed(number, content)
