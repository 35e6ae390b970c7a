"""A small disk for the store, which a fault fills: a file system in memory for root, else a limit on files' sizes."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_SIZE_MB: Final = 32
_CHUNK: Final = b"\0" * (1 << 16)


class SmallDisk:
    """A folder that can be full.

    Without root it is a usual folder, and `fill` forbids the workers to make any file longer than it is: they then
    meet EFBIG where a full disk gives ENOSPC.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        self._mounted = False

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Made for the block."""
        self.folder.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={_SIZE_MB}m", "pos-small-disk", str(self.folder)]
        self._mounted = os.geteuid() == 0 and not subprocess.run(["mount", *options], check=False).returncode
        try:
            yield
        finally:
            if self._mounted:
                subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    def fill(self, pids: Iterable[int]) -> None:
        """From now on nothing more can be written; `pids` are the workers."""
        if self._mounted:
            with self._ballast.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
                while ballast.write(_CHUNK):
                    pass
            return
        longest = max((file.stat().st_size for file in self.folder.iterdir()), default=0)
        self._limit(pids, longest)

    def free(self, pids: Iterable[int]) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)
        if not self._mounted:
            self._limit(pids, resource.RLIM_INFINITY)

    def _limit(self, pids: Iterable[int], size: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
