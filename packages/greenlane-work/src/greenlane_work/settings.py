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
_TASK_RULE_WORD: Final = r"((limit|least|retries):[0-9]{1,4}|weight:[1-9][0-9]{0,3}|most_frac:(1|0?\.[0-9]{1,6}))"
_TASK_RULE: Final[Pattern] = (
    rf"{_TASK_RULE_WORD}( {_TASK_RULE_WORD})*",
    "one or more of limit:N least:N weight:N most_frac:0.N retries:N, with spaces",
)
_TASK_ALLOW: Final[Pattern] = (
    "early-ack|no-confirms|transient|broker|per-child",
    "one of early-ack, no-confirms, transient, broker, per-child",
)


#: What `task_parked_most` = 0 stands for where there are keys. Arbitrary: some seconds of work for 200 slots.
_PARKED_MOST: Final = 1_000
#: And where there are none: no more are received than may wait.
_UNBOUNDED: Final = 60_000


@dataclass(frozen=True)
class WorkSettings(Settings):
    """A Celery worker under `greenlane celery`."""

    task_slots: int = declare(
        200, "Calls at once of a Celery worker: orders that run, each on a thread or green thread of its own.",
        low=1, high=4096, reason="What a loop of 3 ms of CPU a task and 300 ms of waiting can use, twice over.",
    )  # fmt: skip
    task_key: str = declare(
        "", "Where an order's upstream is read: kwargs.NAME, args.NUMBER, header.NAME, module:function; '' = one.",
        pattern=TASK_KEY, reason="Only the application knows which argument names whom it calls.",
    )  # fmt: skip
    task_order: Mapping[str, str] = declare(
        {}, "Where the business's name of a task's orders is read, by task; else header greenlane-order or task id.",
        pattern=TASK_KEY, reason="Sent again, an order keeps its name; another task's argument may say something else.",
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
        5, "Attempts at an order whose worker died or that met its hard limit, all workers together.",
        low=1, high=1000, reason="Arbitrary; what ends each worker that takes it goes to the dead letters.",
    )  # fmt: skip
    task_retries: int = declare(
        0, "Further runs of a task that raised, beside those it asks of Celery; its attribute `greenlane_retries`.",
        low=0, high=1000, reason="A task that raises is run as often as Celery runs it, unless somebody wants more.",
    )  # fmt: skip
    task_deliveries: int = declare(
        16, "Deliveries of a message after which it goes to the dead letters: it ends each worker that takes it.",
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
        0.2, "Retries for each successful call of a key, and one a second; what is over waits, it is not dropped.",
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
        0, "Orders that may wait in the worker; more go back to the broker. 0 = 1000 with keys, else no bound.",
        low=0, high=60_000, reason="A slow key's are taken in so that others' are found behind them; a few MB.",
    )  # fmt: skip
    task_parked_most_mb: float = declare(
        64.0, "Memory that their messages may take.",
        unit="MB", low=0.1, high=100_000, reason="Arbitrary; 64 kB an order.",
    )  # fmt: skip
    task_parked_most_s: float = declare(
        600.0, "Time that an order may wait in the worker; then it goes back to the broker for a while.",
        unit="s", low=1, high=800, reason="Twice this is below the 30 minutes after which RabbitMQ closes a channel.",
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
        low=0, high=4096, reason="A slow key still makes progress.",
    )  # fmt: skip
    task_most_frac: float = declare(
        0.5, "Largest share of the slots of one key alone; two such keys get a third each, and so on. 1 = no bound.",
        unit="frac", low=0.001, high=1, reason="However many upstreams hang, slots stay free for the others.",
    )  # fmt: skip
    task_rules: Mapping[str, str] = declare(
        {}, "Rules of single keys: key = `limit:5 least:2 weight:3 most_frac:0.2 retries:3`, or some.",
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
        20.0, "Time that running orders have when the worker ends; what still runs then stays unacknowledged.",
        unit="s", low=0, high=1200, reason="Kubernetes gives a pod 30 s; the rest is for the store and the broker.",
    )  # fmt: skip
    task_metrics: str = declare(
        "", "Where a worker of orders gives Prometheus metrics: a port of 127.0.0.1, or host:port; '' = off.",
        pattern=_ADDRESS_OR_OFF, reason="Anybody who reaches it can read it; workers of a machine need a port each.",
    )  # fmt: skip
    task_metrics_keys: int = declare(
        100, "Keys with metrics of their own, the fullest first; the others' are one, `other`. 0 = no key is named.",
        low=0, high=10_000, reason="A label for each of 100,000 merchants ends a Prometheus, and names customers.",
    )  # fmt: skip
    task_reason_characters: int = declare(
        500, "So much of an exception's text stands in dead letters, histories and the store; 0 = its type alone.",
        low=0, high=500, reason="Enough to see what it was; texts of exceptions may hold what customers typed.",
    )  # fmt: skip
    task_allow: tuple[str, ...] = declare(
        (), "What the worker would refuse for good reason: early-ack, no-confirms, transient, broker, per-child.",
        pattern=_TASK_ALLOW, reason="Who wants to lose orders has to say so.",
    )  # fmt: skip
    diversion: str = declare(
        "", "Where the shares of diverted orders lie: file:///FOLDER, redis://…; '' = nothing is diverted.",
        pattern=_ANY_URL, reason="Greenlane looks nowhere that it was not told to.",
    )  # fmt: skip

    @property
    def parked_most(self) -> int:
        """`task_parked_most`, or what 0 stands for."""
        return self.task_parked_most or (_PARKED_MOST if self.task_key else _UNBOUNDED)
