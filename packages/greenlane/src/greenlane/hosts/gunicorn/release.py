"""Which release of gunicorn is here, and whether the worker knows it: it follows private parts of gthread.

From 27 on: a body of known length is read ahead with one `recv`, a body that failed ends its connection, and HTTP/2
negotiates apart. Under any other release the middleware `greenlane.hosts.wsgi` runs in gunicorn's own gthread worker.
"""

from __future__ import annotations

import re
from typing import Final

from greenlane.errors import HostError

__all__ = ["RELEASES", "check_release"]

#: The first that is followed, and the first that is not known.
RELEASES: Final = ((27, 0), (28, 0))


def check_release(attempt: str = "set up gunicorn's worker") -> str:
    """Give the installed release; gunicorn itself is not imported.

    Raises:
        HostError: the worker does not know it.
        PackageNotFoundError: there is none.
    """
    import importlib.metadata

    found = importlib.metadata.version("gunicorn")
    oldest, unknown = RELEASES
    if not oldest <= _numbers(found) < unknown:
        wanted = f"gunicorn>={oldest[0]},<{unknown[0]}"
        raise HostError(
            attempt,
            name="gunicorn",
            value=found,
            rule=f"release {oldest[0]}",
            hint=f"pip install '{wanted}', or use the middleware greenlane.hosts.wsgi under gthread",
        )
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
