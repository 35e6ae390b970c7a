"""What a setting's text may look like: a regular expression that it must match as a whole, and the rule in words."""

from __future__ import annotations

from typing import Final

from greenlane.settings.setting import Pattern

ANY_FILE: Final[Pattern] = (r"[^\0]*", "a file path, or '' for none")
ANY_DIRECTORY: Final[Pattern] = (r"[^\0]*", "a directory, or '' for off")
URL_PATH: Final[Pattern] = (r"(/[^\s?#]*)?", "a path that starts with '/' and has no query, or '' for off")
HEADER: Final[Pattern] = (r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "an HTTP header name")
PLACEMENT: Final[Pattern] = ("auto|inline|thread|process|cluster", "one of auto, inline, thread, process, cluster")
CLUSTER: Final[Pattern] = (r"(auto|local|[^\s/:]+:[0-9]{1,5})?", "host:port, auto, local, or '' for none")
CALLABLE: Final[Pattern] = (r"([A-Za-z_][\w.]*:[A-Za-z_][\w.]*)?", "module:function, or '' for none")
LANE_NAME: Final[Pattern] = (r"[A-Za-z0-9_.-]{1,64}", "1 to 64 of the characters A-Z a-z 0-9 _ . -")
GLOB: Final[Pattern] = (r"[^\0\s](.*[^\0\s])?", "a glob on a route or path, such as '/quote*' or 'GET /bikes/*'")
