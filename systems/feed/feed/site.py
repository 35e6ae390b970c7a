"""The site around the service: item store, history store, first-level models; real processes on loopback.

    with Site(Folder(...)) as site: ...     # or: python -m feed.site, which prints the address file and stays

Everything ends with the process that made the site, however that ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from feed.children import Process, command
from feed.first_level.server import Law
from feed.stores.cluster import filled
from feed.user import MODELS
from feed.world.world import FIRST_USER
from greenlane_tools.lab.ending import plainly
from greenlane_tools.lab.processes import StartFailed, free_port

from .stores import history
from .stores.cluster import Cluster, RedisServer
from .world.world import ITEMS, SEED, World, kept

USERS: Final = 2_000


@dataclass(frozen=True)
class Addresses:
    """Where the parts of a site listen: all that the service is told.

    Args:
        shards: ports of the item store's masters.
        history: port of the history store.
        models: base URL of each first-level model.
        model: folder of the ranking model.
        users: 1 to this number have a history.
    """

    shards: list[int]
    history: int
    models: dict[str, str]
    model: str
    users: int

    def write(self, path: Path) -> None:
        """As a JSON file."""
        path.write_text(json.dumps(asdict(self), indent=1))


def addresses_of(path: Path) -> Addresses:
    """What `write` wrote.

    Raises:
        StartFailed: it did not write that.
    """
    try:
        return Addresses(**json.loads(path.read_text()))
    except (OSError, TypeError, ValueError) as error:
        raise StartFailed(
            f"reading addresses: file={str(path)!r}, expected what a running site wrote ({error})\n"
            "hint: python -m feed.site"
        ) from None


@dataclass(frozen=True)
class Plan:
    """What a site is made of.

    Args:
        folder: where worlds and filled stores are kept between starts.
        seed, items: of the world.
        users: how many have a history.
        law: of every first-level model.
        model: folder of the ranking model; None = the one that the world trains, in `folder`.
    """

    folder: Path
    seed: int = SEED
    items: int = ITEMS
    users: int = USERS
    law: Law = field(default_factory=Law)
    model: Path | None = None


class Site:
    """The running parts.

    Args:
        plan: what to start.
        said: is told what takes long.
    """

    def __init__(self, plan: Plan, said: Callable[[str], None] = lambda line: None) -> None:
        self._plan = plan
        self._said = said
        self._folder = Path(tempfile.mkdtemp(prefix="feed-"))
        self._models: dict[str, tuple[Process, int]] = {}
        self._ended = False

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _start(self) -> None:
        plan = self._plan
        plan.folder.mkdir(parents=True, exist_ok=True)
        self.world: World = kept(plan.folder, plan.seed, plan.items)
        # Not at the top: it needs native code, and says here how to build it.
        from .train import trained

        self.model = plan.model or trained(plan.folder, plan.seed, plan.items, self._said).folder
        self.items = Cluster(self._folder, filled(plan.folder, self.world, self._said))
        self.history = RedisServer(self._folder / "history")
        # First what takes longest to come up.
        for model in MODELS:
            self.start_model(model, wait=False)
        self.items.start()
        self.history.start()
        history.fill(self.history.port, map(self.world.people.user, range(FIRST_USER, plan.users + 1)))
        for process, port in self._models.values():
            process.wait_for_port(port)

    @property
    def addresses(self) -> Addresses:
        """Where everything listens."""
        models = {model: f"http://127.0.0.1:{port}" for model, (_, port) in self._models.items()}
        return Addresses(self.items.ports, self.history.port, models, str(self.model), self._plan.users)

    def pids(self) -> dict[str, list[int]]:
        """Processes by part: history, models, shards; those that run now."""
        parts = {
            "history": [self.history.pid],
            "models": [process.pid for process, _ in self._models.values() if process.running()],
            "shards": [shard.pid for shard in self.items.shards],
        }
        return {part: [pid for pid in pids if pid] for part, pids in parts.items()}

    def start_model(self, model: str, *, wait: bool = True) -> None:
        """Starts a model's service, at the port that it had before if it had one."""
        port = self._models[model][1] if model in self._models else free_port()
        plan = self._plan
        arguments = {
            "model": model, "port": port, "folder": plan.folder, "seed": plan.seed, "items": plan.items,
            "median-ms": plan.law.median_ms, "p99-ms": plan.law.p99_ms,
        }  # fmt: skip
        flags = [str(part) for name, value in arguments.items() for part in (f"--{name}", value)]
        process = Process([*command("feed.first_level.server"), *flags], self._folder / f"{model}.log")
        self._models[model] = process, port
        if wait:
            process.wait_for_port(port)

    def kill_model(self, model: str) -> None:
        """A model's service crashes."""
        self._models[model][0].kill()

    def set_law(self, model: str, law: Law) -> None:
        """A model's answers follow another law from now on."""
        body = json.dumps(asdict(law)).encode()
        urllib.request.urlopen(f"{self.addresses.models[model]}/law", body, timeout=5).close()

    def end(self) -> None:
        """Ends every process and removes the site's scratch folder; what is kept stays. Idempotent."""
        if self._ended:
            return
        self._ended = True
        for process, _ in self._models.values():
            process.end()
        for part in ("items", "history"):
            if hasattr(self, part):
                getattr(self, part).end()
        shutil.rmtree(self._folder, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> None:
    """A site by itself, for services started by hand: stays until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m feed.site", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("out/feed"), help="where worlds and filled stores are kept")
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--model", type=Path, help="folder of the ranking model; else it is trained, once")
    parser.add_argument("--addresses", type=Path, default=Path("out/feed/site.json"), help="file to write them to")
    given = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    plan = Plan(given.folder, items=given.items, users=given.users, model=given.model)
    with plainly("starting the site", sys.stderr), Site(plan, _said) as site:
        given.addresses.parent.mkdir(parents=True, exist_ok=True)
        site.addresses.write(given.addresses)
        _said(f"the site runs; its addresses are in {given.addresses}")
        # Ctrl-C is how it is ended by hand.
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


def _said(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main()
