"""The pricing service, unchanged, that notes how fast its core was: what each `burn` took of its thread's CPU clock.

`METERED_FILE` gets rows of three int64 (when it ended by the monotonic clock, CPU ns, iterations), zeros behind them.
They are written to mapped memory: nothing blocks, and the GIL is not given away. About 1 us a burn.
"""

import itertools
import mmap
import os
import struct
import time

import pricing
from pricing import app

__all__ = ["app"]

_ROW = struct.Struct("=qqq")
_ROWS = 400_000

_file = os.open(f"{os.environ['METERED_FILE']}.{os.getpid()}", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.ftruncate(_file, _ROW.size * _ROWS)
_rows = mmap.mmap(_file, _ROW.size * _ROWS)
os.close(_file)
_next = itertools.count().__next__
_burn = pricing.burn


def _metered(iterations: int) -> int:
    began_ns = time.thread_time_ns()
    found = _burn(iterations)
    took_ns = time.thread_time_ns() - began_ns
    if (number := _next()) < _ROWS:
        _ROW.pack_into(_rows, number * _ROW.size, time.monotonic_ns(), took_ns, iterations)
    return found


pricing.burn = _metered
