"""How many examples Hypothesis tries: few where people wait and in CI, all of them in `make nightly`."""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import settings

THOROUGH: Final = os.environ.get("TESTS_PROFILE") == "thorough"
#: Of the examples, this part is tried in `make test`. Arbitrary: it finds what is plainly wrong.
_QUICK_FRAC: Final = 0.1
_LEAST: Final = 5


def examples(most: int, **others: Any) -> settings:
    """Settings for a test: `most` examples when thorough, a tenth of them otherwise; no deadline for each."""
    count = most if THOROUGH else max(_LEAST, round(most * _QUICK_FRAC))
    return settings(max_examples=count, deadline=None, **others)
