"""Where a variant's CPU goes, by the stacks that py-spy sees of all its processes: the article's own instrument.

Only threads that run are sampled. A stack belongs to the innermost of its frames that a rule knows; what one native
call does in several steps is divided by the CPU that these steps say.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.processes import die_with_parent

_PER_S: Final = 200
# A rule: category, function ("" = any), part of the file's path.
_RULES: Final = tuple(
    (category, re.compile(function), re.compile(file))
    for category, function, file in (
        ("pickle", r"^(dumps|dump|loads|register)$", r"multiprocessing/reduction"),
        ("pickle", r"^recv$", r"multiprocessing/connection"),
        ("pickle", r"^get$", r"multiprocessing/queues"),
        ("pickle", r"", r"placement/processes/parcel"),
        ("native", r"^_?ranked$", r"variants/greenlane"),
        ("JSON", r"", r"/json/(__init__|decoder|encoder|scanner)\.py|^json/"),
        ("JSON", r"^(from_json|to_json|_item|named|encoded)$", r"(record|user|candidates|variants/\w+)\.py"),
        ("JSON", r"^candidates$", r"variants/"),
        ("features", r"", r"feed/(features|go_features)\.py"),
        ("predict", r"", r"catboost/"),
        ("sort", r"^(_sorted|_column|best|ranked)$", r"variants/(plain|shared_memory|native_go)"),
        ("executor", r"", r"concurrent/futures/|multiprocessing/|lanes/(arena|placed)/|variants/(pool|native_go)\.py"),
        ("rules", r"", r"service/rules\.py|variants/native_ranked"),
        ("filter", r"", r"feed/candidates\.py"),
        ("records from Redis", r"", r"redis/|hiredis|stores/"),
        # web.py runs the loop: it is below every stack.
        ("HTTP", r"", r"aiohttp/(?!web\.py)|yarl/|multidict/"),
        ("validation", r"", r"pydantic|msgspec|jsonschema"),
    )
)
_FRAME: Final = re.compile(r"^(?P<function>.*) \((?P<file>[^()]*?)(:\d+)?\)$")
# asyncio's frames belong to their caller, if there is one.
_LOOP: Final = re.compile(r"asyncio/|service/(clock|counted)|selectors\.py")
# The service's own clocks and counters, when they are what runs.
_MEASURING: Final = re.compile(r"service/(stages|counted)|Rounds\.took")
# What the native call of `greenlane` does, by its own clocks.
_NATIVE: Final = ("features", "predict", "sort")
_NO_TOOL: Final = "py-spy is not installed: shares of CPU are left out (pip install py-spy)"


def missing() -> str:
    """Why nothing can be sampled; "" = it can."""
    return "" if _tool() else _NO_TOOL


@contextmanager
def sampled(pid: int, seconds: float, found: Counter[str]) -> Iterator[None]:
    """Samples a process and its children while the block lasts, and puts stacks into `found` afterwards.

    Args:
        seconds: at most so long.
    """
    with tempfile.TemporaryDirectory(prefix="feed-shares-") as folder:
        output = Path(folder) / "stacks"
        child = subprocess.Popen(
            [_tool() or "py-spy", "record", "--pid", str(pid), "--subprocesses", "--nonblocking", "--format", "raw",
             "--function", "--rate", str(_PER_S), "--duration", str(max(1, round(seconds))), "--output", str(output)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent, process_group=0,
        )  # fmt: skip
        try:
            yield
            _wait(child, 10.0)
        finally:
            child.kill()
            child.wait()
        if output.exists():
            found.update(stacks(output.read_text(errors="replace").splitlines()))


def stacks(lines: Iterable[str]) -> Counter[str]:
    """Stacks of py-spy's raw format: "outer;inner 12" -> 12."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if count.isdecimal():
            found[stack] += int(count)
    return found


def shares(found: Mapping[str, int], stages: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Share of each category, longest first.

    Args:
        found: stacks and their samples.
        stages: of the same time: they divide what one native call does.
    """
    by_category: Counter[str] = Counter()
    for stack, count in found.items():
        by_category[category_of(stack)] += count
    total = sum(by_category.values())
    parts = {name: count / total for name, count in by_category.items()} if total else {}
    native = parts.pop("native", 0.0)
    steps = {name: stages.get(name, {}).get("cpu_ms", 0.0) for name in _NATIVE}
    for name, cpu_ms in steps.items():
        if native and sum(steps.values()):
            parts[name] = parts.get(name, 0.0) + native * cpu_ms / sum(steps.values())
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def of_stages(usage: Mapping[str, Any]) -> dict[str, float]:
    """The same of a service that has no Python stacks: by its own stages; the rest is its runtime's."""
    total = usage["main_ms"] + usage["workers_ms"]
    if not total:
        return {}
    parts = {name: row["cpu_ms"] / total for name, row in usage["stages"].items()}
    parts["runtime, HTTP"] = max(0.0, 1 - sum(parts.values()))
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def category_of(stack: str) -> str:
    """The category of the innermost frame that a rule knows; else the loop's, if the loop is in it."""
    frames = stack.split(";")
    if _MEASURING.search(frames[-1]):
        return "measuring"
    for frame in reversed(frames):
        parts = _FRAME.match(frame)
        if parts is None:
            continue
        # "Queue.get" is `get` of a class.
        name = parts["function"].rpartition(".")[2]
        for category, function, file in _RULES:
            if function.search(name) and file.search(parts["file"]):
                return category
    return "loop" if _LOOP.search(stack) else "other"


def _tool() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    step_s = 0.1
    for _ in range(round(seconds / step_s)):
        checkpoint()
        try:
            child.wait(step_s)
        except subprocess.TimeoutExpired:
            continue
        return
