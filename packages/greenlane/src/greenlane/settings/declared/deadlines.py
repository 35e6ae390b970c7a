"""Deadlines that requests bring, and how they are passed on."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.deadline import HEADERS
from greenlane.setting import declare
from greenlane.settings.declared.patterns import HEADER

__all__ = ["DeadlineSettings"]


@dataclass(frozen=True)
class DeadlineSettings:
    """Deadlines in and out."""

    deadline_headers: tuple[str, ...] = declare(
        HEADERS,
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
