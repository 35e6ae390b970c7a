"""Runs a plan in its own process (`python -m greenlane_tools.lab.load`): samples, and whether the schedule was kept.

A process apart, since the caller computes, prints and collects garbage while the load must leave on time; and since
what it costs can then be told from everything else. The child ends with its parent.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greenlane.errors import HostError, SettingsError
from greenlane_tools.lab.load.plan import Plan, Stream
from greenlane_tools.lab.load.schedule import Schedule, schedule
from greenlane_tools.lab.processes import die_with_parent
from greenlane_tools.lab.samples import Samples

#: Called with (requests sent, requests that are over), about five times a second.
Progress = Callable[[int, int], None]

# 5 ms: about a time slice of Linux's scheduler on a busy machine. More is a queue of the generator's own.
_LATE_MS: Final = 5.0
# Of one core, above which lateness is its own fault and not its neighbours'. Arbitrary.
_BUSY_FRAC: Final = 0.8
# This many requests due at one instant take longer than that to leave, at 50 us each.
_BURST: Final = 100
_ATTEMPTED: Final = "send the load"


@dataclass(frozen=True)
class Generated:
    """The result of a plan."""

    samples: Samples
    # int64, by request: when the generator turned to it, ns from the run's start.
    begun_ns: NDArray[np.int64]
    # `time.monotonic_ns()` at the run's start: lays samples beside a recording.
    began_ns: int
    # Wall time of the run with its drain, and CPU of the generator meanwhile.
    took_s: float
    cpu_ms: float
    # Connections opened, and requests sent again because their kept connection turned out to be closed.
    connections: int
    sent_again: int
    # Failed requests by reason: refused, reset, closed early, not HTTP, endless head.
    failures: Mapping[str, int]

    def lag_ms(self, share: float) -> float:
        """How late the generator turned to its requests: a percentile (0 to 1); 0 of no request.

        A wait for one of `most_connections` is not in it: that is latency, by the plan's will.
        """
        lag_ns = self.begun_ns - self.samples.scheduled_ns
        return float(np.quantile(lag_ns, share, method="inverted_cdf")) / 1e6 if len(lag_ns) else 0.0

    @property
    def lag_p99_ms(self) -> float:
        """`lag_ms(0.99)`."""
        return self.lag_ms(0.99)

    @property
    def cpu_frac(self) -> float:
        """Share of one core that the generator used."""
        return self.cpu_ms / (self.took_s * 1e3) if self.took_s else 0.0

    @property
    def saturated(self) -> bool:
        """It could not keep its schedule: 1 % of its requests left more than 5 ms late."""
        return self.lag_p99_ms > _LATE_MS

    def warning(self) -> str:
        """What to tell about a schedule that was not kept, with a remedy; "" = it was kept."""
        if not self.saturated:
            return ""
        late = f"the load generator was late: 1 % of its requests by more than {self.lag_p99_ms:.0f} ms"
        at_once = self._most_at_once()
        if at_once > _BURST:
            return f"{late}: {at_once} were due at one instant, which takes it a while; ask for smaller bursts"
        if self.cpu_frac > _BUSY_FRAC:
            return f"{late}, at {self.cpu_frac:.0%} of a core: ask for fewer requests a second, or kept connections"
        return (
            f"{late}, at {self.cpu_frac:.0%} of a core: the machine is too busy; leave it a core or end other programs"
        )

    def _most_at_once(self) -> int:
        return int(np.unique(self.samples.scheduled_ns, return_counts=True)[1].max(initial=0))


def generate(plan: Plan, *, arrivals: Schedule | None = None, progress: Progress | None = None) -> Generated:
    """Sends a plan and waits for its answers: blocks for its seconds and the drain, at most the longest time-out more.

    Args:
        plan: what to send.
        arrivals: `schedule(plan)`, if it has been made already.
        progress: called on this thread meanwhile.

    Raises:
        HostError: the load cannot be sent: an address that is none, no open files or ports left, a generator that died.
            A server that refuses or dies is no error: its requests are FAILED.
        SettingsError: a stream's path, method or headers cannot be sent.
    """
    arrivals = schedule(plan) if arrivals is None else arrivals
    answer, columns = _run(_order(plan, arrivals, progress is not None), arrivals, progress)
    size = len(arrivals)
    column = {
        name: np.frombuffer(columns, kind, size, at) for name, kind, at in _layout(answer["columns"], size, columns)
    }
    samples = Samples(
        tuple(stream.name for stream in plan.streams),
        arrivals.stream, arrivals.at_ns, column["sent_ns"], column["first_byte_ns"], column["done_ns"],
        column["status"], column["worker"], arrivals.work_ms,
    )  # fmt: skip
    return Generated(
        samples, column["begun_ns"], answer["began_ns"], answer["took_ns"] / 1e9, answer["cpu_ns"] / 1e6,
        answer["connections"], answer["sent_again"], answer["failures"],
    )  # fmt: skip


def _order(plan: Plan, arrivals: Schedule, progress: bool) -> bytes:
    """What the child reads first, as one line; the schedule's columns follow as they are in memory."""
    streams = []
    for stream in plan.streams:
        parts = [part.decode("latin-1") for part in request(stream)]
        head_only, kept = stream.method == "HEAD", stream.connections == "keep-alive"
        timeout_ns = round(stream.timeout_s * 1e9)
        streams.append([stream.address, *parts, head_only, kept, stream.most_connections, timeout_ns])
    fields = {"streams": streams, "size": len(arrivals), "worker_header": plan.worker_header, "progress": progress}
    return json.dumps(fields).encode() + b"\n"


def _run(order: bytes, arrivals: Schedule, progress: Progress | None) -> tuple[dict[str, Any], bytes]:
    with _child() as child:
        assert child.stdin and child.stdout and child.stderr
        with contextlib.suppress(BrokenPipeError):  # it died: what it said, read below, tells why
            child.stdin.write(order)
            for column in (arrivals.at_ns, arrivals.stream, arrivals.work_ms):
                child.stdin.write(np.ascontiguousarray(column).data)
            child.stdin.close()
        answer = _answer(child.stdout, progress)
        columns = child.stdout.read()
        if "columns" not in answer:
            raise _trouble(answer, child.stderr.read(), child.wait())
    return answer, columns


@contextlib.contextmanager
def _child() -> Iterator[subprocess.Popen[bytes]]:
    """The generator's process, in a group of its own: Ctrl-C reaches the caller, which ends it here."""
    # -P: what lies in the current folder must not take the place of a module.
    command = [sys.executable, "-P", "-m", "greenlane_tools.lab.load"]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=die_with_parent, process_group=0)
    try:
        yield child
    finally:
        child.kill()
        for stream in (child.stdin, child.stdout, child.stderr):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]  # each is a pipe
        child.wait()


def _answer(lines: IO[bytes], progress: Progress | None) -> dict[str, Any]:
    """The child's last line; those before are progress. Empty = it died."""
    for line in lines:
        said: dict[str, Any] = json.loads(line)
        if "sent" not in said:
            return said
        if progress is not None:
            progress(said["sent"], said["over"])
    return {}


def _layout(columns: list[tuple[str, str]], size: int, all_bytes: bytes) -> Iterator[tuple[str, str, int]]:
    at = 0
    for name, kind in columns:
        yield name, kind, at
        at += size * np.dtype(kind).itemsize
    assert at == len(all_bytes), "the generator's columns are whole"


def _trouble(answer: dict[str, Any], said: bytes, code: int) -> HostError:
    match answer.get("error"):
        case "descriptors":
            rule, hint = "room for a connection each", "raise it (`ulimit -n`), or ask for kept connections"
            return HostError(_ATTEMPTED, name="open files", value=answer["value"], rule=rule, hint=hint)
        case "ports":
            rule, hint = "one for each connection", "ask for kept connections, for fewer, or for a Unix socket"
            return HostError(_ATTEMPTED, name="free local ports", value=0, rule=rule, hint=hint)
        case "address":
            rule = f"host:port or unix:/path ({answer['why']})"
            return HostError(_ATTEMPTED, name="address", value=answer["value"], rule=rule, hint="correct it")
        case "kernel":
            return HostError(_ATTEMPTED, name="errno", value=answer["value"], rule="Linux 5.11 or newer (epoll_pwait2)")
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    return HostError(_ATTEMPTED, name="generator's exit code", value=code, rule=f"0 ({last or 'it said nothing'})")


# --- The bytes of one request, in three parts: the amount of work stands between the first and the last.


class Request(NamedTuple):
    """What is sent is `before`, then `mark` and the amount if there is one, then `after`."""

    before: bytes
    mark: bytes
    after: bytes


def request(stream: Stream) -> Request:
    """The request of a stream.

    Raises:
        SettingsError: a part of it cannot stand in an HTTP/1.1 head.
    """
    lines = [f"{name}: {value}" for name, value in _headers(stream).items()]
    for name, text in [("method", stream.method), ("path", stream.path), *(("headers", line) for line in lines)]:
        _check(stream, name, text, spaces=name == "headers")
    mark = f"{'&' if '?' in stream.path else '?'}{stream.work.parameter}=" if stream.work else ""
    after = "\r\n".join([" HTTP/1.1", *lines, "", ""]).encode("latin-1") + stream.body
    return Request(f"{stream.method} {stream.path}".encode("latin-1"), mark.encode("latin-1"), after)


def _headers(stream: Stream) -> dict[str, str]:
    """Ours first; the stream's own take their place, whatever their case."""
    host = "localhost" if stream.address.startswith("unix:") else stream.address
    headers = {"Host": host, "Connection": "keep-alive" if stream.connections == "keep-alive" else "close"}
    if stream.body or stream.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(stream.body))
    given = {name.lower() for name in stream.headers}
    return {name: value for name, value in headers.items() if name.lower() not in given} | dict(stream.headers)


def _check(stream: Stream, name: str, text: str, *, spaces: bool) -> None:
    forbidden = "\r\n\0" if spaces else "\r\n\0 "
    if not text or any(letter in forbidden for letter in text) or not text.isascii():
        rule = "ASCII text without line ends" + ("" if spaces else " and spaces")
        raise SettingsError(f"{stream.name}.{name}", text, rule, "percent-encode it", attempted="make the requests")
