"""What Greenlane's workers tell of themselves: each has a socket in the site's folder, a line of JSON each way."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Final

#: The folder of the sockets, below the site's: `<pid>.sock`. A socket's path may have 107 bytes: names are short.
FOLDER: Final = "ctl"
_ANSWER_S: Final = 1.0
_MOST: Final = 4 << 20


def look(path: Path) -> dict[str, Any] | None:
    """One worker's orders: slots, running, parked, and `keys`, a row each; None when nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_ANSWER_S)
            asking.connect(str(path))
            asking.sendall(b'{"do": "show"}\n')
            said = b""
            while not said.endswith(b"\n") and len(said) < _MOST and (new := asking.recv(1 << 16)):
                said += new
        tasks: dict[str, Any] | None = json.loads(said).get("tasks")
    except (OSError, ValueError):
        return None
    return tasks


def look_at_all(folder: Path) -> list[dict[str, Any]]:
    """All workers whose sockets are in the folder."""
    found = (look(path) for path in sorted(folder.glob("*.sock")))
    return [one for one in found if one is not None]


def together(workers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merchant -> parked, running, limit of all workers, and the breaker that is least closed."""
    keys: dict[str, dict[str, Any]] = {}
    for worker in workers:
        for one in worker["keys"]:
            key = keys.setdefault(one["key"], {"parked": 0, "running": 0, "limit": 0, "breaker": "closed"})
            for name in ("parked", "running", "limit"):
                key[name] += one[name]
            if one["breaker"] != "closed":
                key["breaker"] = one["breaker"]
    return keys
