"""A file that another program has logged requests in, read as it is.

The form is found by what the file begins with; a file that ends in `.gz` is unpacked.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import numpy as np

from greenlane.errors import SettingsError
from greenlane_tools.lab.load.request_log import (
    ATTEMPTED,
    SECOND_NS,
    Lines,
    Logged,
    at_ns_of,
    moment_of,
    refuse,
    route_of,
    spread,
)

if TYPE_CHECKING:
    from apachelogs import LogParser


# --- Access logs of nginx and Apache: common, combined, or by the server's own format string.


_COMMON: Final = '%h %l %u %t "%r" %>s %b'
# nginx' combined is Apache's.
_COMBINED: Final = _COMMON + ' "%{Referer}i" "%{User-Agent}i"'
# The last one is for what has further fields at its end, such as `main` of nginx' own packages.
_KNOWN: Final = (_COMBINED, _COMMON, "%v:%p " + _COMBINED, _COMMON + " %{rest}x")
#: Lines by which the format is chosen. Arbitrary.
_LOOKED_AT: Final = 100
_NGINX: Final = re.compile(r"\$\{?(\w+)\}?")
_NGINX_TIMES: Final = {"msec", "time_iso8601", "time_local"}
_APACHE_TIME: Final = re.compile(r"%[\d,!<>]*(?:\{[^}]*\})?t")
_REQUEST: Final = re.compile(r"([A-Za-z_-]+) (\S.*?)(?: HTTP/[\d.]+)?")

_WHOLE: Final = "its times are whole seconds: the requests of a second are spread evenly over it"
_ENDS: Final = "its times are those of the requests' ends, without $request_time"
_PERHAPS: Final = "nginx logs when a request ends: if it wrote this, use a format with $msec and $request_time"


def read(path: Path, head: str, lines: Lines, log_format: str) -> Logged:
    """The requests of an access log.

    Args:
        path: for messages.
        head: how the log begins.
        lines: all of it.
        log_format: of nginx or Apache; "" = one of those that are common.

    Raises:
        SettingsError: the format cannot be used, or no line is in it.
    """
    parser = _parser(log_format) if log_format else _likeliest(path, head)
    at_ns, durations_ns, routes = [], [], []
    for line in lines:
        try:
            entry = _parsed(parser, line)
            moment_ns, duration_ns = _nginx_ns(entry.env_vars) if "$" in log_format else _apache_ns(entry)
            routes.append(_route(entry))
        except ValueError:
            lines.reject()
        else:
            at_ns.append(moment_ns)
            durations_ns.append(duration_ns)
    if not routes:
        return Logged(np.empty(0, np.int64), [])
    notes = list(lines.remarks())
    moments = np.array(at_ns, np.int64)
    if not (moments % SECOND_NS).any():
        moments = spread(moments)
        notes.append(_WHOLE if log_format else f"{_WHOLE}; {_PERHAPS}")
    if "$" in log_format and None in durations_ns:
        notes.append(_ENDS)
    return Logged(moments - np.array([each or 0 for each in durations_ns], np.int64), routes, tuple(notes))


def _parser(log_format: str) -> LogParser:
    import apachelogs

    variables = _NGINX.findall(log_format)
    if not (set(variables) & _NGINX_TIMES if variables else _APACHE_TIME.search(log_format)):
        raise _unusable(log_format, "a format with a time: $msec, $time_iso8601 or $time_local of nginx, %t of Apache")
    try:
        return apachelogs.LogParser(_NGINX.sub(r"%{\1}e", log_format.replace("%", "%%")) if variables else log_format)
    except ValueError as error:
        raise _unusable(log_format, f"nginx' log_format or Apache's LogFormat ({error})") from None


def _unusable(log_format: str, rule: str) -> SettingsError:
    hint = "copy it from the server's configuration"
    return SettingsError("recorded_format", log_format, rule, hint, attempted=ATTEMPTED)


def _likeliest(path: Path, head: str) -> LogParser:
    """The one of the common formats that most of the first lines are in."""
    lines = head.splitlines()[:_LOOKED_AT]
    parsers = [_parser(one) for one in _KNOWN]
    fits = [sum(_fits(parser, line) for line in lines) for parser in parsers]
    if not any(fits):
        hint = "an access log in another format: set recorded_format to nginx' log_format or Apache's LogFormat"
        raise refuse(path, "no line is one of an access log in a common format", hint)
    return parsers[fits.index(max(fits))]


def _fits(parser: LogParser, line: str) -> bool:
    try:
        _parsed(parser, line)
    except ValueError:
        return False
    return True


def _parsed(parser: LogParser, line: str) -> Any:
    """The line's fields. Both servers escape what is not ASCII, except in nginx' JSON."""
    return parser.parse(line.encode("ascii", "backslashreplace").decode())


def _nginx_ns(variables: Any) -> tuple[int, int | None]:
    """When it ended, and how long it took; None = not logged."""
    if "msec" in variables:
        moment_ns = round(float(variables["msec"]) * 1_000) * 1_000_000
    else:
        moment_ns = at_ns_of(moment_of(variables.get("time_iso8601") or variables.get("time_local") or ""))
    seconds = variables.get("request_time")
    return moment_ns, None if seconds is None else round(float(seconds) * SECOND_NS)


def _apache_ns(entry: Any) -> tuple[int, int | None]:
    """A moment, and how long after the arrival that is: 0, unless it is the request's end."""
    for name in ("begin_request_time", "request_time"):
        if getattr(entry, name, None) is not None:
            return _moment_ns(entry, name), 0
    lasted_us = getattr(entry, "request_duration_microseconds", None)
    if lasted_us is None:
        lasted_us = 1_000 * getattr(entry, "request_duration_milliseconds", 0)
    return _moment_ns(entry, "end_request_time"), lasted_us * 1_000


def _moment_ns(entry: Any, name: str) -> int:
    if (moment := getattr(entry, name, None)) is None:
        raise ValueError("no time")
    fields = getattr(entry, f"{name}_fields")
    if "epoch" in fields:  # apachelogs leaves its fraction out
        moment = moment.replace(microsecond=fields.get("usec_frac", 1_000 * fields.get("msec_frac", 0)))
    return at_ns_of(moment)


def _route(entry: Any) -> str:
    variables = getattr(entry, "env_vars", {})
    line = variables.get("request") or getattr(entry, "request_line", None)
    if line is None:
        method = variables.get("request_method") or getattr(entry, "request_method", None)
        url = variables.get("request_uri") or variables.get("uri") or getattr(entry, "request_uri", None)
        line = f"{method or ''} {url or ''}"
    if (request := _REQUEST.fullmatch(line)) is None:
        raise ValueError("no request")
    return route_of(request[1], request[2])


# --- What clients write of their requests: HAR of browsers and proxies, JSON of k6, the history of locust.


_TOTAL: Final = "Total Request Count"
_AGGREGATED: Final = "Aggregated"
#: How locust's other tables begin.
_NO_REQUESTS: Final = ("Type,Name,Request Count,", "Method,Name,Error,", "Count,Message,Traceback,")
_OF_K6: Final = "http_req_duration"
_EVENLY: Final = "locust logs counts: as many requests as ended between two rows, usually a second, are spread evenly"


def reader(path: Path, head: str) -> Callable[[Lines], Logged] | None:
    """What reads a file that begins so; None = it is none of these.

    Raises:
        SettingsError: it is one that holds no arrivals.
    """
    first = head.partition("\n")[0]
    if head.startswith("{"):
        try:
            keys = json.loads(first)
        except ValueError:
            return lambda lines: _har(path, lines)
        if "metric" in keys:
            return _k6
        if "log" in keys:
            return lambda lines: _har(path, lines)
        raise refuse(path, "lines of JSON", "set recorded_format to the log_format that nginx wrote them with")
    if _TOTAL in first.split(","):
        return _locust
    if first.startswith(_NO_REQUESTS):
        raise refuse(path, "a table of locust without times", "name the one that ends in _stats_history.csv")
    return None


def is_locust(head: bytes) -> bool:
    """Whether a table is one of those that locust writes."""
    first = head.partition(b"\n")[0].decode("utf-8", "replace")
    return _TOTAL in first.split(",") or first.startswith(_NO_REQUESTS)


def _har(path: Path, lines: Lines) -> Logged:
    try:
        entries = json.loads("\n".join(lines))["log"]["entries"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise refuse(path, "JSON, and no whole HAR") from None
    at_ns, routes, hosts = [], [], set()
    for entry in entries:
        try:
            moment_ns = at_ns_of(datetime.fromisoformat(entry["startedDateTime"]))
            route = route_of(entry["request"]["method"], entry["request"]["url"])
        except (ValueError, KeyError, TypeError):
            continue
        at_ns.append(moment_ns)
        routes.append(route)
        hosts.add(urlsplit(entry["request"]["url"]).netloc)
    notes = [f"{len(entries) - len(routes)} of its {len(entries)} entries hold no request and are left out"]
    several = [f"its requests are of {len(hosts)} hosts: recorded_route chooses, such as 'GET https://HOST/*'"]
    return Logged(
        np.array(at_ns, np.int64),
        routes,
        (*(notes if len(routes) < len(entries) else ()), *(several if len(hosts) > 1 else ())),
    )


def _k6(lines: Lines) -> Logged:
    at_ns, routes = [], []
    for line in lines:
        try:
            point = json.loads(line)
            if (point["metric"], point["type"]) != (_OF_K6, "Point"):
                continue
            tags, ended = point["data"]["tags"], datetime.fromisoformat(point["data"]["time"])
            moment_ns = at_ns_of(ended) - round(float(point["data"]["value"]) * 1e6)
            routes.append(route_of(tags["method"], tags["url"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            lines.reject()
        else:
            at_ns.append(moment_ns)
    return Logged(np.array(at_ns, np.int64), routes, lines.remarks())


def _locust(lines: Lines) -> Logged:
    """How many ended between two rows, spread evenly; by name where `--csv-full-history` gives names."""
    counted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    seconds: list[int] = []
    table = csv.DictReader(lines)
    for row in table:
        try:
            second, total = int(row["Timestamp"]), int(row[_TOTAL])
            route = f"{row['Type']} {row['Name']}".strip()
        except (ValueError, TypeError):
            lines.reject()
            continue
        if not seconds or second > seconds[-1]:
            seconds.append(second)
        before = seconds[-2] if len(seconds) > 1 else second - 1
        counted[route] = counted[route] or [(before, 0)]
        counted[route].append((second, total))
    if len(counted) > 1:
        del counted[_AGGREGATED]
    at_ns, routes = [np.empty(0, np.int64)], []
    for route, rows in counted.items():
        for (begin, before), (end, total) in pairwise(rows):
            new = max(0, total - before)
            places = (np.arange(new) + 0.5) / max(new, 1) * (end - begin)
            at_ns.append(begin * SECOND_NS + (places * SECOND_NS).astype(np.int64))
            routes += [route] * new
    return Logged(np.concatenate(at_ns), routes, (_EVENLY, *lines.remarks()))


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
            of_client = None if log_format else reader(path, text)
            found = of_client(lines) if of_client else read(path, text, lines, log_format)
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
