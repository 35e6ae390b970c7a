"""Where the time goes: py-spy on the running service, as the article ran it; its longest-running functions in words.

The article's command is `py-spy record -F -o record.svg -s --nonblocking -p 1`: by function, with child processes,
without stopping the service. One recording is the picture, a second one, as long, the stacks that are counted here.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feed.running import Running, started
from feed.site import Site

_RATE_PER_S: Final = 200
# Users that ask in turn.
_USERS: Final = range(1, 51)


class FlameError(Exception):
    """py-spy is missing or did not work; the message ends with what it said and a hint."""


@dataclass(frozen=True)
class Part:
    """A function among those that ran.

    Args:
        function: and its file.
        self_frac: share of samples in which it was on top of the stack.
        total_frac: share of samples in which it was anywhere on it.
    """

    function: str
    self_frac: float
    total_frac: float


def flame(site: Site, variant: str, picture: Path, seconds: float, said: Callable[[str], None]) -> list[Part]:
    """Records a variant under one question after the other into `picture`; gives its longest-running parts.

    Raises:
        FlameError: py-spy is missing, or ended otherwise than well.
    """
    program = py_spy()
    picture.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="feed-flame-") as folder:
        site.addresses.write(Path(folder) / "site.json")
        running = started(variant, Path(folder) / "site.json", Path(folder) / "service.log", deadline_ms=10_000)
        try:
            with asked(running):
                said(f"py-spy looks at {variant} twice, {seconds:g} s each")
                stacks = Path(folder) / "stacks"
                for path, form in ((picture, "flamegraph"), (stacks, "raw")):
                    record(program, running.process.pid, path, form, seconds)
        finally:
            running.process.end()
        return longest(stacks.read_text("utf-8").splitlines())


def record(program: str, pid: int, path: Path, form: str, seconds: float) -> None:
    """One recording of a process and its children."""
    options = ["-F", "-s", "--nonblocking", "-r", str(_RATE_PER_S), "-d", f"{max(1, round(seconds))}", "-f", form]
    ended = subprocess.run(
        [program, "record", *options, "-o", str(path), "-p", str(pid)],
        capture_output=True, text=True, timeout=seconds + 60, check=False,
    )  # fmt: skip
    if ended.returncode or not path.exists():
        hint = "py-spy needs to be root, or to be allowed to look: sysctl kernel.yama.ptrace_scope=0"
        raise FlameError(f"recording with py-spy: exit status {ended.returncode}\n{ended.stderr[-1500:]}\nhint: {hint}")


def longest(stacks: Sequence[str], most: int = 12) -> list[Part]:
    """The parts of py-spy's raw form (`outer;inner 12` a line), those that ran longest by themselves first."""
    own: Counter[str] = Counter()
    anywhere: Counter[str] = Counter()
    samples = 0
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdecimal():
            continue
        frames = [frame for frame in stack.split(";") if not frame.startswith("process ")]
        if not frames:
            continue
        samples += int(count)
        own[frames[-1]] += int(count)
        for frame in set(frames):
            anywhere[frame] += int(count)
    return [Part(name, count / samples, anywhere[name] / samples) for name, count in own.most_common(most)]


@contextmanager
def asked(running: Running) -> Iterator[None]:
    """Meanwhile one question follows the other."""
    running.feed(_USERS[0])
    over = threading.Event()

    def asking() -> None:
        for user in itertools.cycle(_USERS):
            if over.is_set():
                return
            try:
                running.get(f"/feed?user={user}&size=50")
            except (OSError, urllib.error.URLError):
                return

    thread = threading.Thread(target=asking)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def py_spy() -> str:
    """The program: beside this interpreter, else on PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise FlameError("recording with py-spy: not found\nhint: make build installs it, or pip install py-spy")
    return found
