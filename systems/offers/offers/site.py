"""The whole of offers on loopback: upstreams, pricingservice under a contender, offerservice.

    with Site() as site:
        pricing = site.pricing("gevent")
        offers = site.offerservice(pricing)
        urlopen(f"{offers.url}/offers?region=hills&id=a-1")

    python -m offers.site [--contender greenlane] [--port 7000]      by hand: stays until it is ended

Everything ends with the process that made the site, however that ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from greenlane.errors import GreenlaneError, SettingsError
from greenlane_tools.lab.processes import Block, Logged, StartFailed, found_by, free_port
from offers import table
from offers.build import program
from offers.contenders import APART, CONTENDERS, Contender, Place

# --- Processes that the system consists of: each has a log file, and none outlives the process that started it.


#: The folder that has the package `offers`.
ROOT: Final = Path(__file__).resolve().parents[1]


class Process(Logged):
    """A child with offers on its import path."""

    folder = ROOT
    # A process is one core's worth for everybody: libraries that would start threads of their own start none.
    around = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # noqa: RUF012


#: Kind of work -> iterations in a millisecond of CPU.
Iterations = Mapping[str, float]
CAP_MS: Final = 500
_ANSWER_S: Final = 10.0
_GRACE_S: Final = 3.0
_LOOK_S: Final = 0.5
_ATTEMPTED: Final = "start offers"
_ANSWERS: Final = "an answer to GET /healthz"
_LAST_PORT: Final = 65_535


@dataclass(frozen=True)
class Pricing:
    """A running pricingservice.

    Args:
        contender: who serves it.
        processes: its servers, started by us; workers are their children.
        ports: of each.
        folder: of its files.
    """

    contender: Contender
    processes: tuple[Process, ...]
    ports: tuple[int, ...]
    folder: Path

    @property
    def address(self) -> str:
        """host:port that everybody asks; a second server is offerservice's alone."""
        return f"127.0.0.1:{self.ports[0]}"

    def urls(self) -> dict[str, Any]:
        """As offerservice's POST /pricing takes them."""
        default, *apart = [f"http://127.0.0.1:{port}" for port in self.ports]
        return {"default": default, "for": {mode: url for url in apart for mode in APART}}

    def pids(self) -> list[int]:
        """Every process of it."""
        return [pid for process in self.processes for pid in process.pids()]

    def check(self) -> None:
        """It runs. Raises StartFailed with its last words."""
        for one in self.processes:
            if not one.running():
                raise StartFailed(f"run {self.contender.name}: it ended, expected it to stay; it said:\n{one.said()}")

    def end(self, grace_s: float = _GRACE_S) -> None:
        """Ends it: what it has may end within `grace_s`."""
        for process in self.processes:
            process.end(grace_s)


@dataclass(frozen=True)
class Offerservice:
    """A running offerservice."""

    process: Process
    port: int

    @property
    def url(self) -> str:
        """Where riders ask."""
        return f"http://127.0.0.1:{self.port}"

    def counts(self) -> dict[str, Any]:
        """GET /counts: cumulative since its start."""
        return asked(f"{self.url}/counts")

    def point_at(self, pricing: Pricing) -> None:
        """From the next request on it asks this one."""
        asked(f"{self.url}/pricing", pricing.urls())


class Site(Block):
    """What all contenders share: a folder, the table, calibrated work, upstreams.

    Args:
        folder: of logs; None = a temporary one, removed at the end.
        tables: the folder of the table; None = the system's own.
        say: hears what is being done.
        iterations: of work in a millisecond, by language; None = measured now.
    """

    def __init__(
        self,
        folder: Path | None = None,
        tables: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
        iterations: Mapping[str, Iterations] | None = None,
    ) -> None:
        # Absolute: its programs have working directories of their own.
        self.tables = (tables or table.folder()).absolute()
        self.table = table.read(self.tables)
        self._temporary = folder is None
        self.folder = (folder or Path(tempfile.mkdtemp(prefix="offers-"))).absolute()
        self.iterations: dict[str, Iterations] = dict(iterations or {})
        self._say = say
        self._addresses: dict[str, str] = {}
        self._upstreams: dict[str, Process] = {}
        self._started: list[Pricing | Offerservice] = []

    def begin(self) -> None:
        """Starts what all need. Blocks until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._say("building what is in Go …")
        program("upstream")
        if not self.iterations:
            self._say("counting what a millisecond of CPU does …")
            self.iterations = calibrated()
        self._say("starting upstreams …")
        ports = {name: free_port() for name in ("python", "go")}
        for one in self.table.upstreams.values():
            self._addresses[one.name] = f"127.0.0.1:{ports[one.language]}"
        for language, port in ports.items():
            names = ",".join(one.name for one in self.table.upstreams.values() if one.language == language)
            self._upstreams[language] = self._upstream(language, port, names)
        for language, process in self._upstreams.items():
            process.wait_until(partial(healthy, ports[language]), _ANSWERS)

    def _upstream(self, language: str, port: int, names: str) -> Process:
        if language == "python":
            argv = [sys.executable, "-m", "offers.upstreams", "--port", str(port), "--names", names]
        else:
            argv = [str(program("upstream")), "-listen", f"127.0.0.1:{port}", "-names", names]
            argv += ["-table", str(self.tables)]
        return Process(argv, self.folder / f"upstreams-{language}.log", self._around(language))

    @property
    def upstreams(self) -> str:
        """Where each is: `eta=127.0.0.1:7001,…`, as OFFERS_UPSTREAMS and flags have it."""
        return ",".join(f"{name}={address}" for name, address in self._addresses.items())

    def upstream_calls(self) -> dict[str, int]:
        """Calls that all upstreams have had, by the endpoint on whose behalf they were made; cumulative."""
        found: dict[str, int] = {}
        for address in set(self._addresses.values()):
            for endpoint, calls in asked(f"http://{address}/counts")["calls"].items():
                found[endpoint] = found.get(endpoint, 0) + calls
        return found

    def pricing(self, contender: str, label: str = "", *, env: Mapping[str, str] | None = None) -> Pricing:
        """Starts pricingservice under a contender, and comes back when it answers.

        Args:
            contender: one of CONTENDERS.
            label: tells several of the same apart.
            env: added to its environment.

        Raises:
            StartFailed: it does not come up; nothing of it is left.
        """
        with contextlib.ExitStack() as undone:
            found = self._launched(CONTENDERS[contender], label or contender, env or {}, undone)
            for process, port in zip(found.processes, found.ports, strict=True):
                process.wait_until(partial(healthy, port), _ANSWERS)
            undone.pop_all()
        self._started.append(found)
        return found

    def _launched(
        self, contender: Contender, label: str, env: Mapping[str, str], undone: contextlib.ExitStack
    ) -> Pricing:
        folder = Path(tempfile.mkdtemp(prefix=f"{label}-", dir=self.folder))
        around = {**self._around("go" if contender.is_go else "python"), **contender.env, **env}
        ports = tuple(free_port() for _ in range(contender.servers))
        processes = []
        for number, port in enumerate(ports):
            place = Place(
                f"127.0.0.1:{port}", folder, self.table, self.upstreams, lambda: program("pricing"), self.tables
            )
            processes.append(Process(contender.command(place), folder / f"{number}.log", around, folder))
            undone.callback(processes[-1].end, 0.2)
        return Pricing(contender, tuple(processes), ports, folder)

    def offerservice(
        self, pricing: Pricing, *, cancel: bool = False, propagate_deadline: bool = False, port: int = 0,
        env: Mapping[str, str] | None = None,
    ) -> Offerservice:  # fmt: skip
        """Starts offerservice in front of a pricingservice, and comes back when it answers.

        Args:
            pricing: whom it asks.
            cancel: it ends a call whose offer came too late; else it waits for the reply, as in the article.
            propagate_deadline: it tells pricingservice how long it will wait.
            port: where it listens; 0 = a free one.
            env: added to its environment.

        Raises:
            StartFailed: it does not come up; nothing of it is left.
        """
        port, urls = port or free_port(), pricing.urls()
        argv = [str(program("offerservice")), "-listen", f"127.0.0.1:{port}", "-pricing", urls["default"]]
        for url in dict.fromkeys(urls["for"].values()):
            modes = ",".join(mode for mode, its in urls["for"].items() if its == url)
            argv += ["-pricing-for", f"{modes}={url}"]
        argv += ["-upstreams", self.upstreams, "-cap", f"{CAP_MS}ms", "-table", str(self.tables)]
        argv += ["-cancel"] * cancel + ["-propagate-deadline"] * propagate_deadline
        process = Process(argv, pricing.folder / "offerservice.log", {**self._around("go"), **(env or {})})
        with contextlib.ExitStack() as undone:
            undone.callback(process.end, 0.2)
            process.wait_until(partial(healthy, port), _ANSWERS)
            undone.pop_all()
        found = Offerservice(process, port)
        self._started.append(found)
        return found

    def _around(self, language: str) -> dict[str, str]:
        return {
            "OFFERS_UPSTREAMS": self.upstreams, "OFFERS_TABLE": str(self.tables),
            "OFFERS_ITERATIONS": json.dumps(self.iterations[language]),
        }  # fmt: skip

    def stop(self, *parts: Pricing | Offerservice, grace_s: float = _GRACE_S) -> None:
        """Ends some of what it has started."""
        for one in parts:
            one.end(grace_s) if isinstance(one, Pricing) else one.process.end(grace_s)
            self._started.remove(one)

    def end(self) -> None:
        """Ends every process, and removes a temporary folder. Idempotent."""
        self.stop(*reversed(self._started), grace_s=0.2)
        for process in self._upstreams.values():
            process.end(0.2)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def calibrated() -> dict[str, Iterations]:
    """Iterations of each kind of work in a millisecond, by language. Blocks for about two seconds.

    One language after the other: side by side they would slow each other down where cores share what they have.

    Raises:
        StartFailed: a program did not tell.
    """
    commands = {"python": [sys.executable, "-m", "offers.work"], "go": [str(program("pricing")), "-calibrate"]}
    return {language: _told(command) for language, command in commands.items()}


def _told(command: Sequence[str]) -> Iterations:
    done = subprocess.run(command, env=found_by(ROOT), capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartFailed(f"calibrate: {command[:3]} ended with {done.returncode}, expected 0; it said:\n{done.stderr}")
    found: Iterations = json.loads(done.stdout)
    return found


def healthy(port: int) -> bool:
    """GET /healthz is answered 200 now."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as answer:
        return bool(answer.status == 200)
    return False


def asked(url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer's JSON; POST when there is a body. Raises OSError."""
    sent = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} if sent else {}
    with urllib.request.urlopen(urllib.request.Request(url, sent, headers), timeout=_ANSWER_S) as answer:
        text = answer.read()
    found: dict[str, Any] = json.loads(text) if text.strip() else {}
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """A site by itself: stays until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m offers.site", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--contender", default="gevent", choices=[*CONTENDERS], help="server of pricingservice (gevent)")
    add("--port", type=int, default=0, help="of offerservice (a free one)")
    add("--folder", type=Path, help="where logs are kept (a temporary one)")
    add("--cancel", action="store_true", help="offerservice cancels calls whose offer is late")
    add("--propagate-deadline", action="store_true", help="offerservice sends its deadline")
    given = parser.parse_args(argv)
    try:
        if not 0 <= given.port <= _LAST_PORT:
            raise SettingsError("--port", given.port, f"0 to {_LAST_PORT}; 0 = a free one", attempted=_ATTEMPTED)
        if given.folder is not None and given.folder.exists() and not given.folder.is_dir():
            raise SettingsError("--folder", str(given.folder), "a folder, or a name that is free", attempted=_ATTEMPTED)
        # Asked to end in whatever way, it ends what it has started.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            _stay(given)
    except (GreenlaneError, StartFailed, table.TableError) as error:
        _said(str(error))
        return error.exit_code
    return 0


def _stay(given: argparse.Namespace) -> None:
    with Site(given.folder, say=_said) as site:
        pricing = site.pricing(given.contender)
        offers = site.offerservice(
            pricing, cancel=given.cancel, propagate_deadline=given.propagate_deadline, port=given.port
        )
        region = next(iter(site.table.regions))
        sys.stdout.write(f"{offers.url}/offers?region={region}&id=me-1\n")
        sys.stdout.flush()
        _said(f"pricingservice under {given.contender} at http://{pricing.address}; logs in {site.folder}")
        while True:
            pricing.check()
            time.sleep(_LOOK_S)


def _said(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
