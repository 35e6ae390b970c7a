"""What a run has measured so far, in its folder: Ctrl-C or a crash costs the part under way and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import greenlane
from feed.build import NATIVE, PACKAGE
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.written import trying

from .options import ATTEMPTED

_FILE: Final = "run.json"


class Kept:
    """The parts of one run by name; a finished run is never gone on with.

    Args:
        folder: made when missing.
        identity: what the meaning of a part depends on; parts of another are forgotten.
    """

    def __init__(self, folder: Path, identity: Mapping[str, object], *, fresh: bool) -> None:
        self._folder = folder
        self._identity = json.loads(json.dumps(identity, default=str))
        self._parts: dict[str, Any] = {}
        with trying(folder, ATTEMPTED):
            folder.mkdir(parents=True, exist_ok=True)
            if not fresh:
                self._parts = self._found()
            self._write(complete=False)

    def __len__(self) -> int:
        return len(self._parts)

    def part(self, name: str, measure: Callable[[], Any]) -> Any:
        """What is kept under the name; measured now, and kept, if nothing is."""
        if name not in self._parts:
            # As it will be read again: the same whether it was measured just now or before.
            self._parts[name] = json.loads(json.dumps(measure()))
            self._keep(complete=False)
        return self._parts[name]

    def complete(self) -> None:
        """The run is over: the same command measures again."""
        self._keep(complete=True)

    def _keep(self, *, complete: bool) -> None:
        try:
            self._write(complete=complete)
        except OSError as error:
            rule = f"a folder that can be written ({error.strerror})"
            hint = "free some space there; the same command resumes"
            raise GreenlaneError(ATTEMPTED, name="--out", value=str(self._folder), rule=rule, hint=hint) from None

    def _found(self) -> dict[str, Any]:
        try:
            before = json.loads((self._folder / _FILE).read_text("utf-8"))
            same = before["identity"] == self._identity and not before["complete"]
            return dict(before["parts"]) if same else {}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}

    def _write(self, *, complete: bool) -> None:
        state = {"identity": self._identity, "complete": complete, "parts": self._parts}
        aside = self._folder / f".{_FILE}.part"
        aside.write_text(json.dumps(state) + "\n", encoding="utf-8")
        os.replace(aside, self._folder / _FILE)


def sources_digest() -> str:
    """Of the code of the system and of Greenlane: what was measured of another code is not gone on with."""
    digest = hashlib.sha256()
    ours = Path(greenlane.__file__).parent
    for folder, endings in ((PACKAGE, {".py"}), (NATIVE, {".rs", ".go", ".toml"}), (ours, {".py", ".so"})):
        for path in sorted(folder.rglob("*")):
            if path.suffix in endings:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
