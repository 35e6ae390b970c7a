"""The settings of `greenlane serve`: where it listens, its workers, what each gets at once, and its clients.

The rules of its live decisions are these settings in the units and under the names of greenlane-policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from greenlane.settings import Settings
from greenlane.settings.patterns import ANY_FILE, URL_PATH
from greenlane.settings.setting import Pattern, declare

_ADDRESS: Final[Pattern] = (r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s/:]*):[0-9]{1,5}|[./][^\s]*", "host:port or a path")
_PEER: Final[Pattern] = (r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?|unix", "an address, a network such as 10.0.0.0/8, or unix")
_LOG: Final[Pattern] = (r"(stdout|stderr|/[^\s]+|[^\s/:]+:[0-9]{1,5})?", "stdout, stderr, host:port, a path, or ''")
_PREFIX: Final[Pattern] = (r"(/[^\s/?#]+)*", "a path such as /shop, without a slash at its end, or '' for none")
_USER: Final[Pattern] = (r"([A-Za-z_][A-Za-z0-9_.-]*)?", "a user's name, or '' for none")
_HEADER_OR_NONE: Final[Pattern] = (r"[A-Za-z0-9-]*", "a header name of letters, digits and dashes, or '' for none")


@dataclass(frozen=True)
class ServeSettings(Settings):
    """The tree of processes behind one front, and the settings of the workers in it."""

    # The tree.

    bind: tuple[str, ...] = declare(
        ("127.0.0.1:8000",), "Where `greenlane serve` listens: host:port, [IPv6]:port, or the path of a Unix socket.",
        pattern=_ADDRESS, reason="Reachable from this machine only, unless told otherwise.",
    )  # fmt: skip
    workers: int = declare(
        0, "Worker processes of `greenlane serve`, all lanes together; 0 = one per usable core (affinity, the"
        " cgroup's quota), but at least 2.",
        low=0, high=1024, reason="Python computes on one core per process; two, so that one may be busy.",
    )  # fmt: skip
    at_once: int = declare(
        0, "Concurrency limit of a worker of `greenlane serve`; 0 = set live, by measurement.",
        low=0, high=4096, reason="It follows from what the requests do, and changes with them.",
    )  # fmt: skip
    queue_s: float = declare(
        30.0, "Queue timeout of `greenlane serve`: a request that has waited this long for a worker is refused with "
        "503.",
        unit="s", low=0.001, high=3600, reason="Most clients have gone by then; a lane's deadline is more exact.",
    )  # fmt: skip
    stop_s: float = declare(
        30.0, "Time for requests in progress when `greenlane serve` ends or replaces a worker.",
        unit="s", low=0, high=86_400, reason="gunicorn's graceful_timeout.",
    )  # fmt: skip
    boot_s: float = declare(
        120.0, "Time for a worker of `greenlane serve` to start; a slower one is killed.",
        unit="s", low=0.1, high=86_400, reason="The slowest applications import for a minute on a busy machine.",
    )  # fmt: skip
    replace_stuck: bool = declare(
        False, "`greenlane serve` replaces a worker none of whose requests has ended for `hung_after_s`, and does "
        "not only report it.",
        reason="They may be downloads or long polls: only the service knows.",
    )  # fmt: skip
    user: str = declare(
        "", "User of the workers and the front when root starts `greenlane serve`; '' = they stay root.",
        pattern=_USER, reason="Containers and systemd units start as the right user themselves.",
    )  # fmt: skip
    max_requests: int = declare(
        0, "Requests after which `greenlane serve` replaces a worker (up to a tenth earlier, each worker by chance);"
        " 0 = never.",
        low=0, high=1_000_000_000, reason="Only applications that leak need it.",
    )  # fmt: skip
    max_memory_mb: int = declare(
        0, "Resident memory over which `greenlane serve` replaces a worker; 0 = never.",
        unit="MB", low=0, high=1_000_000_000, reason="As `max_requests`; it acts only where something leaks.",
    )  # fmt: skip
    root_path: str = declare(
        "", "Path below which the application is mounted: SCRIPT_NAME, or `root_path` under ASGI; '' = at the root.",
        pattern=_PREFIX, reason="Most applications have a host to themselves.",
    )  # fmt: skip
    log_level: str = declare(
        "warning", "Level from which the server in each worker (gunicorn, uvicorn) logs.",
        choices=("debug", "info", "warning", "error", "critical"),
        reason="Starts and ends are in the parent's log, requests in `access_log`; the application sets up its own.",
    )  # fmt: skip

    # What clients may do.

    trusted_proxies: tuple[str, ...] = declare(
        (), "Proxies in front of `greenlane serve` whose X-Forwarded-* headers are believed; `unix` = all who "
        "connect to a Unix socket.",
        pattern=_PEER, reason="A header that any client can send proves nothing.",
    )  # fmt: skip
    target_max_bytes: int = declare(
        4000, "Longest request target (path and query) for `greenlane serve`; longer: 414.",
        low=64, high=8000, reason="gunicorn's limit on the request line is 4094.",
    )  # fmt: skip
    head_max_bytes: int = declare(
        15_360, "Longest request head for `greenlane serve`, request line included; longer: 400.",
        low=15_360, high=261_120, reason="Each connection has a buffer of this size: HAProxy's default, less its "
        "reserve.",
    )  # fmt: skip
    body_max_mb: float = declare(
        0.0, "Longest request body for `greenlane serve`; longer: 413. 0 = no limit.",
        low=0, high=1_000_000, reason="Bodies are not stored, and only the service knows what is too long.",
    )  # fmt: skip
    body_first: bool = declare(
        True, "`greenlane serve` gives a request to a worker once its body, or the first `head_max_bytes` of it, has "
        "arrived.",
        reason="A slow sender then holds no worker. Only applications that answer while they read lose by it.",
    )  # fmt: skip
    client_connections: int = declare(
        0, "Most connections to `greenlane serve` from one address, `trusted_proxies` excepted; 0 = no limit.",
        low=0, high=1_000_000, reason="Whole companies share an address; from 100 on it stops only abuse.",
    )  # fmt: skip
    websockets: int = declare(
        1000, "Most open WebSockets of a worker of `greenlane serve`, beside its requests; 0 = they count as requests.",
        low=0, high=1_000_000, reason="They last for hours and mostly sleep; each costs a socket and a task.",
    )  # fmt: skip
    tls_bind: tuple[str, ...] = declare(
        (), "Where `greenlane serve` listens with TLS, beside `bind`.",
        pattern=_ADDRESS, reason="There is no certificate until you name one.",
    )  # fmt: skip
    tls_certificate: str = declare(
        "", "PEM file: the certificate, then its chain. Or a directory of *.pem, each with its key, chosen by the name"
        " that the client asks for (SNI), the first one otherwise. Read again when they change; '' = no TLS.",
        pattern=ANY_FILE, reason="Certificates are made elsewhere.",
    )  # fmt: skip
    tls_key: str = declare(
        "", "PEM file: the certificate's key, without a passphrase; '' = it stands in `tls_certificate`.",
        pattern=ANY_FILE, reason="Some tools write one file, some two.",
    )  # fmt: skip
    tls_min_version: str = declare(
        "1.2", "Oldest TLS version that clients may speak.",
        choices=("1.2", "1.3"), reason="Older ones are forbidden by RFC 8996; clients without 1.3 are still about.",
    )  # fmt: skip
    tls_redirect: bool = declare(
        False, "Redirect requests on `bind` to https (308), except for the health path.",
        reason="`bind` may serve neighbours that speak plain HTTP on purpose.",
    )  # fmt: skip
    metrics_bind: tuple[str, ...] = declare(
        (), "Where `greenlane serve` answers `metrics_path` and health; `metrics_path` is then no longer on `bind`.",
        pattern=_ADDRESS, reason="Most services have one address; a public one should have two.",
    )  # fmt: skip
    alive_path: str = declare(
        "", "Path at which `greenlane serve` answers 200 while its parent process runs, else 503; '' = off.",
        pattern=URL_PATH, reason="It could hide a path of the application.",
    )  # fmt: skip
    access_log: str = declare(
        "", "Where `greenlane serve` writes a line for each request; an address or a path is a syslog's.",
        pattern=_LOG, reason="A line per request has a cost, so it is opt-in.",
    )  # fmt: skip
    access_log_format: str = declare(
        "json", "Lines of `access_log`: JSON, or the combined form of Apache and nginx.",
        choices=("json", "combined"), reason="The combined form has no room for queue, lane and worker.",
    )  # fmt: skip
    request_id_header: str = declare(
        "", "Header in which `greenlane serve` gives each request a new id (a trusted proxy's is kept); '' = none.",
        pattern=_HEADER_OR_NONE, reason="Services with tracing have ids already.",
    )  # fmt: skip

    @property
    def assigns(self) -> bool:
        """Whether routes that compute for long wait last (lane `apart`): no lanes and no fixed concurrency."""
        return not self.lanes and not self.at_once


_NS_PER_MS: Final = 1_000_000
#: Mean CPU of a request from which a route goes to the lane `apart`: a tenth of what people notice.
_APART_MS: Final = 20
#: Share of the time in which a worker should compute while requests wait: some 1.5 times the knee, 1 + I/O / CPU, which
#: itself loses 16 to 24 % of the capacity when bursts vary.
_BUSY: Final = 0.98
#: Requests at once of a worker that are never exceeded: as many as `websockets`.
_MOST: Final = 1000
#: From an answer until the next request is there: two turns of the front's and of the worker's loop. Arbitrary.
_GAP_MS: Final = 0.2
#: A second is ten times what one request takes.
_WINDOW_MS: Final = 1000
#: Requests of a route before it goes to a lane apart: the first ones import and fill caches.
_LEARN_AFTER: Final = 10


@dataclass(frozen=True)
class AtOnceRule:
    """Arguments of `_native.WorkerConcurrency`, one for one, but `first`."""

    busy: float
    least: int
    most: int
    gap_ns: int
    window_ns: int

    @classmethod
    def of(cls, settings: ServeSettings, *, threads: bool) -> AtOnceRule:
        """Translate settings; `threads`: a worker has no more places than threads, or than its `limit`."""
        bounds = [_MOST]
        bounds += [settings.threads] if threads else []
        bounds += [settings.limit] if settings.limit else []
        most = min(bounds)
        return cls(
            busy=_BUSY,
            least=1,
            most=most,
            gap_ns=round(_GAP_MS * _NS_PER_MS),
            window_ns=_WINDOW_MS * _NS_PER_MS,
        )


@dataclass(frozen=True)
class ApartRule:
    """Arguments of `_native.HeavyRouteLane`, one for one."""

    over_ns: int
    learn_after: int

    @classmethod
    def of(cls, settings: ServeSettings) -> ApartRule:
        """Translate settings."""
        return cls(over_ns=_APART_MS * _NS_PER_MS, learn_after=_LEARN_AFTER)
