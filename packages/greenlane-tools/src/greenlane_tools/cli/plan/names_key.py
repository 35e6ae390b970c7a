"""The key behind the tokens of anonymous profiles: a file of the user's own, made when it is first needed.

With it the same names give the same tokens again; without it nobody can try names out.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError

__all__ = ["VARIABLE", "names_key"]

#: A key of one's own choice instead: the same for a whole team.
VARIABLE: Final = "GREENLANE_NAMES_KEY"
_FILE: Final = "greenlane/names.key"
_BYTES: Final = 32


def names_key() -> bytes:
    """The key.

    Raises: PlanError when the file cannot be made or read.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return given.encode("utf-8", "surrogateescape")
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(home, _FILE)
    try:
        if not path.exists():
            _make(path)
        return path.read_bytes()
    except OSError as error:
        rule = f"a file that can be made and read ({error.strerror})"
        hint = f"set {VARIABLE} to a text that only you know"
        raise PlanError("make names anonymous", name="key", value=str(path), rule=rule, hint=hint) from None


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole or not at all: two that make it at the same time end with the same one.
    own = path.with_name(f"{path.name}.{os.getpid()}")
    own.touch(mode=0o600)
    own.write_bytes(secrets.token_bytes(_BYTES))
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    finally:
        own.unlink()
