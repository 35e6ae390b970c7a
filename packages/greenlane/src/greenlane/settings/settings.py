"""The settings of the guest, each declared once, and the effective ones of one process.

To add a setting, add its field to `Settings`. Other distributions declare theirs in subclasses (`WorkSettings`,
`ServeSettings`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from greenlane import deadline
from greenlane.errors import SettingsError
from greenlane.settings.lane import APART, Lane
from greenlane.settings.patterns import (
    ANY_DIRECTORY,
    ANY_FILE,
    AUTO,
    CALLABLE,
    CLUSTER,
    HEADER,
    PLACEMENT,
    URL_PATH,
)
from greenlane.settings.setting import Setting, checked, declarations, declare

__all__ = ["SETTINGS", "Settings", "settings_of"]


@dataclass(frozen=True)
class Settings:
    """The effective settings of one process. Checked however it is made: `load(...)` or `Settings(permits=2)`."""

    # Permits: who may compute, and for how long others wait for it.

    mode: str = declare(
        "on", "`on` = permits are in force; `observe` = counts what it would do; `off` = plain threads.",
        choices=("on", "observe", "off"), reason="Who installs it wants it to act.",
    )  # fmt: skip
    canary_frac: float = declare(
        1.0, "Share of the workers in which `mode = on` is in force; the others observe.",
        unit="frac", low=0, high=1, reason="All of them: lower it for a first rollout.",
    )  # fmt: skip
    permits: int = declare(
        0, "CPU permits per process; 0 = one; on a free-threaded build the usable cores but one.",
        low=0, high=1024, reason="Under the GIL a second permit brings slicing back: heavy p99 204 ms against 124.",
    )  # fmt: skip
    interval_ms: float = declare(
        0.5, "Switch interval of the interpreter while a permit is held; longer where over two threads want the GIL.",
        unit="ms", low=0.05, high=100,
        reason="What wakes from I/O waits at most this. 0.1 ms gains little (p99 2.2, not 2.6 ms) for more switches; "
        "many who wait at 0.5 ms eat the CPU that they wait for (docs/design/0021).",
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
    wait_max_ms: float = declare(
        10_000.0, "Upper bound of a wait for a permit; then the phase runs without one and is counted.",
        unit="ms", low=1, high=60_000,
        reason="Measured at 0.9 of a worker: who gives up after 250 ms or 1 s competes, and every tail grows.",
    )  # fmt: skip
    share_ms: float = declare(
        100.0, "A phase that has used this much CPU under its permit computes on beside the next one.",
        unit="ms", low=1, high=60_000,
        reason="Best in the model with 50; at 20 two long phases compete too often (docs/design/0024).",
    )  # fmt: skip
    preempt_ms: float = declare(
        0.0, "A phase that has used this much CPU under its permit stands still at a bytecode boundary while another "
        "goes before it (CPython 3.12 and later); 0 = never.",
        unit="ms", low=0, high=1000,
        reason="At 20 short heavy phases gain 10 times at p99, and the longest class pays 1.9 (docs/design/0026).",
    )  # fmt: skip
    max_routes: int = declare(
        512, "Routes that are learned per process; further ones run free together.",
        low=1, high=65_536, reason="Arbitrary; bounds memory where an application has no route names.",
    )  # fmt: skip
    max_phases: int = declare(
        64, "Phases that are told apart per route, by where they begin; further ones share the last.",
        low=1, high=1024, reason="Arbitrary; bounds memory where a route calls from many places.",
    )  # fmt: skip

    # Placement: the executors of `greenlane.run` and `@greenlane.placed`.

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
        pattern=PLACEMENT, reason="Nothing is pinned until somebody who runs the service wants it.",
    )  # fmt: skip
    auto_placements: tuple[str, ...] = declare(
        ("inline", "thread", "process"), "What `auto` chooses from; `thread` is always among them.",
        pattern=AUTO, reason="Who writes `@placed` says that the function may run anywhere on this machine.",
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
        low=0, high=1_000_000, reason="Arbitrary: a call that waits behind 256 others has lost.",
    )  # fmt: skip
    arena_mb: float = declare(
        64.0, "Shared memory for arguments of each worker, and as much for results; what is larger goes a slower way.",
        low=1, high=1_000_000, reason="Some calls of 12 MB at once; only pages that were ever used cost memory.",
    )  # fmt: skip
    process_warm_up: str = declare(
        "", "Function without arguments that each new worker runs before its first call; '' = none.",
        pattern=CALLABLE, reason="Only the program knows what should be loaded.",
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
        pattern=CLUSTER, reason="Nobody is connected to, and nothing started, that was not asked for; '' = refused.",
    )  # fmt: skip
    cluster_queue: int = declare(
        256, "Calls that may wait for a worker on the cluster; the next one is refused (Overloaded).",
        low=0, high=1_000_000, reason="Arbitrary: a call that waits behind 256 others has lost.",
    )  # fmt: skip
    cluster_workers: int = declare(
        8, "Most workers (Ray actors) of a process on the cluster; they start when needed, and go when idle for 60 s.",
        low=1, high=10_000, reason="Arbitrary: on a shared cluster, little.",
    )  # fmt: skip
    cluster_cpus: float = declare(
        1.0, "CPUs that Ray reserves for each worker while it is there.",
        low=0, high=1024, reason="A call computes on one core unless its function says otherwise.",
    )  # fmt: skip

    # The file of what was learned.

    learned_file: str = declare(
        "", "File in which learned bursts survive a restart; '' = none.",
        pattern=ANY_FILE, reason="Greenlane writes nowhere that it was not told to.",
    )  # fmt: skip
    learned_save_s: float = declare(
        30.0, "Seconds between two writes of `learned_file`.",
        unit="s", low=0.1, high=86_400, reason="Arbitrary; a crash loses half a minute of what is learned in a second.",
    )  # fmt: skip

    # Deadlines in and out.

    deadline_headers: tuple[str, ...] = declare(
        deadline.HEADERS,
        "Request headers that bring a deadline (in ms; `grpc-timeout` in its own units); the first present counts.",
        pattern=HEADER, reason="What Envoy and gRPC clients send already.",
    )  # fmt: skip
    deadline_out: bool = declare(
        True, "Pass the time that is left on to upstream calls.",
        reason="An upstream that knows the deadline can refuse what would come too late.",
    )  # fmt: skip
    deadline_out_header: str = declare(
        "x-envoy-expected-rq-timeout-ms", "Header that carries it, in milliseconds.",
        pattern=HEADER, reason="Envoy and our own hosts read it.",
    )  # fmt: skip
    deadline_cancel: bool = declare(
        False, "Blocking socket calls of a job past its deadline raise DeadlineExceeded (a TimeoutError).",
        reason="It changes what application code sees; somebody has to want it.",
    )  # fmt: skip

    # One worker of any host.

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
        pattern=URL_PATH, reason="It would hide a path of the application.",
    )  # fmt: skip
    hung_after_s: float = declare(
        30.0, "The health path answers 503 when all threads are busy (or `limit` is reached) and none ends so long; "
        "`greenlane serve` replaces a worker whose main thread or loop has not turned for so long.",
        unit="s", low=0.1, high=86_400, reason="gunicorn's own time-out for a silent worker.",
    )  # fmt: skip
    metrics_path: str = declare(
        "", "Path at which the worker gives Prometheus metrics; '' = off.",
        pattern=URL_PATH, reason="It would be readable by anybody who reaches the service.",
    )  # fmt: skip

    # What clients may do.

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
    proxy_protocol: bool = declare(
        False, "Connections of `trusted_proxies` to `greenlane serve` begin with the PROXY protocol (version 1 or 2).",
        reason="Who does not speak it would be refused; TCP load balancers do when they are told to.",
    )  # fmt: skip
    http2: bool = declare(
        True, "HTTP/2 to clients of `greenlane serve`: offered over TLS, accepted on `bind` from who begins with it.",
        reason="Workers get HTTP/1.1 either way.",
    )  # fmt: skip

    # Watching: control and recording.

    control_dir: str = declare(
        "", "Directory of the control sockets that `greenlane top` and `greenlane mode` use; '' = off.",
        pattern=ANY_DIRECTORY, reason="Greenlane opens nothing that it was not told to.",
    )  # fmt: skip
    record_folder: str = declare(
        "", "Folder into which the process records; '' = it does not. `greenlane record` sets it for its command.",
        pattern=ANY_DIRECTORY, reason="Greenlane writes nowhere that it was not told to.",
    )  # fmt: skip
    record_on: bool = declare(
        True, "Whether recording is on from the start; else it waits for `greenlane record --on`.",
        reason="Who names a folder wants a recording.",
    )  # fmt: skip
    record_max_mb: float = declare(
        512.0, "Most that the segments in `record_folder` may hold, all processes together; the oldest go first.",
        low=1, high=1_000_000, reason="Arbitrary; hours of a busy service, and no disk is filled by a forgotten one.",
    )  # fmt: skip
    record_last_s: int = declare(
        0, "How long a segment in `record_folder` stays; 0 = until `record_max_mb` is reached.",
        unit="s", low=0, high=31_536_000, reason="A recording of a command is wanted whole.",
    )  # fmt: skip
    record_stacks: bool = declare(
        True, "Sample the stack of who runs while somebody waits.",
        reason="Without the line a culprit is only a route.",
    )  # fmt: skip

    lanes: tuple[Lane, ...] = ()
    # Setting or lanes.NAME.KEY -> where its value came from: "file PATH", "environment NAME" or "flag NAME". Absent =
    # "default": ours, or what the code said that made the settings without `load`.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)).values():
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
        return list(dict.fromkeys([*(lane.name for lane in self.lanes), APART]))


_declared: dict[type[Any], Mapping[str, Setting]] = {}


def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """The settings of `Settings` or a subclass, by name, in the order of the documentation."""
    if kind not in _declared:
        _declared[kind] = declarations(kind)
    return _declared[kind]


#: Those of the guest.
SETTINGS: Final[Mapping[str, Setting]] = settings_of(Settings)
