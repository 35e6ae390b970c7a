"""A file that another program has logged requests in, read as it is.

The form is found by what the file begins with; a file that ends in `.gz` is unpacked.
"""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Final

from greenlane.errors import SettingsError
from greenlane_tools.lab.load import access_log, client_log
from greenlane_tools.lab.load.request_log import ATTEMPTED, Lines, Logged, refuse

__all__ = ["logged"]

_HEAD_BYTES: Final = 1 << 16


def logged(path: Path, log_format: str = "") -> Logged:
    """The requests of a file.

    Args:
        path: of a text file.
        log_format: nginx' `log_format` or Apache's `LogFormat` of an access log; "" = it is looked for.

    Raises:
        SettingsError: it cannot be read, is of no form that is known, or holds no request.
    """
    try:
        with _opened(path) as stream:
            head = _head(stream)
        if b"\0" in head:
            raise refuse(path, "it is binary")
        text = head.decode("utf-8", "backslashreplace").lstrip("\ufeff \t\r\n")
        if not text:
            raise refuse(path, "it is empty")
        with _opened(path) as stream:
            lines = Lines(line.decode("utf-8", "backslashreplace").lstrip("\ufeff") for line in stream)
            read = None if log_format else client_log.reader(path, text)
            found = read(lines) if read else access_log.read(path, text, lines, log_format)
    except (OSError, EOFError, zlib.error) as error:
        raise refuse(path, str(error)) from None
    if not found.routes and log_format:
        rule = f"a format that a line of {path.name} is in, with a request"
        raise SettingsError("recorded_format", log_format, rule, "compare it with the first line", attempted=ATTEMPTED)
    if not found.routes:
        raise refuse(path, "it holds no request")
    return found


def _head(stream: gzip.GzipFile | io.BufferedReader) -> bytes:
    """The first 64 KiB, or what there is before packed data breaks off."""
    found = b""
    try:
        while len(found) < _HEAD_BYTES and (piece := stream.read1(_HEAD_BYTES)):
            found += piece
    except (EOFError, zlib.error):
        if not found:
            raise
    return found


def _opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
