"""Quantities as people read them: three digits and a unit. The same words on pages and in the terminal."""

from __future__ import annotations

import math


def duration(ns: float) -> str:
    """A time in ns: "5.19 s", "110 ms", "2.5 ms", "40 us", "0"."""
    if ns == 0:
        return "0"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns >= 119.5e9:
        minutes, seconds = divmod(round(ns / 1e9), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{sign}{hours} h {minutes:02} min" if hours else f"{sign}{minutes} min {seconds:02} s"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size * 0.9995:
            return f"{sign}{amount(ns / size)} {unit}"
    return f"{sign}{ns:.0f} ns"


def milliseconds(ms: float) -> str:
    """A time in ms, as `duration` says it."""
    return duration(ms * 1e6)


def amount(value: float) -> str:
    """Three significant digits, no exponent: 5.19, 47.2, 110, 12345; zeros behind the point are left out."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    places = max(0, 2 - math.floor(math.log10(abs(value) * 1.0005)))
    text = f"{value:.{min(places, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def share(frac: float) -> str:
    """A share in percent; what is neither none nor all never reads as such: "< 0.1 %", "> 99.9 %"."""
    percent = frac * 100
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def factor(value: float) -> str:
    """How many times: "47×", "1.4×"."""
    return f"{value:.0f}×" if value >= 9.95 else f"{value:.1f}×"


def count(value: int) -> str:
    """A number with thousands apart: "100,000"."""
    return f"{value:,}"
