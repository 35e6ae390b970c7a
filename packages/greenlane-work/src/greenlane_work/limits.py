"""The rule of upstream keys, in the units and under the names of greenlane-policy's `upstream`."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane_work.settings import WorkSettings

__all__ = ["CallOutcome", "UpstreamRule", "retries_of_keys", "shared_limits"]

_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
#: Memory for the messages of parked orders. Arbitrary; 64 kB an order.
_PARKED_MOST_BYTES: Final = 64_000_000
#: Largest share of them, and of the orders, for one key: a flood of it leaves room for the others.
_KEY_PARKED_FRAC: Final = 0.5
#: Words of a key's rule that are no matter of this process's limits and breakers.
_RETRIES: Final = "retries"
_SHARED: Final = "shared"


class CallOutcome(enum.IntEnum):
    """How a call ended, for `_native.Upstreams.ended`."""

    # The upstream did it.
    OK = 0
    # The upstream said no or broke off.
    FAILED = 1
    # It did not answer in time.
    TIMED_OUT = 2
    # It said that it has too much to do: 429, 503, RESOURCE_EXHAUSTED.
    REFUSED = 3
    # Says nothing about the upstream: the call was given up on this side, or never left.
    CANCELLED = 4


@dataclasses.dataclass(frozen=True)
class UpstreamRule:
    """What one key may do: second argument of `_native.Upstreams`, third of its `set`.

    A rule of a single key is `dataclasses.replace(rule, limit=5)`; fields marked below as of the general rule are not
    read from it.
    """

    # Calls in progress at once; 0 = adaptive.
    limit: int = 0
    # Where the adaptive limit begins. Netflix's limiters begin there too; it doubles while latency bears it.
    first_limit: int = 20
    # Calls that the key may have in progress as long as one slot is free; the adaptive limit never falls below.
    least: int = 1
    # Largest share of the slots that one key alone can hold; two such keys have a third each, and so on. 1 = no bound.
    most_frac: float = 0.5
    # Share of slot time beside other keys where slots are scarce.
    weight: int = 1

    # Parked orders and bytes of a key, and how long one may be parked (0 = for ever). Below RabbitMQ's consumer timeout
    # of 30 minutes.
    parked_most: int = 1_000
    parked_most_bytes: int = 16 << 20
    parked_most_ns: int = 600 * _NS_PER_S
    # Of all keys together; only of the general rule.
    all_parked_most: int = 4_000
    all_parked_most_bytes: int = 64 << 20

    # Shares of the window that open the breaker; 0 = never.
    failure_rate: float = 0.5
    slow_call_rate: float = 0.8
    # A call is slow from this many times the key's usual latency on, or from this time on where it is not 0.
    slow_call_x: float = 5.0
    slow_call_ns: int = 0
    # Last calls that are judged (at most 64), and how many of them there must be.
    window: int = 20
    least_calls: int = 10
    # Calls that an open breaker lets through when its time is over, and their time limit (0 = none).
    probes: int = 3
    probe_limit_ns: int = 5 * _NS_PER_S
    # How long it is open the first time, what each further time is multiplied by, and the longest.
    open_ns: int = 5 * _NS_PER_S
    open_growth: float = 2.0
    open_most_ns: int = 60 * _NS_PER_S

    # Of this process's own, for what it does by chance: an open time is up to a fifth longer. 0 = nothing.
    seed: int = 0

    # A key without orders is forgotten after this time, or when there are more of them; only of the general rule. A
    # day: a merchant with an order an hour is to be known.
    forget_ns: int = 86_400 * _NS_PER_S
    keys_most: int = 10_000

    @classmethod
    def of(cls, settings: WorkSettings) -> UpstreamRule:
        """Translate settings.

        Without `task_key` all orders have one key: no key needs protection, so the limit is that of the
        slots unless one is set, and no breaker stops all upstreams for the sake of one.
        """
        keyed = bool(settings.task_key)
        key_frac = _KEY_PARKED_FRAC if keyed else 1.0
        return cls(
            limit=settings.task_limit or (0 if keyed else settings.task_slots),
            most_frac=settings.task_most_frac if keyed else 1.0,
            parked_most=max(round(settings.parked_most * key_frac), 1),
            parked_most_bytes=round(_PARKED_MOST_BYTES * key_frac),
            parked_most_ns=round(settings.task_parked_most_s * _NS_PER_S),
            all_parked_most=settings.parked_most,
            all_parked_most_bytes=_PARKED_MOST_BYTES,
            failure_rate=cls.failure_rate if keyed else 0.0,
            slow_call_rate=cls.slow_call_rate if keyed else 0.0,
            slow_call_ns=round(settings.task_slow_ms * _NS_PER_MS),
            window=settings.task_breaker_calls,
            least_calls=max(settings.task_breaker_calls // 2, 1),
            open_ns=round(settings.task_open_s * _NS_PER_S),
            open_most_ns=max(cls.open_most_ns, round(settings.task_open_s * _NS_PER_S)),
        )

    @classmethod
    def of_providers(cls, settings: WorkSettings) -> UpstreamRule | None:
        """Translate settings for providers, where keys have two parts: a breaker and a usual latency, and nothing else.

        Limits and shares are those of the keys: their orders wait for them behind the provider.
        """
        if " " not in settings.task_key:
            return None
        most = settings.task_slots + settings.parked_most
        return dataclasses.replace(
            cls.of(settings), limit=most, least=0, most_frac=1.0,
            parked_most=settings.parked_most, parked_most_bytes=_PARKED_MOST_BYTES,
        )  # fmt: skip

    @classmethod
    def of_keys(cls, settings: WorkSettings) -> dict[str, UpstreamRule]:
        """Translate `task_rules`: the keys that have a rule of their own, for `_native.Upstreams.set`."""
        general = cls.of(settings)
        others = (_RETRIES, _SHARED)
        return {
            key: dataclasses.replace(general, **{name: value for name, value in rule.items() if name not in others})
            for key, rule in _rules(settings).items()
        }


def retries_of_keys(settings: WorkSettings) -> dict[str, int]:
    """Give the retries of keys whose rule says how many: those of orders whose task raised."""
    return {key: rule[_RETRIES] for key, rule in _rules(settings).items() if _RETRIES in rule}


def shared_limits(settings: WorkSettings) -> Callable[[str], int] | None:
    """Give the function from a key to its limit over all workers, where 0 is none; None = no key has one.

    Raises:
        SettingsError: there is one, and no store to share it through.
    """
    single = {key: rule[_SHARED] for key, rule in _rules(settings).items() if _SHARED in rule}
    general = settings.task_shared_limit if settings.task_key else 0
    if not general and not any(single.values()):
        return None
    if not settings.task_store:
        hint = "name a store that all workers use, or set task_limit, which holds for each worker"
        raise SettingsError("task_store", "", "a store, through which the workers share the limit", hint)
    return lambda key: single.get(key, general)


def _rules(settings: WorkSettings) -> dict[str, dict[str, Any]]:
    """By key, the words of `task_rules` with their numbers."""
    pairs = {key: [word.split(":") for word in words.split()] for key, words in settings.task_rules.items()}
    return {
        key: {name: float(value) if name == "most_frac" else int(value) for name, value in each}
        for key, each in pairs.items()
    }
