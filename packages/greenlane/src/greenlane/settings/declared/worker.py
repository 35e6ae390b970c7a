"""What one worker process serves: its threads, its limit, its paths for health and metrics."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.setting import declare
from greenlane.settings.declared.patterns import URL_PATH

__all__ = ["WorkerSettings"]


@dataclass(frozen=True)
class WorkerSettings:
    """One worker of any host."""

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
        pattern=URL_PATH, reason="It would be readable by whoever reaches the service.",
    )  # fmt: skip
