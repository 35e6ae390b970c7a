"""The books, balanced: where each published order ended, by what merchants and queues say and no worker's word.

Pure. An order that was published is in one state:

    waiting   it is in a queue: not ended
    dead      it is in the dead-letter queue
    done      it is in no queue, and its merchant has it, or answered 200 without having it (`deceived`)
    lost      it is in no queue, and its merchant neither has it nor ever said so

and `two_states` when it waits twice, or waits and is dead: a state too many.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

#: Kinds of merchants that can be asked or that honour a key: no effect may ever double there.
ANSWERABLE: Final = frozenset({"keyed", "asked"})


_EXAMPLES: Final = 20


class Entry(NamedTuple):
    """One order in a merchant's book."""

    effects: int
    calls: int
    # Calls that came when the effect was there already, whatever the merchant made of them.
    calls_repeated: int
    told_ok: bool
    # Unix seconds; 0.0 = no effect yet.
    first_effect_s: float


@dataclass(frozen=True)
class Merchant:
    """One merchant's book."""

    kind: str
    orders: Mapping[str, Entry]


@dataclass(frozen=True)
class Letter:
    """A message found in a dead-letter queue.

    Args:
        order: whose.
        history: it says what was tried.
        reason: a word or two for why it is there.
    """

    order: str
    history: bool
    reason: str = ""


@dataclass(frozen=True)
class Balance:
    """Counts of orders, except `calls_repeated`, which counts calls."""

    published: int
    done: int
    dead: int
    waiting: int
    lost: int
    two_states: int
    # Dead, and told so two times: the network was cut when the letter was there and its order not yet acknowledged.
    letters_twice: int
    effects_doubled: int
    # Doubles at merchants of kind `plain`, not counted in `effects_doubled`.
    doubled_plain: int
    calls_repeated: int
    # Done by the merchant's word alone: it said 200 and has nothing.
    deceived: int
    # Given up on, though the merchant has it.
    dead_but_done: int
    dead_without_history: int
    # In a merchant's book and never published.
    strangers: int
    # How many letters for which reason.
    reasons: tuple[tuple[str, int], ...] = ()
    # Some of those that are lost or doubled, to look for in the logs.
    examples: tuple[str, ...] = ()

    @property
    def even(self) -> bool:
        """Every order ended once and had its effect once."""
        wrong = (
            self.waiting, self.lost, self.two_states, self.dead_but_done, self.effects_doubled,
            self.dead_without_history, self.strangers,
        )  # fmt: skip
        return not any(wrong) and self.done + self.dead == self.published


def balanced(
    published: Iterable[str], merchants: Iterable[Merchant], waiting: Iterable[str], dead: Iterable[Letter]
) -> Balance:
    """Balances the books at rest: no worker runs, and every message that there is was read.

    Args:
        published: orders that the broker confirmed, in whatever queue.
        merchants: their books.
        waiting: orders in the work queues, one for each message.
        dead: messages in dead-letter queues.
    """
    orders = set(published)
    merchants, letters, in_queue = list(merchants), list(dead), Counter(waiting)
    in_letters = Counter(letter.order for letter in letters)
    has = {order for one in merchants for order, entry in one.orders.items() if entry.effects}
    told = {order for one in merchants for order, entry in one.orders.items() if entry.told_ok}
    gone = orders - in_queue.keys() - in_letters.keys()
    doubled = [order for one in merchants for order, entry in one.orders.items() if entry.effects > 1]
    return Balance(
        published=len(orders),
        done=len(gone & (has | told)),
        dead=len(in_letters.keys() - in_queue.keys()),
        waiting=len(in_queue),
        lost=len(gone - has - told),
        two_states=sum(1 for order, count in in_queue.items() if count + in_letters[order] > 1),
        letters_twice=sum(1 for count in in_letters.values() if count > 1),
        effects_doubled=sum(_doubled(one) for one in merchants if one.kind in ANSWERABLE),
        doubled_plain=sum(_doubled(one) for one in merchants if one.kind not in ANSWERABLE),
        calls_repeated=sum(entry.calls_repeated for one in merchants for entry in one.orders.values()),
        deceived=len(gone & (told - has)),
        dead_but_done=len(in_letters.keys() & has),
        dead_without_history=sum(1 for letter in letters if not letter.history),
        reasons=tuple(Counter(letter.reason for letter in letters).most_common()),
        examples=tuple(sorted([*(gone - has - told), *doubled])[:_EXAMPLES]),
        strangers=len({order for one in merchants for order in one.orders} - orders),
    )


def recovered_s(published: Mapping[str, float], merchants: Iterable[Merchant], healed_s: float) -> float:
    """Seconds from the end of a fault until each order that was published before it had its effect; 0 = none waited.

    Args:
        published: Unix seconds at which the broker confirmed each order.
        merchants: their books.
        healed_s: Unix seconds at which the last fault ended.
    """
    first = {order: entry.first_effect_s for one in merchants for order, entry in one.orders.items() if entry.effects}
    late = (first[order] - healed_s for order, at in published.items() if at <= healed_s and order in first)
    return max(0.0, max(late, default=0.0))


def standstill_s(merchants: Iterable[Merchant]) -> float:
    """The longest time in which no order anywhere had its effect, seconds; between the first one and the last."""
    firsts = sorted(entry.first_effect_s for one in merchants for entry in one.orders.values() if entry.effects)
    return max((after - before for before, after in itertools.pairwise(firsts)), default=0.0)


def _doubled(merchant: Merchant) -> int:
    return sum(1 for entry in merchant.orders.values() if entry.effects > 1)
