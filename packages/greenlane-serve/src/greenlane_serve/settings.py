"""The settings of `greenlane serve`: where it listens, its workers, what each gets at once, and its clients.

The rules of its live decisions are these settings in the units and under the names of greenlane-policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane.settings import Settings
from greenlane.settings.patterns import ANY_FILE, URL_PATH
from greenlane.settings.setting import Pattern, declare

__all__ = ["ApartRule", "AtOnceRule", "ServeSettings"]

_ADDRESS: Final[Pattern] = (r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s/:]*):[0-9]{1,5}|[./][^\s]*", "host:port or a path")
_MAYBE_HEADER: Final[Pattern] = (r"[A-Za-z0-9-]*", "an HTTP header name of A-Z a-z 0-9 -, or '' for none")
_SOME_DIRECTORY: Final[Pattern] = (r"[^\0]+", "a directory")
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
        pattern=_ADDRESS, reason="Reachable from this machine only, until somebody wants more.",
    )  # fmt: skip
    workers: int = declare(
        0, "Worker processes of `greenlane serve`, all lanes together; 0 = one per usable core (affinity, the"
        " cgroup's quota), but at least 2.",
        low=0, high=1024, reason="Python computes on one core a process; two, so that one can be busy.",
    )  # fmt: skip
    at_once: int = declare(
        0, "Requests that the front of `greenlane serve` gives a worker at once; 0 = set live, by measurement.",
        low=0, high=4096, reason="It follows from what the requests do, and changes with them.",
    )  # fmt: skip
    at_once_min: int = declare(
        1, "Least that `at_once` is set to by measurement.",
        low=1, high=4096, reason="A worker that only computes serves one request sooner than two.",
    )  # fmt: skip
    at_once_max: int = declare(
        64, "Most that `at_once` is set to by measurement; under WSGI also at most `threads`, and at most `limit`.",
        low=1, high=4096, reason="As many as `threads`: beyond it a request would wait in its worker.",
    )  # fmt: skip
    auto_lane: bool = declare(
        False, "`greenlane serve` sends what no lane matches to lane `apart` while its route computes for long.",
        reason="Such a lane keeps the places of a worker from the heavy routes: somebody should want that.",
    )  # fmt: skip
    auto_last: bool = declare(
        True, "Without lanes of its own, `greenlane serve` lets those wait for a worker last whose route computes for "
        "long (lane `apart`, with no worker's places kept from it); where `at_once` is set by measurement.",
        reason="When more comes than can be served, who computes little waits behind none who computes much.",
    )  # fmt: skip
    auto_lane_ms: float = declare(
        20.0, "Mean CPU of a request over which a route goes to lane `apart`; under half of it, back.",
        unit="ms", low=1, high=60_000, reason="A tenth of what people notice; light routes take some milliseconds.",
    )  # fmt: skip
    queue_s: float = declare(
        30.0, "Longest wait for a worker under `greenlane serve`, over which a request is refused with 503.",
        unit="s", low=0.001, high=3600, reason="Most clients have gone by then; a lane's deadline says it better.",
    )  # fmt: skip
    stop_s: float = declare(
        30.0, "Time that `greenlane serve` gives requests in progress when it ends or replaces a worker.",
        unit="s", low=0, high=86_400, reason="gunicorn's graceful_timeout.",
    )  # fmt: skip
    boot_s: float = declare(
        120.0, "Time that a worker of `greenlane serve` may take to start; one that takes longer is killed.",
        unit="s", low=0.1, high=86_400, reason="The slowest applications import for a minute on a busy machine.",
    )  # fmt: skip
    replace_stuck: bool = declare(
        False, "`greenlane serve` replaces a worker all of whose requests have been held for `hung_after_s`, and not "
        "only says so.",
        reason="They may be downloads or long polls: only the service knows.",
    )  # fmt: skip
    user: str = declare(
        "", "User that workers and front of `greenlane serve` become when root starts it; '' = they stay root.",
        pattern=_USER, reason="Containers and systemd units start as the right user by themselves.",
    )  # fmt: skip
    env_file: str = declare(
        "", "File with a line NAME=value for each variable that workers of `greenlane serve` get; read again at HUP.",
        pattern=ANY_FILE, reason="What systemd or the container gives is the environment.",
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
    direct: bool = declare(
        False, "Workers of `greenlane serve` accept clients themselves, without a front: ASGI without lanes.",
        reason="The front's one queue is what keeps light requests from waiting behind heavy ones.",
    )  # fmt: skip
    versions: Mapping[str, str] = declare(
        {}, "Other versions of the application under `greenlane serve`: NAME = the directory that it is loaded from.",
        pattern=_SOME_DIRECTORY, reason="`greenlane divert route` sends them requests; without it they get none.",
    )  # fmt: skip
    version_workers: int = declare(
        0, "Workers of each of `versions`; 0 = as many as the application itself shares among its lanes.",
        low=0, high=1024, reason="A version that takes over all requests needs as many.",
    )  # fmt: skip
    version_header: str = declare(
        "", "Request header whose value decides which requests are diverted; '' = chance, one by one.",
        pattern=_MAYBE_HEADER, reason="Only the service knows what names its clients.",
    )  # fmt: skip

    # What clients may do.

    trusted_proxies: tuple[str, ...] = declare(
        (), "Proxies before `greenlane serve` whose X-Forwarded-* is believed; `unix` = who connects to a socket.",
        pattern=_PEER, reason="A header that anybody can send says nothing.",
    )  # fmt: skip
    target_max_bytes: int = declare(
        4000, "Longest request target (path and query) under `greenlane serve`; over it 414.",
        low=64, high=8000, reason="gunicorn's own limit on the request line is 4094.",
    )  # fmt: skip
    headers_max: int = declare(
        100, "Most header lines of a request under `greenlane serve`; over it 431.",
        low=10, high=1000, reason="gunicorn's and Apache's; a browser sends some 20.",
    )  # fmt: skip
    head_max_bytes: int = declare(
        15_360, "Longest head of a request under `greenlane serve`, request line included; over it 400.",
        low=15_360, high=261_120, reason="Each connection has a buffer of this size: HAProxy's own, less its reserve.",
    )  # fmt: skip
    body_max_mb: float = declare(
        0.0, "Longest body of a request under `greenlane serve`; over it 413. 0 = no limit.",
        low=0, high=1_000_000, reason="Nothing is kept of a body: what is too long, only the service knows.",
    )  # fmt: skip
    body_first: bool = declare(
        True, "Under `greenlane serve` a worker gets a request when its body is there, or the first `head_max_bytes`.",
        reason="A client that sends slowly holds no worker; only applications that answer while they read lose by it.",
    )  # fmt: skip
    client_connections: int = declare(
        0, "Most connections of one client's address to `greenlane serve`, `trusted_proxies` excepted; 0 = no limit.",
        low=0, high=1_000_000, reason="Whole companies share an address; 100 and over keeps out only who means harm.",
    )  # fmt: skip
    half_closed: bool = declare(
        False, "Clients of `greenlane serve` that have closed their sending side are answered, and not taken as gone.",
        reason="Most who do so have left; served all the same, they take the places of those who still wait.",
    )  # fmt: skip
    websockets: int = declare(
        1000, "Most open WebSockets of a worker of `greenlane serve`, beside its requests; 0 = they are requests.",
        low=0, high=1_000_000, reason="They last for hours and mostly sleep; each costs a socket and a task.",
    )  # fmt: skip
    tls_bind: tuple[str, ...] = declare(
        (), "Where `greenlane serve` listens with TLS, beside `bind`.",
        pattern=_ADDRESS, reason="There is no certificate until somebody names one.",
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
        False, "What comes on `bind` is sent to https (308), the health path excepted.",
        reason="`bind` may be for neighbours that speak plain HTTP on purpose.",
    )  # fmt: skip
    hsts_s: int = declare(
        0, "Time for which browsers are told to use https only (Strict-Transport-Security); 0 = they are not told.",
        unit="s", low=0, high=63_072_000, reason="A browser keeps to it after the certificate is gone.",
    )  # fmt: skip
    metrics_bind: tuple[str, ...] = declare(
        (), "Where `greenlane serve` answers `metrics_path`, and health beside; then no longer on `bind`.",
        pattern=_ADDRESS, reason="Most services have one address; whose clients are strangers should have two.",
    )  # fmt: skip
    alive_path: str = declare(
        "", "Path at which `greenlane serve` answers 200 while its parent process turns, else 503; '' = off.",
        pattern=URL_PATH, reason="It would hide a path of the application.",
    )  # fmt: skip
    access_log: str = declare(
        "", "Where `greenlane serve` writes a line for each request; an address or a path is syslog's.",
        pattern=_LOG, reason="A line a request is a cost that somebody has to want.",
    )  # fmt: skip
    access_log_format: str = declare(
        "json", "Lines of `access_log`: JSON, or the combined form of Apache and nginx.",
        choices=("json", "combined"), reason="Queue, lane and worker have no place in the combined form.",
    )  # fmt: skip
    request_id_header: str = declare(
        "", "Header with which `greenlane serve` gives each request a new id (a trusted proxy's is kept); '' = none.",
        pattern=_HEADER_OR_NONE, reason="Services that trace have ids already.",
    )  # fmt: skip

    @property
    def assigns(self) -> bool:
        """Whether routes go to lane `apart` live: asked for, or because nobody has said who goes first."""
        return self.auto_lane or (self.auto_last and not self.lanes and not self.at_once)


_NS_PER_MS: Final = 1_000_000
#: Share of the time in which a worker should compute while requests wait: some 1.5 times the knee, 1 + I/O / CPU, which
#: itself loses 16 to 24 % of the capacity when bursts vary.
_BUSY: Final = 0.98
#: From an answer until the next request is there: two turns of the front's and of the worker's loop. Arbitrary.
_GAP_MS: Final = 0.2
#: A second is ten times what one request takes; 20 requests tell a mean to a quarter when they vary by their own size.
_WINDOW_MS: Final = 1000
_WINDOW_JOBS: Final = 20
#: Requests of a route before it goes to a lane apart: the first ones import and fill caches.
_LEARN_AFTER: Final = 10


@dataclass(frozen=True)
class AtOnceRule:
    """Arguments of `_native.AtOnce`, one for one, but `first`."""

    busy: float
    least: int
    most: int
    gap_ns: int
    window_ns: int
    window_jobs: int

    @classmethod
    def of(cls, settings: ServeSettings, *, threads: bool) -> AtOnceRule:
        """Translate settings; `threads`: a worker has no more places than threads, or than its `limit`."""
        bounds = [settings.at_once_max]
        bounds += [settings.threads] if threads else []
        bounds += [settings.limit] if settings.limit else []
        most = min(bounds)
        return cls(
            busy=_BUSY,
            least=min(settings.at_once_min, most),
            most=most,
            gap_ns=round(_GAP_MS * _NS_PER_MS),
            window_ns=_WINDOW_MS * _NS_PER_MS,
            window_jobs=_WINDOW_JOBS,
        )


@dataclass(frozen=True)
class ApartRule:
    """Arguments of `_native.Apart`, one for one."""

    over_ns: int
    learn_after: int

    @classmethod
    def of(cls, settings: ServeSettings) -> ApartRule:
        """Translate settings."""
        return cls(over_ns=round(settings.auto_lane_ms * _NS_PER_MS), learn_after=_LEARN_AFTER)
