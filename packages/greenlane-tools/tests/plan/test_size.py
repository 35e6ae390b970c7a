"""How much there is of the plan: its code, the simulator, their commands, benchmarks and tests."""

from __future__ import annotations

from tests.where import ROOT

_MOST_LINES = 14_000
_TOOLS = "packages/greenlane-tools"
_PARTS = (
    f"{_TOOLS}/src/greenlane_tools/plan/**/*.py", f"{_TOOLS}/src/greenlane_tools/cli/plan/*.py",
    f"{_TOOLS}/tests/plan/*.py", "crates/simulate/**/*.rs", "crates/tools/src/simulate.rs", "bench/plan*.py",
    "bench/plan_services/*.*", "bench/simulate.py",
)  # fmt: skip


def test_plan_and_simulator_are_at_most_14_000_lines_with_tests() -> None:
    found = {part: sum(len(path.read_bytes().splitlines()) for path in ROOT.glob(part)) for part in _PARTS}
    assert all(found.values()), found
    assert sum(found.values()) <= _MOST_LINES, found
