"""Every setting, declared once, and where its value comes from.

A setting is a field of `Settings`: its default, unit, range, meaning, reason for that default, environment name and
flag all come from that one declaration, and so do the documentation (`describe`), the flags of the command line and the
error messages. Values come from `greenlane.toml`, then `GREENLANE_*`, then flags; a later one wins.

Why a closed set: a misspelt key that is silently ignored looks like a setting that does not work, in production.
Unknown keys anywhere are a SettingsError with the nearest known one. The only exception are the variables that
Kubernetes makes up for a service that happens to be called `greenlane` (`GREENLANE_PORT_80_TCP`).

Nothing here raises anything but SettingsError, and nothing reads a file or the environment at import.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane.setting import Pattern, Setting, checked, declarations, declare
from greenlane.settings_sources import from_environment, from_file, from_flags

__all__ = ["APART", "LANE_KEYS", "SETTINGS", "TASK_KEY", "Lane", "Setting", "Settings", "describe", "load"]

DEFAULT: Final = "default"
#: The lane that `auto_lane` fills; `[lanes.apart]` may say more of it.
APART: Final = "apart"

_ANY_FILE: Final[Pattern] = (r"[^\0]*", "a file path, or '' for none")
_ANY_DIRECTORY: Final[Pattern] = (r"[^\0]*", "a directory, or '' for off")
_SOME_DIRECTORY: Final[Pattern] = (r"[^\0]+", "a directory")
_URL_PATH: Final[Pattern] = (r"(/[^\s?#]*)?", "a path that starts with '/' and has no query, or '' for off")
_HEADER: Final[Pattern] = (r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "an HTTP header name")
_MAYBE_HEADER: Final[Pattern] = (r"[A-Za-z0-9-]*", "an HTTP header name of A-Z a-z 0-9 -, or '' for none")
_PLACEMENT: Final[Pattern] = ("auto|inline|thread|process|cluster", "one of auto, inline, thread, process, cluster")
_AUTO: Final[Pattern] = ("inline|thread|process", "one of inline, thread, process")
_CLUSTER: Final[Pattern] = (r"(auto|local|[^\s/:]+:[0-9]{1,5})?", "host:port, auto, local, or '' for none")
_CALLABLE: Final[Pattern] = (r"([A-Za-z_][\w.]*:[A-Za-z_][\w.]*)?", "module:function, or '' for none")
_ADDRESS: Final[Pattern] = (r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s/:]*):[0-9]{1,5}|[./][^\s]*", "host:port or a path")
_PEER: Final[Pattern] = (r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?|unix", "an address, a network such as 10.0.0.0/8, or unix")
_LOG: Final[Pattern] = (r"(stdout|stderr|/[^\s]+|[^\s/:]+:[0-9]{1,5})?", "stdout, stderr, host:port, a path, or ''")
_HEADER_OR_NONE: Final[Pattern] = (r"[A-Za-z0-9-]*", "a header name of letters, digits and dashes, or '' for none")
_ANY_URL: Final[Pattern] = (r"([a-z][a-z0-9+]*://[^\0\s]*)?", "a URL, or '' for none")
_ADDRESS_OR_OFF: Final[Pattern] = (r"(.+:[0-9]{1,5})?", "host:port, or '' for off")
#: Where an order's key is read; `tasks.keys` reads it.
TASK_KEY: Final[Pattern] = (
    r"(|kwargs(\.[^.\s:]+)+|args\.[0-9]+(\.[^.\s:]+)*|header\.[^\s:]+|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)",
    "kwargs.NAME, args.NUMBER, header.NAME, module:function, or '' for none",
)
_TASK_RULE_WORD: Final = r"((limit|least):[0-9]{1,4}|weight:[1-9][0-9]{0,3}|most_frac:(1|0?\.[0-9]{1,6}))"
_TASK_RULE: Final[Pattern] = (
    rf"{_TASK_RULE_WORD}( {_TASK_RULE_WORD})*",
    "one or more of limit:N least:N weight:N most_frac:0.N, with spaces",
)
_TASK_ALLOW: Final[Pattern] = (
    "early-ack|no-confirms|transient|broker",
    "one of early-ack, no-confirms, transient, broker",
)
_LANE_NAME: Final[Pattern] = (r"[A-Za-z0-9_.-]{1,64}", "1 to 64 of the characters A-Z a-z 0-9 _ . -")
_GLOB: Final[Pattern] = (r"[^\0\s](.*[^\0\s])?", "a glob on a route or path, such as '/quote*' or 'GET /bikes/*'")


@dataclasses.dataclass(frozen=True)
class Lane:
    """Jobs with a common rule, from a `[lanes.NAME]` table. The first lane that matches a job is its lane."""

    name: str
    match: tuple[str, ...] = declare(
        (), "Globs (`*`, `?`, `[ab]`; case counts) on the route as the framework names it, or on the path.",
        pattern=_GLOB, reason="A lane has no sensible default members: it must be given.",
    )  # fmt: skip
    weight: str = declare(
        "auto", "Pins every phase of the lane's jobs; `auto` = as learned.",
        choices=("heavy", "light", "auto"), reason="What is measured follows the code; a pin does not.",
    )  # fmt: skip
    deadline_ms: float = declare(
        0.0, "Deadline from arrival, where the request brings none (a sooner one of its own holds); 0 = none.",
        unit="ms", low=0, high=3_600_000, reason="Only the service's owner knows what its callers wait for.",
    )  # fmt: skip
    mode: str = declare(
        "", "Mode of the lane's jobs; '' = that of the service.",
        choices=("", "on", "observe", "off"), reason="One mode for all until somebody wants otherwise.",
    )  # fmt: skip
    limit: int = declare(
        0, "Jobs of the lane in progress per process, over which requests are refused with 503; 0 = none.",
        low=0, high=1_000_000, reason="A wrong limit refuses work that would have succeeded.",
    )  # fmt: skip
    headers: Mapping[str, str] = declare(
        {}, "Request headers that must match as well: NAME = glob. Only `greenlane serve` sees them.",
        pattern=_GLOB, reason="Most lanes are told by their path.",
    )  # fmt: skip
    kind: str = declare(
        "soft", "Under `greenlane serve`: `soft` = the lane may use every shared worker; `hard` = only its own ones.",
        choices=("soft", "hard"), reason="A worker of its own stands idle whenever the lane does.",
    )  # fmt: skip
    processes: int = declare(
        0, "Workers out of `workers` that `greenlane serve` keeps from other lanes; 0 = none.",
        low=0, high=1024, reason="What is kept from others is lost to them while the lane is idle.",
    )  # fmt: skip
    priority: int = declare(
        0, "Who waits in the queue of `greenlane serve` goes before those of lower priority.",
        low=-1000, high=1000, reason="First come first served, until somebody knows better.",
    )  # fmt: skip
    at_once: int = declare(
        0, "Requests of the lane in progress over all workers of `greenlane serve`; others wait. 0 = no such bound.",
        low=0, high=1_000_000, reason="Only somebody who knows the lane can say what it may take at most.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        lane = f"lanes.{self.name}"
        if not isinstance(self.name, str) or not re.fullmatch(_LANE_NAME[0], self.name):
            raise SettingsError(lane, self.name, "a name of " + _LANE_NAME[1], "rename the lane")
        for key in LANE_KEYS.values():
            value = checked(key, getattr(self, key.name), name=f"{lane}.{key.name}")
            object.__setattr__(self, key.name, value)
        if not self.match:
            hint = f'add match = ["/path*"] to [{lane}]'
            raise SettingsError(f"{lane}.match", [], "at least one glob", hint)

    def matches(self, route: str, path: str) -> bool:
        """Whether a job of this route ("GET /bikes/<id>"; "" = not resolved) or raw path belongs to the lane."""
        if self.headers:
            return False  # the front's to judge: nobody tells a process what the headers were
        return any(fnmatch.fnmatchcase(route, glob) or fnmatch.fnmatchcase(path, glob) for glob in self.match)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The effective settings of one process. Checked however it is made: `load(...)` or `Settings(permits=2)`."""

    mode: str = declare(
        "on", "`on` = permits are in force; `observe` = counts what it would do; `off` = plain threads.",
        choices=("on", "observe", "off"), reason="Who installs it wants it to act; the worst case is plain threads.",
    )  # fmt: skip
    canary_frac: float = declare(
        1.0, "Share of the workers in which `mode = on` is in force; the others observe.",
        unit="frac", low=0, high=1, reason="All of them: lower it for a first rollout.",
    )  # fmt: skip
    permits: int = declare(
        0, "CPU permits per process; 0 = one under the GIL, the usable cores on a free-threaded build.",
        low=0, high=1024, reason="Under the GIL a second permit brings slicing back: heavy p99 204 ms against 124.",
    )  # fmt: skip
    interval_ms: float = declare(
        0.5, "Switch interval of the interpreter while a permit is held and other threads exist.",
        unit="ms", low=0.05, high=100,
        reason="What wakes from I/O waits at most this. 0.1 ms gains little (p99 2.2, not 2.6 ms) for more switches.",
    )  # fmt: skip
    heavy_ms: float = declare(
        4.0, "A phase whose expected CPU burst is over this needs a permit.",
        unit="ms", low=0.1, high=1000,
        reason="Measured at 0.9 of a worker: at 2 ms every tail is over 3 times longer (docs/design/0005).",
    )  # fmt: skip
    quantile: float = declare(
        0.9, "Quantile of the learned bursts that is taken as expected.",
        unit="frac", low=0.5, high=0.99,
        reason="A mean calls a phase light that is heavy on every tenth call, a cache miss; a quantile does not.",
    )  # fmt: skip
    margin: float = declare(
        1.0, "Factor on the expected burst before it is compared with `heavy_ms`.",
        low=0.25, high=4, reason="1 = no bias: an error to either side costs little and is learned away.",
    )  # fmt: skip
    learn_after: int = declare(
        3, "Samples of a (route, phase) before it is judged; until then it runs free.",
        low=1, high=100, reason="The first call imports and fills caches; two more tell it from the rule.",
    )  # fmt: skip
    discipline: str = declare(
        "fifo", "Who gets the next permit: first come, earliest deadline, or shortest expected burst.",
        choices=("fifo", "deadline", "shortest"),
        reason="First come first served has the best tail for work of one kind and needs no deadlines.",
    )  # fmt: skip
    ageing_ms: float = declare(
        1000.0, "Wait after which a phase goes first, whatever the discipline says; 0 = never.",
        unit="ms", low=0, high=3_600_000, reason="Arbitrary; a tenth of the longest wait, so that nobody starves.",
    )  # fmt: skip
    wait_factor: float = declare(
        4.0, "A wait for a permit is bounded by this factor times the expected work ahead in the queue.",
        low=0.1, high=1000, reason="Bursts vary; four times what was expected ahead says that the estimate was wrong.",
    )  # fmt: skip
    wait_max_ms: float = declare(
        10_000.0, "Upper bound of that wait; then the phase runs without a permit and is counted.",
        unit="ms", low=1, high=60_000,
        reason="Measured at 0.9 of a worker: who gives up after 250 ms or 1 s competes, and every tail grows.",
    )  # fmt: skip
    hold_factor: float = declare(
        8.0, "A hold beyond this factor times its expected burst admits one more phase.",
        low=1, high=1000,
        reason="A spin wait or mislearned phase must not stop the others; rare under ordinary variance.",
    )  # fmt: skip
    hold_min_ms: float = declare(
        50.0, "Holds up to this never admit one more.",
        unit="ms", low=1, high=60_000, reason="Short bursts vary by large factors and end by themselves.",
    )  # fmt: skip
    max_routes: int = declare(
        512, "Routes that are learned per process; further ones run free together.",
        low=1, high=65_536, reason="Arbitrary; bounds memory where an application has no route names.",
    )  # fmt: skip
    max_phases: int = declare(
        32, "Phases that are told apart per job; later ones share the last.",
        low=1, high=1024, reason="Arbitrary; bounds memory where a job makes thousands of calls.",
    )  # fmt: skip
    inline_ms: float = declare(
        1.0, "Calls of `greenlane.run` that are expected to take at most this run where their caller is.",
        unit="ms", low=0, high=1000,
        reason="Another thread costs some 0.05 ms and up to an interval to come back; a loop bears 1 ms.",
    )  # fmt: skip
    placed_queue: int = declare(
        1024, "Calls of `greenlane.run` that may wait for the native thread; the next one is refused (Overloaded).",
        low=1, high=1_000_000, reason="Arbitrary: at 5 ms a call a wait of 5 s; memory is bounded, a bug is seen.",
    )  # fmt: skip
    placement: str = declare(
        "auto", "Where functions under `@greenlane.placed` run that say nothing themselves; `auto` = as measured.",
        choices=("auto", "inline", "thread", "process", "cluster"),
        reason="Where a function runs best follows from what it does, and changes with it.",
    )  # fmt: skip
    placements: Mapping[str, str] = declare(
        {}, "Pins by name: glob on `module.qualified_name` = placement; stronger than what the code says.",
        pattern=_PLACEMENT, reason="Nothing is pinned until somebody who runs the service wants it.",
    )  # fmt: skip
    auto_placements: tuple[str, ...] = declare(
        ("inline", "thread", "process"), "What `auto` chooses from; `thread` is always among them.",
        pattern=_AUTO, reason="Who writes `@placed` says that the function may run anywhere on this machine.",
    )  # fmt: skip
    explore_ms: float = declare(
        500.0, "What looking for a better placement may cost the calls of one function in a minute, over its best one.",
        unit="ms", low=0, high=60_000, reason="Under 1 % of a minute; 0 = nothing is tried, only the thread is used.",
    )  # fmt: skip
    process_workers: int = declare(
        0, "Worker processes for placed functions; 0 = usable cores less one, but both of two. Start when needed.",
        low=0, high=1024, reason="Of two cores the loop, which mostly sleeps, takes what it needs: see placement.md.",
    )  # fmt: skip
    process_queue: int = declare(
        256, "Calls that may wait for a worker process; the next one is refused (Overloaded).",
        low=0, high=1_000_000, reason="Arbitrary: what waits behind so many has lost.",
    )  # fmt: skip
    arena_mb: float = declare(
        64.0, "Shared memory for arguments of each worker, and as much for results; what is larger goes a slower way.",
        low=1, high=1_000_000, reason="Some calls of 12 MB at once; only pages that were ever used cost memory.",
    )  # fmt: skip
    process_warm_up: str = declare(
        "", "Function without arguments that each new worker runs before its first call; '' = none.",
        pattern=_CALLABLE, reason="Only the program knows what should be loaded.",
    )  # fmt: skip
    process_max_calls: int = declare(
        0, "Calls after which a worker is replaced by a fresh one; 0 = never.",
        low=0, high=1_000_000_000, reason="For functions that leak; others gain nothing.",
    )  # fmt: skip
    process_kill_s: float = declare(
        0.0, "Time that a call whose caller has left may go on before its worker is killed; 0 = to its own end.",
        unit="s", low=0, high=86_400, reason="Only the program knows whether what it does may be cut off.",
    )  # fmt: skip
    cluster_address: str = declare(
        "", "Ray of placement `cluster`: host:port, `auto` (RAY_ADDRESS, or this machine's), `local` (one of its own).",
        pattern=_CLUSTER, reason="Nobody is connected to, and nothing started, that was not asked for; '' = refused.",
    )  # fmt: skip
    cluster_queue: int = declare(
        256, "Calls that may wait for a worker on the cluster; the next one is refused (Overloaded).",
        low=0, high=1_000_000, reason="Arbitrary: what waits behind so many has lost.",
    )  # fmt: skip
    cluster_workers: int = declare(
        8, "Most workers (Ray actors) of a process on the cluster; they start when needed, and go when idle for 60 s.",
        low=1, high=10_000, reason="Arbitrary: on a shared cluster, little.",
    )  # fmt: skip
    cluster_cpus: float = declare(
        1.0, "CPUs that Ray reserves for each worker while it is there.",
        low=0, high=1024, reason="A call computes on one core unless its function says otherwise.",
    )  # fmt: skip
    learned_file: str = declare(
        "", "File in which learned bursts survive a restart; '' = none.",
        pattern=_ANY_FILE, reason="Greenlane writes nowhere that it was not told to.",
    )  # fmt: skip
    learned_save_s: float = declare(
        30.0, "Seconds between two writes of `learned_file`.",
        unit="s", low=0.1, high=86_400, reason="Arbitrary; a crash loses half a minute of what is learned in a second.",
    )  # fmt: skip
    deadline_headers: tuple[str, ...] = declare(
        ("x-envoy-expected-rq-timeout-ms", "grpc-timeout"),
        "Request headers that bring a deadline (in ms; `grpc-timeout` in its own units); the first present counts.",
        pattern=_HEADER, reason="What Envoy and gRPC clients send already.",
    )  # fmt: skip
    deadline_out: bool = declare(
        True, "Pass the time that is left on to upstream calls.",
        reason="An upstream that knows the deadline can refuse what would come too late.",
    )  # fmt: skip
    deadline_out_header: str = declare(
        "x-envoy-expected-rq-timeout-ms", "Header that carries it, in milliseconds.",
        pattern=_HEADER, reason="Envoy and our own hosts read it.",
    )  # fmt: skip
    deadline_cancel: bool = declare(
        False, "Blocking socket calls of a job past its deadline raise DeadlineExceeded (a TimeoutError).",
        reason="It changes what application code sees; somebody has to want it.",
    )  # fmt: skip
    threads: int = declare(
        64, "Most threads that the worker starts for requests; they are made on demand.",
        low=1, high=4096, reason="Some 5 times the knee of a job of 5 ms CPU and 55 ms I/O; idle threads are not made.",
    )  # fmt: skip
    limit: int = declare(
        0, "Requests in progress per process, over which the worker answers 503; 0 = none.",
        low=0, high=1_000_000, reason="A wrong limit refuses work that would have succeeded.",
    )  # fmt: skip
    retry_after_s: int = declare(
        1, "`Retry-After` of a refusal.",
        unit="s", low=0, high=86_400, reason="The header's smallest step that still spreads the retries.",
    )  # fmt: skip
    health_path: str = declare(
        "", "Path that the worker answers outside the application's threads; '' = off.",
        pattern=_URL_PATH, reason="It would hide a path of the application.",
    )  # fmt: skip
    hung_after_s: float = declare(
        30.0, "The health path answers 503 when all threads are busy (or `limit` is reached) and none ends so long; "
        "`greenlane serve` replaces a worker whose main thread or loop has not turned for so long.",
        unit="s", low=0.1, high=86_400, reason="gunicorn's own time-out for a silent worker.",
    )  # fmt: skip
    metrics_path: str = declare(
        "", "Path at which the worker gives Prometheus metrics; '' = off.",
        pattern=_URL_PATH, reason="It would be readable by whoever reaches the service.",
    )  # fmt: skip
    bind: tuple[str, ...] = declare(
        ("127.0.0.1:8000",), "Where `greenlane serve` listens: host:port, [IPv6]:port, or the path of a Unix socket.",
        pattern=_ADDRESS, reason="Reachable from this machine only, until somebody wants more.",
    )  # fmt: skip
    workers: int = declare(
        0, "Worker processes of `greenlane serve`, all lanes together; 0 = one per usable core, but at least 2.",
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
    versions: Mapping[str, str] = declare(
        {}, "Other versions of the application under `greenlane serve`: NAME = the directory that it is loaded from.",
        pattern=_SOME_DIRECTORY, reason="`greenlane divert route` sends them requests; without it they get none.",
    )  # fmt: skip
    version_workers: int = declare(
        0, "Workers of each of `versions`; 0 = as many as the application itself shares among its lanes.",
        low=0, high=1024, reason="Whoever is to take over everything at once needs as many.",
    )  # fmt: skip
    version_header: str = declare(
        "", "Request header whose value decides which requests are diverted; '' = chance, one by one.",
        pattern=_MAYBE_HEADER, reason="Only the service knows what names its clients.",
    )  # fmt: skip
    head_timeout_s: float = declare(
        10.0, "Time a client has to send request line and headers.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; ten times a slow mobile round trip, and a thread is not held.",
    )  # fmt: skip
    body_timeout_s: float = declare(
        30.0, "Time between two pieces of a request's body.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; a phone that changes networks comes back within it.",
    )  # fmt: skip
    body_bytes_per_s: int = declare(
        500, "Least mean rate of a request's body, after the first `body_timeout_s` of waiting for it; 0 = none.",
        low=0, high=1_000_000_000, reason="A client that sends a byte now and then would hold a worker for ever.",
    )  # fmt: skip
    trusted_proxies: tuple[str, ...] = declare(
        (), "Proxies before `greenlane serve` whose X-Forwarded-* is believed; `unix` = who connects to a socket.",
        pattern=_PEER, reason="A header that anybody can send says nothing.",
    )  # fmt: skip
    proxy_protocol: bool = declare(
        False, "Connections of `trusted_proxies` to `greenlane serve` begin with the PROXY protocol (version 1 or 2).",
        reason="Who does not speak it would be refused; TCP load balancers do when they are told to.",
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
    http2: bool = declare(
        True, "HTTP/2 to clients of `greenlane serve`: offered over TLS, accepted on `bind` from who begins with it.",
        reason="Workers get HTTP/1.1 either way.",
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
        "", "PEM file: the certificate, then its chain. Read again when it changes; '' = no TLS.",
        pattern=_ANY_FILE, reason="Certificates are made elsewhere.",
    )  # fmt: skip
    tls_key: str = declare(
        "", "PEM file: the certificate's key, without a passphrase; '' = it stands in `tls_certificate`.",
        pattern=_ANY_FILE, reason="Some tools write one file, some two.",
    )  # fmt: skip
    tls_min_version: str = declare(
        "1.2", "Oldest TLS version that clients may speak.",
        choices=("1.2", "1.3"), reason="Older ones are forbidden by RFC 8996; clients without 1.3 are still about.",
    )  # fmt: skip
    tls_redirect: bool = declare(
        False, "What comes on `bind` is sent to https (308), the health path excepted.",
        reason="`bind` may be for neighbours that speak plain HTTP on purpose.",
    )  # fmt: skip
    access_log: str = declare(
        "", "Where `greenlane serve` writes a line of JSON for each request; an address or a path is syslog's.",
        pattern=_LOG, reason="A line a request is a cost that somebody has to want.",
    )  # fmt: skip
    request_id_header: str = declare(
        "", "Header with which `greenlane serve` gives each request a new id (a trusted proxy's is kept); '' = none.",
        pattern=_HEADER_OR_NONE, reason="Services that trace have ids already.",
    )  # fmt: skip
    task_slots: int = declare(
        200, "Calls at once of a Celery worker: orders that run, each on a thread or green thread of its own.",
        low=1, high=4096, reason="What a loop of 3 ms of CPU a task and 300 ms of waiting can use, twice over.",
    )  # fmt: skip
    task_key: str = declare(
        "", "Where an order's upstream is read: kwargs.NAME, args.NUMBER, header.NAME, module:function; '' = one.",
        pattern=TASK_KEY, reason="Only the application knows which argument names whom it calls.",
    )  # fmt: skip
    task_order: str = declare(
        "", "Where the business's name of an order is read, as `task_key`; '' = header greenlane-order, or task id.",
        pattern=TASK_KEY, reason="A task's id is new for each message; an order that is sent again keeps its name.",
    )  # fmt: skip
    task_store: str = declare(
        "", "Store of what was done: sqlite:///FILE, postgresql://…, redis://…; '' = this process's memory alone.",
        pattern=_ANY_URL, reason="Greenlane writes nowhere that it was not told to.",
    )  # fmt: skip
    task_store_lease_s: float = declare(
        30.0, "Time after the last sign of a worker process until others may take up what it had begun.",
        unit="s", low=1, high=3600, reason="Longer than a process stands still that lives; short enough to wait for.",
    )  # fmt: skip
    task_store_keep_s: float = declare(
        604_800.0, "How long the store remembers an order that is done, or had no effect, after its last change.",
        unit="s", low=60, high=315_360_000, reason="7 days: longer than any broker should hold an order.",
    )  # fmt: skip
    task_store_keep_unknown_s: float = declare(
        7_776_000.0, "How long it remembers one of which nobody knows how it ended.",
        unit="s", low=60, high=315_360_000, reason="90 days: somebody should look at such orders first.",
    )  # fmt: skip
    task_attempts: int = declare(
        5, "Attempts at an order, all workers together; then it goes to the dead letters. 1 = none is tried again.",
        low=1, high=1000, reason="Arbitrary: with the waits between them, an upstream's short outage is outlived.",
    )  # fmt: skip
    task_deliveries: int = declare(
        16, "Deliveries of a message after which it goes to the dead letters: it ends whoever takes it.",
        low=1, high=100_000, reason="Each restart of a worker counts as one. RabbitMQ 4 drops a message after 20.",
    )  # fmt: skip
    task_retry_s: float = declare(
        1.0, "Longest wait before the second attempt; it doubles with each further one; drawn evenly from 0.",
        unit="s", low=0.001, high=3600, reason="Arbitrary; a connection that was reset is worth a second try at once.",
    )  # fmt: skip
    task_retry_most_s: float = declare(
        60.0, "Upper bound of that wait.",
        unit="s", low=0.001, high=1200, reason="The order stays unacknowledged meanwhile: RabbitMQ allows 30 minutes.",
    )  # fmt: skip
    task_retry_budget_frac: float = declare(
        0.2, "Retries for each first attempt; what is over waits longer, it is not dropped.",
        unit="frac", low=0, high=10, reason="An upstream that fails gets a fifth more calls, not five times as many.",
    )  # fmt: skip
    task_soft_limit_s: float = declare(
        0.0, "Soft time limit of tasks that have none: SoftTimeLimitExceeded is raised in them; 0 = none.",
        unit="s", low=0, high=86_400, reason="Only the application knows how long its calls may take.",
    )  # fmt: skip
    task_hard_limit_s: float = declare(
        0.0, "Hard time limit of tasks that have none: the order is given up and tried again; 0 = none.",
        unit="s", low=0, high=86_400, reason="Only the application knows how long its calls may take.",
    )  # fmt: skip
    task_grace_s: float = declare(
        5.0, "Time from a soft limit or a deadline to the hard one, where none is given.",
        unit="s", low=0, high=3600, reason="Arbitrary: to close a connection and write a line.",
    )  # fmt: skip
    task_parked_most: int = declare(
        1000, "Orders that may wait in the worker, all keys together; further ones go back to the broker for a while.",
        low=1, high=60_000, reason="Some seconds of work for 200 slots, and a few MB.",
    )  # fmt: skip
    task_parked_most_mb: float = declare(
        64.0, "Memory that their messages may take.",
        unit="MB", low=0.1, high=100_000, reason="Arbitrary; 64 kB an order.",
    )  # fmt: skip
    task_parked_most_s: float = declare(
        600.0, "Time that an order may wait in the worker; then it goes back to the broker for a while.",
        unit="s", low=1, high=1500, reason="RabbitMQ closes a channel whose message is unacknowledged for 30 minutes.",
    )  # fmt: skip
    task_key_parked_frac: float = declare(
        0.5, "Largest share of the parked orders, and of their memory, that one key may have.",
        unit="frac", low=0.001, high=1, reason="A flood of one key leaves room for the others' orders.",
    )  # fmt: skip
    task_limit: int = declare(
        0, "Calls of one key at once; 0 = adaptive, by latency relative to the key's own.",
        low=0, high=4096, reason="No upstream says what it bears; its latency does.",
    )  # fmt: skip
    task_least: int = declare(
        1, "Calls that a key may always have at once while a slot is free; the adaptive limit never falls below.",
        low=0, high=4096, reason="Whoever is slow still gets on.",
    )  # fmt: skip
    task_most_frac: float = declare(
        0.5, "Largest share of the slots of one key alone; two such keys get a third each, and so on. 1 = no bound.",
        unit="frac", low=0.001, high=1, reason="However many upstreams hang, slots stay free for the others.",
    )  # fmt: skip
    task_rules: Mapping[str, str] = declare(
        {}, "Rules of single keys: key = `limit:5 least:2 weight:3 most_frac:0.2`, or some of these.",
        pattern=_TASK_RULE, reason="One rule for all keys until somebody knows more about one of them.",
    )  # fmt: skip
    task_failure_frac: float = declare(
        0.5, "Share of failed calls of a key from which its breaker opens; 0 = never.",
        unit="frac", low=0, high=1, reason="An upstream that fails every other call is not helped by more.",
    )  # fmt: skip
    task_slow_frac: float = declare(
        0.8, "Share of slow calls of a key from which its breaker opens; 0 = never.",
        unit="frac", low=0, high=1, reason="Some upstreams are slow on some calls; nearly all slow is another state.",
    )  # fmt: skip
    task_slow_factor: float = declare(
        5.0, "A call is slow that takes this many times what the key's calls usually take (and over 110 ms).",
        low=1, high=1000, reason="Arbitrary; well beyond what load alone does below saturation.",
    )  # fmt: skip
    task_slow_ms: float = declare(
        0.0, "A call is slow that takes longer than this; 0 = by `task_slow_factor`.",
        unit="ms", low=0, high=86_400_000, reason="An upstream that is slow by nature is not to be punished for it.",
    )  # fmt: skip
    task_breaker_calls: int = declare(
        20, "Last calls of a key that its breaker judges by; fewer than half of them open nothing.",
        low=1, high=64, reason="A second of ten orders, as quickly noticed for a rare key as for a busy one.",
    )  # fmt: skip
    task_probes: int = declare(
        3, "Calls that an open breaker lets through when its time is over.",
        low=1, high=1000, reason="One could be chance; each is an order at risk.",
    )  # fmt: skip
    task_probe_s: float = declare(
        5.0, "Time limit of a probe after failures; it grows with the open time. 0 = none.",
        unit="s", low=0, high=3600, reason="Arbitrary; a call that hangs must not keep the answer back.",
    )  # fmt: skip
    task_open_s: float = declare(
        5.0, "Time that a breaker is open before it probes; it doubles while the probes fail.",
        unit="s", low=0.001, high=3600, reason="Arbitrary; as long as a restart of the upstream takes.",
    )  # fmt: skip
    task_open_most_s: float = declare(
        60.0, "Longest time that a breaker is open before it probes again.",
        unit="s", low=0.001, high=3600, reason="Who is well again waits at most so long.",
    )  # fmt: skip
    task_keys: int = declare(
        10_000, "Keys without orders that are remembered; beyond it, or after 10 minutes, they are forgotten.",
        low=1, high=10_000_000, reason="Some 10 MB.",
    )  # fmt: skip
    task_return_s: float = declare(
        5.0, "Time that a returned order waits at the broker; it doubles up to four times when it is returned again.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; returning costs little then, and it is short beside its wait.",
    )  # fmt: skip
    task_shutdown_s: float = declare(
        30.0, "Time that running orders have when the worker ends; what still runs then stays unacknowledged.",
        unit="s", low=0, high=1200, reason="What Kubernetes gives a pod before it kills it.",
    )  # fmt: skip
    task_metrics: str = declare(
        "", "Address at which a worker of orders gives Prometheus metrics, host:port; '' = off.",
        pattern=_ADDRESS_OR_OFF, reason="Whoever reaches it can read it; workers of a machine need a port each.",
    )  # fmt: skip
    task_allow: tuple[str, ...] = declare(
        (), "What the worker would refuse because it loses orders: early-ack, no-confirms, transient, broker.",
        pattern=_TASK_ALLOW, reason="Who wants to lose orders has to say so.",
    )  # fmt: skip
    diversion: str = declare(
        "", "Where the shares of diverted orders lie: file:///FOLDER, redis://…; '' = nothing is diverted.",
        pattern=_ANY_URL, reason="Greenlane looks nowhere that it was not told to.",
    )  # fmt: skip
    control_dir: str = declare(
        "", "Directory of the control sockets that `greenlane top` and `greenlane mode` use; '' = off.",
        pattern=_ANY_DIRECTORY, reason="Greenlane opens nothing that it was not told to.",
    )  # fmt: skip
    record_folder: str = declare(
        "", "Folder into which the process records; '' = it does not. `greenlane record` sets it for its command.",
        pattern=_ANY_DIRECTORY, reason="Greenlane writes nowhere that it was not told to.",
    )  # fmt: skip
    record_on: bool = declare(
        True, "Whether recording is on from the start; else it waits for `greenlane record --on`.",
        reason="Who names a folder wants a recording.",
    )  # fmt: skip
    record_max_mb: float = declare(
        512.0, "Most that the segments in `record_folder` may hold, all processes together; the oldest go first.",
        low=1, high=1_000_000, reason="Arbitrary; hours of a busy service, and no disk is filled by a forgotten one.",
    )  # fmt: skip
    record_stacks: bool = declare(
        True, "Sample the stack of who runs while somebody waits.",
        reason="Without the line a culprit is only a route.",
    )  # fmt: skip
    lanes: tuple[Lane, ...] = ()
    # Setting or lanes.NAME.KEY -> where its value came from: "file PATH", "environment NAME" or "flag NAME". Absent =
    # "default": ours, or what the code said that made the settings without `load`.
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for setting in SETTINGS.values():
            object.__setattr__(self, setting.name, checked(setting, getattr(self, setting.name)))
        if self.health_path and self.health_path == self.metrics_path:
            raise SettingsError(
                "metrics_path", self.metrics_path, "another path than health_path", "give each a path of its own"
            )
        lanes = self.lanes
        if not isinstance(lanes, Iterable) or not all(isinstance(lane, Lane) for lane in lanes):
            raise SettingsError("lanes", lanes, "Lane objects", 'make them with Lane(name, match=("/path*",))')
        object.__setattr__(self, "lanes", tuple(lanes))
        names = [lane.name for lane in self.lanes]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(f"lanes.{name}", name, "one lane of a name", "rename one of them")

    def lane(self, route: str, path: str) -> Lane | None:
        """The first lane that matches, in the order of the file; None = no lane."""
        return next((lane for lane in self.lanes if lane.matches(route, path)), None)

    def lane_names(self) -> list[str]:
        """Of all lanes that a request may have, that of the routes apart included."""
        return list(dict.fromkeys([*(lane.name for lane in self.lanes), *([APART] if self.assigns else [])]))

    @property
    def assigns(self) -> bool:
        """Whether routes go to lane `apart` live: asked for, or because nobody has said who goes first."""
        return self.auto_lane or (self.auto_last and not self.lanes and not self.at_once)

    def effective(self) -> list[dict[str, object]]:
        """One row a setting: `setting`, `value`, `unit`, `origin`; lanes as `lanes.NAME.KEY`."""
        rows = []
        for setting in SETTINGS.values():
            rows.append(_effective(setting.name, getattr(self, setting.name), setting, self.origins))
        for lane in self.lanes:
            for key in LANE_KEYS.values():
                rows.append(_effective(f"lanes.{lane.name}.{key.name}", getattr(lane, key.name), key, self.origins))
        return rows


# By name, in the order of the documentation.
SETTINGS: Final[Mapping[str, Setting]] = declarations(Settings)
LANE_KEYS: Final[Mapping[str, Setting]] = declarations(Lane)


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    file: Path | None = None,
) -> Settings:
    """The effective settings: defaults < file < environment < flags.

    Args:
        flags: setting's name -> value, typed or as text; None = not given. `lanes` takes {lane: {key: value}}.
        environ: variables; `GREENLANE_CONFIG` names the file ("" = read none).
        file: the settings file; None = as `GREENLANE_CONFIG` says, else `greenlane.toml` in the current directory if
            there is one.

    Raises:
        SettingsError: anything unknown, malformed, out of range or unreadable.

    Cost: reads at most one file of up to 1 MiB.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    sources = (
        from_file(file, environ, SETTINGS, LANE_KEYS),
        from_environment(environ, SETTINGS),
        from_flags(flags or {}, SETTINGS, LANE_KEYS),
    )
    for source in sources:
        for name, value, origin in source:
            values[name] = value
            origins[name] = origin
    if "lanes" in values:
        origin = origins.pop("lanes")
        for name, keys in values["lanes"].items():
            origins.update({f"lanes.{name}.{key}": origin for key in keys})
        values["lanes"] = tuple(_lane(name, keys, origin) for name, keys in values["lanes"].items())
    return Settings(**values, origins=origins)


def _lane(name: str, keys: Mapping[str, Any], origin: str) -> Lane:
    try:
        return Lane(name, **keys)
    except SettingsError as error:
        attempted = f"read the {origin}"
        raise SettingsError(error.setting, error.value, error.rule, error.hint, attempted=attempted) from None


def describe() -> list[dict[str, object]]:
    """One row a setting, for documentation.

    Keys: `setting`, `kind`, `default`, `unit`, `rule`, `what`, `reason`, `environment`, `flag`. Lane keys follow as
    `lanes.NAME.KEY`; they have neither environment name nor flag.
    """
    rows = [_described(setting.name, setting, setting.env, setting.flag) for setting in SETTINGS.values()]
    return rows + [_described(f"lanes.NAME.{key.name}", key, "", "") for key in LANE_KEYS.values()]


def _described(name: str, setting: Setting, env: str, flag: str) -> dict[str, object]:
    return {
        "setting": name,
        "kind": setting.kind,
        "default": _plain(setting.default),
        "unit": setting.unit,
        "rule": setting.rule,
        "what": setting.what,
        "reason": setting.reason,
        "environment": env,
        "flag": flag,
    }


def _effective(name: str, value: object, setting: Setting, origins: Mapping[str, str]) -> dict[str, object]:
    return {"setting": name, "value": _plain(value), "unit": setting.unit, "origin": origins.get(name, DEFAULT)}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
