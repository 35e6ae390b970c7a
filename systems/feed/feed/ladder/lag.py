"""How late a loop looks at what arrives at a random moment, from the lengths of its rounds.

Of what arrives while the loop waits nothing is late; of what arrives in a round of length d the lateness is even
between 0 and d. So P(late by more than x) = sum over rounds with d > x of (d - x), divided by all the time. No probe is
needed for it that would cost the service CPU.
"""

from __future__ import annotations

from collections.abc import Mapping


def loop_lag_ms(rounds: Mapping[str, tuple[int, int]], seconds: float, share: float = 0.99) -> float | None:
    """The percentile of that lateness; None when nobody counted rounds.

    Args:
        rounds: class -> (rounds, ns of them all), as `service.clock.Rounds`; a class's rounds count as equally long.
        seconds: of observation.
        share: 0.99 = later only for one in a hundred.
    """
    if not rounds:
        return None
    allowed_ns = (1 - share) * seconds * 1e9
    # From the longest: with n rounds of S ns in all beyond x, the late time is S - n x.
    count, sum_ns = 0, 0
    lengths = sorted(((ns / many, many, ns) for many, ns in rounds.values()), reverse=True)
    for place, (_, many, ns) in enumerate(lengths):
        count, sum_ns = count + many, sum_ns + ns
        lag_ns = (sum_ns - allowed_ns) / count
        shorter_ns = lengths[place + 1][0] if place + 1 < len(lengths) else 0.0
        if lag_ns >= shorter_ns:
            return lag_ns / 1e6
    return 0.0
