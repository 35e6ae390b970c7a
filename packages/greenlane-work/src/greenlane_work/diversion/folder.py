"""Shares in a folder: one file a flow, replaced at once; what each producer has seen in a folder beside it.

To look is one `stat` while nothing changes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from greenlane.errors import DiversionError, DiversionUnreadable
from greenlane_work.diversion.share import KEEP_S, Change, NotAShare, Share, Sighting, decoded, encoded

__all__ = ["Folder"]

#: A share is some 150 bytes; what is larger is none.
_MOST_BYTES = 65_536
Stamp = tuple[int, int, int]


class Folder:
    """A `SharePlace` in a folder of this machine."""

    def __init__(self, folder: str) -> None:
        """Nothing is made before something is set or said."""
        self.url = f"file://{folder}"
        self._folder = Path(folder)
        self._known: dict[str, tuple[Stamp, Share]] = {}

    def read(self, flow: str) -> Share:
        """Give a flow's share; see `SharePlace`."""
        path = self._path(flow)
        with self._errors("read the diversion"):
            try:
                found = os.stat(path)
            except FileNotFoundError:
                return Share(flow)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if flow in self._known and self._known[flow][0] == stamp:
                return self._known[flow][1]
            with open(path, "rb") as file:
                text = file.read(_MOST_BYTES)
        try:
            share = decoded(text, flow)
        except NotAShare as error:
            rule, hint = f"a share ({error})", "set it again: it is then written afresh"
            attempted = "read the diversion"
            raise DiversionUnreadable(attempted, name="file", value=str(path), rule=rule, hint=hint) from None
        self._known[flow] = (stamp, share)
        return share

    def change(self, flow: str, change: Change) -> Share:
        """Replace a flow's share; see `SharePlace`."""
        with self._errors("set the diversion"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(self._folder / ".lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    before = self.read(flow)
                except DiversionUnreadable:
                    before = Share(flow)
                share = change(before)
                _replace(self._path(flow), encoded(share))
        return share

    def say(self, flow: str, sighting: Sighting) -> None:
        """Keep a producer's word; see `SharePlace`."""
        with self._errors("say what was seen of the diversion"):
            seen = self._seen(flow)
            seen.mkdir(parents=True, exist_ok=True)
            name = hashlib.blake2b(sighting.producer.encode(), digest_size=12).hexdigest()
            _replace(seen / name, sighting.text())

    def sightings(self, flow: str) -> list[Sighting]:
        """Give the producers' last words; forgets those of an hour ago. See `SharePlace`."""
        found, now_s = [], time.time()
        with self._errors("read which processes have seen the diversion"), contextlib.suppress(FileNotFoundError):
            for path in self._seen(flow).iterdir():
                with contextlib.suppress(FileNotFoundError):
                    sighting = Sighting.of(path.read_bytes())
                    age_s = now_s - path.stat().st_mtime
                    if sighting is not None and age_s < KEEP_S:
                        found.append(sighting)
                    elif age_s > 3600:
                        path.unlink()
        return sorted(found, key=lambda sighting: sighting.producer)

    def _path(self, flow: str) -> Path:
        return self._folder / f"{flow}.json"

    def _seen(self, flow: str) -> Path:
        return self._folder / f"{flow}.seen"

    @contextlib.contextmanager
    def _errors(self, attempted: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            rule = f"a folder for shares ({error.strerror})"
            hint = "name a folder that this user may write to"
            raise DiversionError(attempted, name="folder", value=str(self._folder), rule=rule, hint=hint) from error


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new one, whole, also after a loss of power."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
