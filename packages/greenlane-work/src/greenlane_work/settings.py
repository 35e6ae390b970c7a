"""The settings of workers of orders: slots, the store, attempts, limits and breakers by key, diversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane.settings import Settings
from greenlane.settings.setting import Pattern, declare

__all__ = ["TASK_KEY", "WorkSettings"]

_ADDRESS_OR_OFF: Final[Pattern] = (r"((.+:)?[0-9]{1,5})?", "port, host:port, or '' for off")
_ANY_URL: Final[Pattern] = (r"([a-z][a-z0-9+]*://[^\0\s]*)?", "a URL, or '' for none")
#: Where an order's key is read; `tasks.keys` reads it.
TASK_KEY: Final[Pattern] = (
    r"(|kwargs(\.[^.\s:]+)+|args\.[0-9]+(\.[^.\s:]+)*|header\.[^\s:]+|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)",
    "kwargs.NAME, args.NUMBER, header.NAME, module:function, or '' for none",
)
_TASK_KEYS: Final[Pattern] = (rf"{TASK_KEY[0]}( {TASK_KEY[0]})?", f"{TASK_KEY[1]}; or two of these with a space")
_TASK_RULE_WORD: Final = (
    r"((limit|shared|least|retries):[0-9]{1,4}|weight:[1-9][0-9]{0,3}|most_frac:(1|0?\.[0-9]{1,6}))"
)
_TASK_RULE: Final[Pattern] = (
    rf"{_TASK_RULE_WORD}( {_TASK_RULE_WORD})*",
    "one or more of limit:N shared:N least:N weight:N most_frac:0.N retries:N, with spaces",
)
_TASK_ALLOW: Final[Pattern] = (
    "early-ack|no-confirms|transient|broker|per-child",
    "one of early-ack, no-confirms, transient, broker, per-child",
)


#: What `task_parked_most` = 0 stands for where there are keys. Arbitrary: some seconds of work for 200 slots.
_PARKED_MOST: Final = 1_000
#: Without keys: receives only as many as may wait.
_UNBOUNDED: Final = 60_000


@dataclass(frozen=True)
class WorkSettings(Settings):
    """A Celery worker under `greenlane celery`."""

    task_slots: int = declare(
        200, "Concurrency of a Celery worker: orders that run, each on a thread or green thread of its own.",
        low=1, high=4096, reason="Twice what one process can use with 3 ms of CPU and 300 ms of waiting per task.",
    )  # fmt: skip
    task_key: str = declare(
        "", "Where the name of an order's upstream stands: kwargs.NAME, args.NUMBER, header.NAME, module:function; "
        "two of these, with a space: its provider and its own; '' = one key for all.",
        pattern=_TASK_KEYS, reason="Only the application knows which argument names its upstream.",
    )  # fmt: skip
    task_order: Mapping[str, str] = declare(
        {}, "By task: where the business's own name of an order stands, or whose it is and its name, with a space. "
        "The header greenlane-order goes before it; without either it is the task id.",
        pattern=_TASK_KEYS,
        reason="An order that is sent again keeps its name; the argument differs from task to task.",
    )  # fmt: skip
    task_store: str = declare(
        "", "Store of finished orders: sqlite:///FILE, postgresql://…, redis://…; '' = the memory of this process.",
        pattern=_ANY_URL, reason="Greenlane writes no file unless told to.",
    )  # fmt: skip
    task_store_lease_s: float = declare(
        30.0, "Time after the last sign of life of a worker process until others may take over its orders.",
        unit="s", low=1, high=3600, reason="Longer than a living process pauses; short enough to wait for.",
    )  # fmt: skip
    task_store_keep_s: float = declare(
        604_800.0, "How long the store remembers an order; one with an unknown end for 90 days at least.",
        unit="s", low=60, high=315_360_000, reason="7 days: longer than a broker should hold an order.",
    )  # fmt: skip
    task_result_kb: float = declare(
        64.0, "Size up to which the store keeps an order's result, for what follows the order after a death; 0 = none.",
        unit="kB", low=0, high=1024, reason="Arbitrary; results may contain what customers typed.",
    )  # fmt: skip
    task_attempts: int = declare(
        5, "Attempts at an order whose worker died or that met its hard limit, over all workers.",
        low=1, high=1000, reason="Arbitrary; an order that ends every worker that takes it becomes a dead letter.",
    )  # fmt: skip
    task_retries: int = declare(
        0, "Further runs of a task that raised, beside Celery's own retries; per task: attribute `greenlane_retries`.",
        low=0, high=1000, reason="A task that raises runs as often as Celery would run it, unless told otherwise.",
    )  # fmt: skip
    task_deliveries: int = declare(
        16, "Deliveries of a message after which it becomes a dead letter.",
        low=1, high=100_000, reason="Each restart of a worker counts as one. RabbitMQ 4 drops a message after 20.",
    )  # fmt: skip
    task_retry_s: float = declare(
        1.0, "Longest wait before the second attempt, random from 0; doubled for each further one, up to 60 times.",
        unit="s", low=0.001, high=3600, reason="Arbitrary; after a reset connection a quick second try is worth it.",
    )  # fmt: skip
    task_soft_limit_s: float = declare(
        0.0, "Soft time limit of tasks that have none: SoftTimeLimitExceeded is raised in them; 0 = none.",
        unit="s", low=0, high=86_400, reason="Only the application knows how long its calls may take.",
    )  # fmt: skip
    task_hard_limit_s: float = declare(
        0.0, "Hard time limit of tasks that have none: the order is abandoned and tried again; 0 = none.",
        unit="s", low=0, high=86_400, reason="Only the application knows how long its calls may take.",
    )  # fmt: skip
    task_grace_s: float = declare(
        5.0, "Time from a soft limit or deadline to the hard limit, where none is set.",
        unit="s", low=0, high=3600, reason="Arbitrary: enough to close a connection and write a line.",
    )  # fmt: skip
    task_parked_most: int = declare(
        0, "Orders that may wait in the worker; more return to the broker. 0 = 1000 with keys, else no bound.",
        low=0, high=60_000, reason="Orders of a slow key are received so that those behind them are found; a few MB.",
    )  # fmt: skip
    task_parked_most_s: float = declare(
        600.0, "Time that an order may wait in the worker; after it the order returns to the broker for a while.",
        unit="s", low=1, high=800, reason="Twice this is below the 30 minutes after which RabbitMQ closes a channel.",
    )  # fmt: skip
    task_limit: int = declare(
        0, "Concurrency limit of a key; 0 = adaptive, by latency relative to the key's usual one.",
        low=0, high=4096, reason="No upstream says how much it can take; its latency does.",
    )  # fmt: skip
    task_shared_limit: int = declare(
        0, "Concurrency limit of a key over all workers that share `task_store`; 0 = none.",
        low=0, high=100_000, reason="Where a contract or an upstream says how many calls it takes at once.",
    )  # fmt: skip
    task_most_frac: float = declare(
        0.5, "Largest share of the slots for one slow key; two such keys get a third each, and so on. 1 = no bound.",
        unit="frac", low=0.001, high=1, reason="One upstream that hangs leaves half of the slots to the others.",
    )  # fmt: skip
    task_rules: Mapping[str, str] = declare(
        {}, "Rules for single keys: key = `limit:5 shared:9 least:2 weight:3 most_frac:0.2 retries:3`, or some of "
        "these.",
        pattern=_TASK_RULE, reason="One rule for all keys, unless you know more about one of them.",
    )  # fmt: skip
    task_slow_ms: float = declare(
        0.0, "A call is slow if it takes longer than this; 0 = 5 times the key's usual latency (and 110 ms).",
        unit="ms", low=0, high=86_400_000, reason="An upstream that is slow by nature should not be punished.",
    )  # fmt: skip
    task_breaker_calls: int = declare(
        20, "Number of last calls by which a key's breaker judges; fewer than half of them open nothing.",
        low=1, high=64, reason="A second at ten orders a second; a rare key is judged as quickly as a busy one.",
    )  # fmt: skip
    task_open_s: float = declare(
        5.0, "Time for which a breaker stays open before it probes; doubled while the probes fail, up to a minute.",
        unit="s", low=0.001, high=3600, reason="Arbitrary; about the time of an upstream's restart.",
    )  # fmt: skip
    task_return_s: float = declare(
        5.0, "Time for which a returned order waits at the broker; doubled up to four times if it returns again.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; returning is then cheap, and the delay is short beside the "
        "wait.",
    )  # fmt: skip
    task_shutdown_s: float = declare(
        20.0, "Time for running orders when the worker ends; those still running stay unacknowledged.",
        unit="s", low=0, high=1200, reason="Kubernetes gives a pod 30 s; the rest is for the store and the broker.",
    )  # fmt: skip
    task_metrics: str = declare(
        "", "Where a Celery worker serves Prometheus metrics: a port of 127.0.0.1, or host:port; '' = off.",
        pattern=_ADDRESS_OR_OFF, reason="Everybody who reaches it can read it; each worker of a machine needs its "
        "own port.",
    )  # fmt: skip
    task_reason_characters: int = declare(
        500, "Characters of an exception's text in dead letters, histories and the store; 0 = its type alone.",
        low=0, high=500, reason="Enough to recognise it; exceptions may contain what customers typed.",
    )  # fmt: skip
    task_allow: tuple[str, ...] = declare(
        (), "Unsafe settings to accept: early-ack, no-confirms, transient, broker, per-child.",
        pattern=_TASK_ALLOW, reason="Losing orders has to be a decision.",
    )  # fmt: skip
    diversion: str = declare(
        "", "Where the shares of diverted orders are kept: file:///FOLDER, redis://…; '' = nothing is diverted.",
        pattern=_ANY_URL, reason="Greenlane reads nothing unless told to.",
    )  # fmt: skip

    @property
    def parked_most(self) -> int:
        """`task_parked_most`, or what 0 stands for."""
        return self.task_parked_most or (_PARKED_MOST if self.task_key else _UNBOUNDED)
