"""What a setting's text may look like: a regular expression that it must match as a whole, and the rule in words."""

from __future__ import annotations

from typing import Final

from greenlane.setting import Pattern

__all__ = [
    "ADDRESS",
    "ADDRESS_OR_OFF",
    "ANY_DIRECTORY",
    "ANY_FILE",
    "ANY_URL",
    "AUTO",
    "CALLABLE",
    "CLUSTER",
    "GLOB",
    "HEADER",
    "HEADER_OR_NONE",
    "LANE_NAME",
    "LOG",
    "MAYBE_HEADER",
    "PEER",
    "PLACEMENT",
    "SOME_DIRECTORY",
    "TASK_ALLOW",
    "TASK_KEY",
    "TASK_RULE",
    "URL_PATH",
]

ANY_FILE: Final[Pattern] = (r"[^\0]*", "a file path, or '' for none")
ANY_DIRECTORY: Final[Pattern] = (r"[^\0]*", "a directory, or '' for off")
SOME_DIRECTORY: Final[Pattern] = (r"[^\0]+", "a directory")
URL_PATH: Final[Pattern] = (r"(/[^\s?#]*)?", "a path that starts with '/' and has no query, or '' for off")
HEADER: Final[Pattern] = (r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "an HTTP header name")
MAYBE_HEADER: Final[Pattern] = (r"[A-Za-z0-9-]*", "an HTTP header name of A-Z a-z 0-9 -, or '' for none")
PLACEMENT: Final[Pattern] = ("auto|inline|thread|process|cluster", "one of auto, inline, thread, process, cluster")
AUTO: Final[Pattern] = ("inline|thread|process", "one of inline, thread, process")
CLUSTER: Final[Pattern] = (r"(auto|local|[^\s/:]+:[0-9]{1,5})?", "host:port, auto, local, or '' for none")
CALLABLE: Final[Pattern] = (r"([A-Za-z_][\w.]*:[A-Za-z_][\w.]*)?", "module:function, or '' for none")
ADDRESS: Final[Pattern] = (r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s/:]*):[0-9]{1,5}|[./][^\s]*", "host:port or a path")
PEER: Final[Pattern] = (r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?|unix", "an address, a network such as 10.0.0.0/8, or unix")
LOG: Final[Pattern] = (r"(stdout|stderr|/[^\s]+|[^\s/:]+:[0-9]{1,5})?", "stdout, stderr, host:port, a path, or ''")
HEADER_OR_NONE: Final[Pattern] = (r"[A-Za-z0-9-]*", "a header name of letters, digits and dashes, or '' for none")
ANY_URL: Final[Pattern] = (r"([a-z][a-z0-9+]*://[^\0\s]*)?", "a URL, or '' for none")
ADDRESS_OR_OFF: Final[Pattern] = (r"(.+:[0-9]{1,5})?", "host:port, or '' for off")
#: Where an order's key is read; `tasks.keys` reads it.
TASK_KEY: Final[Pattern] = (
    r"(|kwargs(\.[^.\s:]+)+|args\.[0-9]+(\.[^.\s:]+)*|header\.[^\s:]+|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)",
    "kwargs.NAME, args.NUMBER, header.NAME, module:function, or '' for none",
)
_TASK_RULE_WORD: Final = r"((limit|least):[0-9]{1,4}|weight:[1-9][0-9]{0,3}|most_frac:(1|0?\.[0-9]{1,6}))"
TASK_RULE: Final[Pattern] = (
    rf"{_TASK_RULE_WORD}( {_TASK_RULE_WORD})*",
    "one or more of limit:N least:N weight:N most_frac:0.N, with spaces",
)
TASK_ALLOW: Final[Pattern] = (
    "early-ack|no-confirms|transient|broker",
    "one of early-ack, no-confirms, transient, broker",
)
LANE_NAME: Final[Pattern] = (r"[A-Za-z0-9_.-]{1,64}", "1 to 64 of the characters A-Z a-z 0-9 _ . -")
GLOB: Final[Pattern] = (r"[^\0\s](.*[^\0\s])?", "a glob on a route or path, such as '/quote*' or 'GET /bikes/*'")
