"""A Redis Cluster of three masters on loopback, without replicas: a lost shard is lost until it comes back."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import redis

from feed.children import Process
from feed.record import to_json
from feed.stores.items import BOUNDS, SHARDS, json_key, packed_key, shard_of, slot
from feed.world.catalogue import FIRST_ID
from feed.world.world import World, name
from greenlane_tools.lab.processes import StartFailed, free_port

_SETTINGS: Final = {
    # So soon (ms) the others say that a silent shard has failed.
    "cluster-node-timeout": "1000",
    # The other shards' items are better than none.
    "cluster-require-full-coverage": "no",
    "cluster-allow-reads-when-down": "yes",
}
# After its start a master takes no writes for 2 s (Redis's own CLUSTER_WRITABLE_DELAY).
_WRITABLE_S: Final = 10.0


class Cluster:
    """The shards. They know each other from files written before their start, so no time goes into meeting.

    Args:
        folder: their working directories are made in it.
        kept: folder with shard-0.rdb and so on, read at start; None = the shards begin empty.
    """

    def __init__(self, folder: Path, kept: Path | None = None) -> None:
        self.shards = [
            RedisServer(folder / f"shard-{number}", _SETTINGS, bus_port=free_port()) for number in range(SHARDS)
        ]
        for number, shard in enumerate(self.shards):
            shard.folder.mkdir(parents=True)
            (shard.folder / "nodes.conf").write_text(self._nodes(number))
            if kept is not None:
                (shard.folder / "dump.rdb").symlink_to((kept / f"shard-{number}.rdb").resolve())

    @property
    def ports(self) -> list[int]:
        """One for each shard."""
        return [shard.port for shard in self.shards]

    def start(self) -> None:
        """Blocks until every shard answers reads."""
        for shard in self.shards:
            shard.start()
        for shard in self.shards:
            self._wait(shard, "loading", "0", "persistence")

    def wait_writable(self) -> None:
        """Blocks until every shard takes writes: about 2 s from the start."""
        for shard in self.shards:
            self._wait(shard, "cluster_state", "ok", "")

    def keep(self, folder: Path) -> None:
        """Writes what the shards hold to `folder`, for a later start."""
        folder.mkdir(parents=True)
        for number, shard in enumerate(self.shards):
            with redis.Redis(port=shard.port) as client:
                client.save()
            shutil.copyfile(shard.folder / "dump.rdb", folder / f"shard-{number}.rdb")

    def end(self) -> None:
        """Ends them all; idempotent."""
        for shard in self.shards:
            shard.end()

    def _nodes(self, myself: int) -> str:
        """nodes.conf of one shard: id, address, flags, epoch and slots of all."""
        lines = []
        for number, shard in enumerate(self.shards):
            flags = "myself,master" if number == myself else "master"
            address = f"127.0.0.1:{shard.port}@{shard.bus_port}"
            slots = f"{BOUNDS[number]}-{BOUNDS[number + 1] - 1}"
            lines.append(f"{number + 1:040x} {address} {flags} - 0 0 {number + 1} connected {slots}")
        return "\n".join([*lines, f"vars currentEpoch {SHARDS} lastVoteEpoch 0", ""])

    def _wait(self, shard: RedisServer, name: str, value: str, section: str) -> None:
        until = time.monotonic() + _WRITABLE_S
        with redis.Redis(port=shard.port) as client:
            while time.monotonic() < until:
                found = client.info(section) if section else client.execute_command("CLUSTER INFO")
                if str(found.get(name)) == value:
                    return
                time.sleep(0.02)
        raise StartFailed(
            f"starting the cluster: {name} of port {shard.port}, expected {value!r} within {_WRITABLE_S:g} s"
        )


# --- One redis-server: started from a folder, killed, started again, ended.


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


# --- Fills the stores from a world, once: what the shards hold is kept as files, from which later starts read.


# To be raised when JSON changes: what was kept is made again.
_EDITION: Final = 2
# This many commands go out before their answers are read.
_BATCH: Final = 500


def filled(folder: Path, world: World, said: Callable[[str], None] = lambda line: None) -> Path:
    """The folder with the shards' files of this world, in both layouts; made in `folder` if it is not there.

    Cost: about 0.2 ms an item the first time.
    """
    path = folder / f"redis-{name(world.seed, len(world.catalogue))}-{_EDITION}"
    if path.exists():
        return path
    said(f"filling the item store: {len(world.catalogue)} items in two layouts, kept for the next run")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        cluster = Cluster(Path(scratch))
        try:
            cluster.start()
            cluster.wait_writable()
            _fill(cluster, world)
            aside = Path(scratch) / "kept"
            cluster.keep(aside)
        finally:
            cluster.end()
        try:
            aside.rename(path)
        except OSError:
            if not path.exists():
                raise
    return path


def _fill(cluster: Cluster, world: World) -> None:
    clients = [redis.Redis(port=port) for port in cluster.ports]
    pipes = [client.pipeline(transaction=False) for client in clients]
    for number, (key, value) in enumerate(_entries(world)):
        pipe = pipes[shard_of(slot(key.encode()))]
        pipe.set(key, value)
        if number % (_BATCH * len(pipes)) == 0:
            for one in pipes:
                one.execute()
    for pipe, client in zip(pipes, clients, strict=True):
        pipe.execute()
        client.close()


def _entries(world: World) -> Iterator[tuple[str, bytes]]:
    for number in range(len(world.catalogue)):
        item, item_id = world.catalogue.item(number), FIRST_ID + number
        yield json_key(item_id), to_json(item)
        yield packed_key(item_id), world.catalogue.records[number].tobytes()
