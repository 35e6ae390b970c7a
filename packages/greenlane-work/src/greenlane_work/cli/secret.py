"""URLs on command lines: everybody on the machine reads those, and logs keep them, so a password is refused there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from greenlane.errors import SettingsError
from greenlane_work.drivers import without_password

__all__ = ["BROKER", "broker_url", "refuse_passwords"]

#: The variable of the environment that Celery's own commands read.
BROKER: Final = "BROKER_URL"
#: `user:password@`, or an option that says so; what is odd in a password may be there as it is.
_PASSWORD: Final = re.compile(r"://[^/?#@:]*:[^@]+@|[?&]\w*password=.")


def broker_url(given: str | None) -> str:
    """Give the broker's URL: of the command line, or of the environment. Raises SettingsError."""
    url = given or os.environ.get(BROKER, "")
    if not url:
        raise SettingsError(
            "--broker", "", "a URL, as Celery's broker_url", f"--broker URL, or {BROKER} in the environment"
        )
    refuse_passwords("--broker", [given or ""], BROKER)
    return url


def refuse_passwords(name: str, words: Iterable[str], variable: str) -> None:
    """Refuse what holds a password. Raises SettingsError.

    Args:
        name: of the option.
        words: what was given.
        variable: of the environment, where it may stand.
    """
    for word in words:
        if _PASSWORD.search(word):
            rule = "a URL without its password: everybody on this machine sees command lines"
            raise SettingsError(
                name, without_password(word.rpartition("=")[2] or word), rule, f"put it into {variable}"
            )
