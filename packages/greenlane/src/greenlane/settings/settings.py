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

    # Permits: which phases may compute, and how long others wait.

    mode: str = declare(
        "on", "`on`: permits in force; `observe`: only count what they would do; `off`: plain threads, not counted.",
        choices=("on", "observe", "off"), reason="Installing Greenlane means wanting it to act.",
    )  # fmt: skip
    canary_frac: float = declare(
        1.0, "Share of the workers in which `mode = on` is in force; the others observe.",
        unit="frac", low=0, high=1, reason="All workers; lower it for a first rollout.",
    )  # fmt: skip
    permits: int = declare(
        0, "CPU permits per process; 0 = one; on a free-threaded build the usable cores but one.",
        low=0, high=1024, reason="Under the GIL a second permit brings slicing back: heavy p99 204 ms against 124.",
    )  # fmt: skip
    interval_ms: float = declare(
        1.0, "Switch interval of the interpreter while a permit is held; longer while the threads that want the "
        "GIL would wake over 4,000 times a second.",
        unit="ms", low=0.05, high=100,
        reason="What wakes from I/O waits this long at each of its steps. At 0.5 ms it gains 2 ms, and heavy phases "
        "take up to a fifth longer (docs/design/0024).",
    )  # fmt: skip
    heavy_ms: float = declare(
        4.0, "A phase with a longer expected CPU burst needs a permit; half as long, in a job that has used three "
        "times as much. It becomes up to 12 ms by itself, while the phases that this lets go are less than a fifth of "
        "the CPU of longer ones.",
        unit="ms", low=0.1, high=1000,
        reason="At 0.9 of a worker, 2 ms makes every tail over 3 times longer (docs/design/0005).",
    )  # fmt: skip

    # Placement: the executors of `greenlane.run` and `@greenlane.placed`.

    placed_queue: int = declare(
        1024, "Calls of `greenlane.run` that may wait for the native thread; further ones are refused (Overloaded).",
        low=1, high=1_000_000, reason="Arbitrary: at 5 ms a call it is a wait of 5 s. It bounds memory and makes a "
        "bug visible.",
    )  # fmt: skip
    placement: str = declare(
        "auto", "Where functions under `@greenlane.placed` run unless they say so themselves; `auto` = chosen by "
        "measurement.",
        choices=("auto", "inline", "thread", "process", "cluster"),
        reason="The best place follows from what a function does, and changes with it.",
    )  # fmt: skip
    placements: Mapping[str, str] = declare(
        {}, "Pins by name: a glob on `module.qualified_name` = a placement. It overrides the code.",
        pattern=PLACEMENT, reason="Nothing is pinned until an operator wants it.",
    )  # fmt: skip
    process_workers: int = declare(
        0, "Worker processes for placed functions; 0 = one less than the usable cores, but two on two cores. They "
        "start when needed.",
        low=0, high=1024, reason="On two cores the event loop mostly sleeps and takes what it needs (placement.md).",
    )  # fmt: skip
    process_warm_up: str = declare(
        "", "Function without arguments that each new worker process runs first; '' = none.",
        pattern=CALLABLE, reason="Only the program knows what to load.",
    )  # fmt: skip
    process_max_calls: int = declare(
        0, "Calls after which a worker process is replaced; 0 = never.",
        low=0, high=1_000_000_000, reason="Only functions that leak need it.",
    )  # fmt: skip
    process_kill_s: float = declare(
        0.0, "Time that an abandoned call may go on before its worker process is killed; 0 = until it ends.",
        unit="s", low=0, high=86_400, reason="Only the program knows whether its work may be cut off.",
    )  # fmt: skip
    cluster_address: str = declare(
        "", "Ray cluster of placement `cluster`: host:port, `auto` (RAY_ADDRESS, or this machine's), `local` (start "
        "one); '' = refused.",
        pattern=CLUSTER, reason="Greenlane connects to nothing unless told to.",
    )  # fmt: skip
    cluster_workers: int = declare(
        8, "Most workers (Ray actors) of one process; they start when needed and end after 60 s without work.",
        low=1, high=10_000, reason="Arbitrary; modest on a shared cluster.",
    )  # fmt: skip

    # Deadlines in and out.

    deadline_headers: tuple[str, ...] = declare(
        deadline.HEADERS,
        "Request headers that bring a deadline in ms (`grpc-timeout` in its own units); the first one present counts.",
        pattern=HEADER, reason="Envoy and gRPC clients send these already.",
    )  # fmt: skip
    deadline_out: bool = declare(
        True, "Send the remaining time to upstreams, in `x-envoy-expected-rq-timeout-ms`.",
        reason="An upstream that knows the deadline can refuse work that would be late.",
    )  # fmt: skip
    deadline_cancel: bool = declare(
        False, "Blocking socket calls of a job past its deadline raise DeadlineExceeded (a TimeoutError).",
        reason="It changes what application code sees, so it is opt-in.",
    )  # fmt: skip

    # One worker of any host.

    threads: int = declare(
        64, "Most threads that the worker starts for requests; they start on demand.",
        low=1, high=4096, reason="About 5 times what a job of 5 ms of CPU and 55 ms of I/O can use; unused threads "
        "are not started.",
    )  # fmt: skip
    cores: str = declare(
        "auto", "Which cores threads use that run requests: `auto` = one for all, so that the GIL is handed on without "
        "waking another one, while that pays and nobody else needs it; `one` = whether it pays or not; `all`. What "
        "computes without the GIL, and what requests start, uses all.",
        choices=("auto", "one", "all"),
        reason="An idle core sleeps: waking a thread there costs more than it computes (docs/design/0030).",
    )  # fmt: skip
    limit: int = declare(
        0, "Concurrency limit of a process, over which the worker answers 503; 0 = none.",
        low=0, high=1_000_000, reason="A wrong limit refuses requests that would have succeeded.",
    )  # fmt: skip
    retry_after_s: int = declare(
        1, "`Retry-After` of a refusal.",
        unit="s", low=0, high=86_400, reason="The header's smallest step; it still spreads the retries.",
    )  # fmt: skip
    health_path: str = declare(
        "", "Path that the worker answers itself, outside the application's threads; '' = off.",
        pattern=URL_PATH, reason="It could hide a path of the application.",
    )  # fmt: skip
    hung_after_s: float = declare(
        30.0, "Health answers 503 if all threads are busy, or `limit` is reached, and no request has ended for this "
        "long. `greenlane serve` replaces a worker whose main thread or event loop has been blocked for this long.",
        unit="s", low=0.1, high=86_400, reason="gunicorn's time-out for a silent worker.",
    )  # fmt: skip
    health_after_s: float = declare(
        2.0, "A trouble that lasts this long makes `greenlane.health` answer 503. The shares of garbage collection, "
        "throttling and calls that keep the GIL are of as much time.",
        unit="s", low=0.5, high=3600, reason="Shorter stalls are everyday; a probe asks every 5 to 10 s.",
    )  # fmt: skip
    metrics_path: str = declare(
        "", "Path at which the worker serves Prometheus metrics; '' = off.",
        pattern=URL_PATH, reason="Everybody who reaches the service could read it.",
    )  # fmt: skip

    # What clients may do.

    head_timeout_s: float = declare(
        10.0, "Time for a client to send the request line and headers.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; ten slow mobile round trips. No thread is held meanwhile.",
    )  # fmt: skip
    body_timeout_s: float = declare(
        30.0, "Longest pause between two pieces of a request's body.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; a phone that changes networks is back within it.",
    )  # fmt: skip
    body_bytes_per_s: int = declare(
        500, "Least rate of a request's body, and with `greenlane serve` of an answer that waits for its client. A "
        "client may fall behind it by `body_timeout_s`; 0 = none.",
        low=0, high=1_000_000_000,
        reason="A client that sends or reads one byte now and then could hold a worker indefinitely.",
    )  # fmt: skip
    proxy_protocol: bool = declare(
        False, "Connections of `trusted_proxies` to `greenlane serve` begin with the PROXY protocol (version 1 or 2).",
        reason="A proxy that does not speak it would be refused.",
    )  # fmt: skip
    http2: bool = declare(
        True, "`greenlane serve` offers HTTP/2 over TLS, and accepts it on `bind` from clients that begin with it.",
        reason="Workers get HTTP/1.1 either way.",
    )  # fmt: skip

    # Watching: control and recording.

    control_dir: str = declare(
        "", "Directory of the control sockets that `greenlane top` and `greenlane mode` use; '' = off.",
        pattern=ANY_DIRECTORY, reason="Greenlane opens no socket unless told to.",
    )  # fmt: skip
    record_folder: str = declare(
        "", "Folder for the recording of this process; '' = none. `greenlane record` sets it for its command.",
        pattern=ANY_DIRECTORY, reason="Greenlane writes no file unless told to.",
    )  # fmt: skip
    record_on: bool = declare(
        True, "Record from the start; otherwise wait for `greenlane record --on`.",
        reason="Naming a folder means wanting a recording.",
    )  # fmt: skip
    record_max_mb: float = declare(
        512.0, "Size limit of `record_folder`, all processes together; the oldest segments go first.",
        low=1, high=1_000_000, reason="Arbitrary; hours of a busy service. A forgotten recording does not fill the "
        "disk.",
    )  # fmt: skip
    record_last_s: int = declare(
        0, "How long segments stay in `record_folder`; 0 = until `record_max_mb` is reached.",
        unit="s", low=0, high=31_536_000, reason="The recording of a command is wanted whole.",
    )  # fmt: skip
    record_stacks: bool = declare(
        True, "Sample the stack of the running thread while another one waits.",
        reason="Without the line, the culprit is only a route.",
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
