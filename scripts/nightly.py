"""What CI leaves out: says of each test that failed how often it did, of how many runs.

    python scripts/nightly.py [part ...]

A test that fails is run up to twice more, alone. Exit 0: each passed once, and each part ended by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

OUT: Final = Path("out", "nightly")
REPEATS: Final = 2
_PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "--durations=20")
_BOTH_CORES: Final = ("-n", "2", "--dist", "loadfile")
_REST: Final = "not gate and not measured and not soak"
#: Part -> options of pytest's: what compares times has the machine to itself.
PYTEST_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "measured": ("-m", "measured and not soak"),
    "system": ("-m", f"system and {_REST}", *_BOTH_CORES),
    # All examples of Hypothesis, also of tests that CI runs with few; hazards in every mode.
    "slow": ("-m", f"(slow or hypothesis) and not system and {_REST}", *_BOTH_CORES),
    "soak": ("-m", "soak", "--timeout", "600"),
}
#: Part -> a target of make and its variables.
MAKE_PARTS: Final[dict[str, tuple[str, ...]]] = {"ecosystem": ("ecosystem",), "3.13": ("test-newer", "NEWER=3.13")}
#: How pytest ends: all passed, some failed, none was selected.
_ENDED: Final = (0, 1, 5)


def main(names: Sequence[str], pytest_parts: Mapping[str, Sequence[str]] = PYTEST_PARTS) -> int:
    """Run these parts, or all; gives the exit code."""
    os.environ["TESTS_PROFILE"] = "thorough"
    table: dict[str, tuple[int, int]] = {}
    for name, options in pytest_parts.items():
        if not names or name in names:
            print(f"== {name}", flush=True)
            table |= run_part(name, options)
    for name, target in MAKE_PARTS.items():
        if not names or name in names:
            print(f"== {name}", flush=True)
            if subprocess.run(["make", "--no-print-directory", *target], check=False).returncode:
                table[f"make {' '.join(target)}"] = (1, 1)
    print("== failed, of how many runs")
    for test, (failed, of) in table.items():
        print(f"   {failed} of {of}  {test}")
    return int(any(failed == of for failed, of in table.values()))


def run_part(name: str, options: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Run tests, and those that failed again; gives (failures, runs) of each that failed."""
    cache = OUT / name
    failures, runs, chosen = Counter[str](), Counter[str](), set[str]()
    for again in (("--cache-clear",), *[("--last-failed", "-n", "0")] * REPEATS):
        code = subprocess.run([*_PYTEST, *options, *again, "-o", f"cache_dir={cache}"], check=False).returncode
        if code not in _ENDED:
            failures[f"{name}: pytest itself, exit code {code}"] = runs[f"{name}: pytest itself, exit code {code}"] = 1
            break
        failed = _failed(cache)
        failures.update(failed)
        runs.update(chosen or failed)
        chosen = failed
        if not failed:
            break
    return {test: (count, runs[test]) for test, count in failures.items()}


def _failed(cache: Path) -> set[str]:
    try:
        return set(json.loads((cache / "v" / "cache" / "lastfailed").read_text("utf-8")))
    except FileNotFoundError:
        return set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
