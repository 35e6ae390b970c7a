"""One redis-server: started from a folder, killed, started again, ended."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from feed.children import Process
from greenlane_tools.lab.processes import StartFailed, free_port


class RedisServer:
    """A redis-server on 127.0.0.1; it keeps nothing unless told to, and reads `dump.rdb` of its folder at start.

    Args:
        folder: its working directory, made if need be.
        settings: settings beyond ours, by redis.conf's names.
        port: 0 = a free one.
        bus_port: where the shards of a cluster talk to each other; 0 = it is no cluster.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, port: int = 0, bus_port: int = 0
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.bus_port = bus_port
        self._settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "save": "",
            "appendonly": "no",
            # A kept file is read at every start: speed, not size.
            "rdbcompression": "no",
            "rdbchecksum": "no",
            **({"cluster-enabled": "yes", "cluster-port": str(bus_port)} if bus_port else {}),
            **(settings or {}),
        }
        self._process: Process | None = None

    def start(self) -> None:
        """Blocks until it listens.

        Raises:
            StartFailed: no redis-server installed, or it ended.
        """
        program = shutil.which("redis-server")
        if program is None:
            raise StartFailed(
                "starting Redis: redis-server=None, expected it on PATH\nhint: apt-get install redis-server"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        arguments = [part for name, value in self._settings.items() for part in (f"--{name}", value)]
        self._process = Process([program, *arguments], self.folder / "log")
        self._process.wait_for_port(self.port)

    @property
    def pid(self) -> int:
        """Its process id; 0 when it was not started."""
        return self._process.pid if self._process else 0

    def kill(self) -> None:
        """It crashes."""
        if self._process:
            self._process.kill()

    def end(self) -> None:
        """It ends; idempotent."""
        if self._process:
            self._process.end()
