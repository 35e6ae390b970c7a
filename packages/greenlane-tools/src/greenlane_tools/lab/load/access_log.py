"""Access logs of nginx and Apache: common, combined, or by the server's own format string.

A format of nginx is read as one of Apache's, each variable as a text. nginx logs a request when it ends: its arrival is
`$request_time` before that. Apache's `%t` is the arrival itself.

Cost: about 60 us a line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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

__all__ = ["read"]

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
