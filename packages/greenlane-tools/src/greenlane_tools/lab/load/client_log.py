"""What clients write of their requests: HAR of browsers and proxies, JSON of k6, the history of locust.

k6 writes a request when it has ended, with its duration; HAR has the start. locust writes no single request: its
history has how many there were, row by row.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np

from greenlane_tools.lab.load.request_log import SECOND_NS, Lines, Logged, at_ns_of, refuse, route_of

__all__ = ["is_locust", "reader"]

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
