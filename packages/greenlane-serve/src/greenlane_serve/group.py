"""The workers of one group: which slot boots, serves, leaves. Decides only; `Acts` does it.

A slot is a name, a listening socket of the tree, and a server of the front. There are twice as many as workers: a
successor boots while all serve, and a worker with a long request delays no other. What should happen next follows
from the states alone (`step`), so any order of deaths, reloads and replies ends in `workers` serving workers of the
present generation.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

# The first death costs no wait: most are a kill, and the successor is needed now.
_FIRST_S: Final = 0.25
_MOST_S: Final = 30.0
# A worker that has served this long before it died is no failure to start.
_WELL_S: Final = 2.0


class Backoff:
    """0, then 0.25 s, 0.5 s, 1 s … 30 s. A death after 2 s of service or more restarts the sequence."""

    def __init__(self) -> None:
        self.failures = 0
        # No try before this.
        self.until_s = 0.0

    def failed(self, now_s: float, served_s: float) -> float:
        """Note a failure after `served_s` of service; the wait until the next try, in s."""
        self.failures = 1 if served_s >= _WELL_S else self.failures + 1
        wait_s = 0.0 if self.failures == 1 else min(_MOST_S, _FIRST_S * 2 ** (self.failures - 2))
        self.until_s = now_s + wait_s
        return wait_s

    def may_try(self, now_s: float) -> bool:
        """Whether the wait is over."""
        return now_s >= self.until_s


# Time that a worker which hangs gets to say where its threads are; then it is killed.
_SAY_S: Final = 1.0
# The generation of a worker that is to be replaced whatever else happens.
_WORN: Final = -1
# How often a worker that leaves is asked whether it has anything left, and one that ends is looked at.
_LEAVING_S: Final = 0.02
_STOPPING_S: Final = 0.2


class State(enum.Enum):
    """Of a slot."""

    EMPTY = "empty"
    BOOTING = "booting"
    SERVING = "serving"
    # The front gives it nothing new; it ends what it has.
    LEAVING = "leaving"
    # Told to end.
    STOPPING = "stopping"


@dataclass(eq=False)
class Slot:
    """One place for a worker."""

    name: str
    socket: Path
    state: State = State.EMPTY
    pid: int = 0
    # The generation of code and settings that it was started in.
    generation: int = 0
    # When it began to serve; when it must have booted, or ended what it leaves.
    since_s: float = 0.0
    until_s: float = 0.0
    # The front gives it requests.
    open: bool = False
    # Its last worker died.
    died: bool = False
    # It boots for too long, and has been told to say where it stands.
    told: bool = False


class Acts(Protocol):
    """What a group needs done."""

    def start(self, group: Group, slot: Slot) -> int:
        """Start a worker on the slot; its pid."""

    def open(self, group: Group, slot: Slot) -> None:
        """Let the front give it requests."""

    def shut(self, group: Group, slot: Slot) -> None:
        """Let the front give it nothing new."""

    def in_progress(self, group: Group, slot: Slot) -> int:
        """Requests that it has."""

    def end(self, slot: Slot, *, hard: bool) -> None:
        """SIGTERM, or SIGKILL."""

    def refuse(self, slot: Slot) -> None:
        """Answer who has connected to its socket and waits for a worker there."""

    def ask_where(self, slot: Slot) -> None:
        """Let it say in the log where its threads are."""

    def say(self, text: str) -> None:
        """One line for the log."""


@dataclass(eq=False)
class Group:
    """`workers` workers behind one backend of the front."""

    name: str
    workers: int
    folder: Path
    acts: Acts
    stop_s: float
    boot_s: float = math.inf
    queue_s: float = math.inf
    generation: int = 0
    # When its last worker has ended.
    dead_s: float = math.inf
    slots: list[Slot] = field(default_factory=list)
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        for number in range(1, 2 * self.workers + 1):
            self.slots.append(Slot(f"w{number}", self.folder / f"{self.name}-{number}"))

    # -- what happens to it

    def ready(self, pid: int, now_s: float) -> None:
        """A worker says that it serves."""
        slot = self.slot_of(pid)
        if slot is not None and slot.state is State.BOOTING:
            slot.state, slot.since_s = State.SERVING, now_s
            slot.open, self.dead_s = True, math.inf
            self.acts.open(self, slot)
            for dead in [one for one in self.slots if one.open and one.state is not State.SERVING]:
                self._shut(dead)

    def died(self, pid: int, code: int, now_s: float, *, expected: bool = False) -> None:
        """A worker has ended, asked or not."""
        slot = self.slot_of(pid)
        if slot is None:
            return
        before = slot.state
        asked = expected or slot.state is State.STOPPING
        served_s = now_s - slot.since_s if before is State.SERVING else 0.0
        slot.state, slot.pid = State.EMPTY, 0
        # The last one stays open: a backend without servers refuses at once, while here who has been sent waits at the
        # socket, and others in the queue, until the next worker comes.
        if before is State.SERVING and self.lives:
            self._shut(slot)
        if not self.lives:
            self.dead_s = min(self.dead_s, now_s)
        if not asked:
            slot.died = True
            wait_s = self.backoff.failed(now_s, served_s)
            pause = f", the next one in {wait_s:g} s" if wait_s else ""
            self.acts.say(f"worker {self.name}/{slot.name} (pid {pid}) {ending(code)}{pause}")

    def stuck(self, slot: Slot, now_s: float, said: str, *, replace: bool) -> None:
        """A worker gets nowhere: the log says so and where it stands, and it is killed if it is to be replaced.

        The last one stays open, as when it dies.
        """
        self.acts.say(f"worker {self.name}/{slot.name} (pid {slot.pid}) {said}")
        self.acts.ask_where(slot)
        if not replace:
            return
        if slot.state is State.SERVING and len(self.of(State.SERVING)) > 1:
            self._shut(slot)
        slot.state, slot.until_s = State.STOPPING, now_s + _SAY_S
        if not self.lives:
            self.dead_s = min(self.dead_s, now_s)

    def worn(self, slot: Slot, said: str) -> None:
        """Replace a worker as a reload does: its successor boots first, and it ends what it has."""
        self.acts.say(f"worker {self.name}/{slot.name} (pid {slot.pid}) {said}: another one takes its place")
        slot.generation = _WORN

    def renew(self) -> None:
        """Replace every worker, one by one. One that still boots would come too late."""
        self.generation += 1
        self._give_up_booting()
        self.backoff = Backoff()

    def step(self, now_s: float) -> None:
        """Do what the states ask for."""
        for slot in self.of(State.LEAVING):
            if now_s >= slot.until_s or not self.acts.in_progress(self, slot):
                slot.state, slot.until_s = State.STOPPING, now_s + self.stop_s
                self.acts.end(slot, hard=False)
        self._end_late_boots(now_s)
        self.step_stopping(now_s)
        if now_s >= self.dead_s + self.queue_s:
            self._refuse()
        old = [slot for slot in self.of(State.SERVING) if slot.generation != self.generation]
        booting = self.of(State.BOOTING)
        alive = len(self.of(State.SERVING)) + len(booting)
        if alive > self.workers and old and not booting:
            self._retire(old[0], now_s)
        elif (alive < self.workers or (old and not booting)) and self.backoff.may_try(now_s):
            self._boot(self.workers - alive if alive < self.workers else 1, now_s)

    def step_stopping(self, now_s: float) -> None:
        """End at once who has not ended in time."""
        for slot in self.of(State.STOPPING):
            if now_s >= slot.until_s:
                slot.until_s = math.inf
                self.acts.end(slot, hard=True)

    def stop(self, until_s: float) -> None:
        """End every worker: the front no longer sends them requests. One that boots has nothing to finish."""
        self._give_up_booting()
        for slot in self.of(State.SERVING, State.LEAVING):
            slot.state, slot.until_s = State.STOPPING, until_s
            self.acts.end(slot, hard=False)
        for slot in self.of(State.STOPPING):
            slot.until_s = min(slot.until_s, until_s)

    def _give_up_booting(self) -> None:
        for slot in self.of(State.BOOTING):
            slot.state, slot.until_s = State.STOPPING, math.inf
            self.acts.end(slot, hard=True)

    def _end_late_boots(self, now_s: float) -> None:
        """A worker that boots for too long logs its stacks, and is killed: its death counts as any other."""
        for slot in self.of(State.BOOTING):
            if now_s < slot.until_s:
                continue
            if slot.told:
                slot.until_s = math.inf
                self.acts.end(slot, hard=True)
            else:
                slot.told, slot.until_s = True, now_s + _SAY_S
                who = f"worker {self.name}/{slot.name} (pid {slot.pid})"
                self.acts.say(f"{who} does not start: it has not said in {self.boot_s:g} s that it serves")
                self.acts.ask_where(slot)

    # -- what can be seen

    def of(self, *states: State) -> list[Slot]:
        """The slots in one of these states."""
        return [slot for slot in self.slots if slot.state in states]

    def slot_of(self, pid: int) -> Slot | None:
        """The slot of a process."""
        return next((slot for slot in self.slots if slot.pid == pid and slot.state is not State.EMPTY), None)

    @property
    def lives(self) -> bool:
        """Whether a worker serves."""
        return bool(self.of(State.SERVING))

    @property
    def settled(self) -> bool:
        """As many workers serve as should, all of them of the present generation, and none is on its way."""
        serving = self.of(State.SERVING)
        return (
            len(serving) == self.workers == len(self.slots) - len(self.of(State.EMPTY))
            and all(slot.generation == self.generation for slot in serving)
        )  # fmt: skip

    def next_s(self, now_s: float) -> float:
        """When `step` may have something to do, if nothing happens before."""
        times = [math.inf]
        if self.of(State.LEAVING):
            times.append(now_s + _LEAVING_S)
        if self.of(State.STOPPING):
            times.append(now_s + _STOPPING_S)
        if any(slot.open for slot in self.slots):
            times.append(self.dead_s + self.queue_s)
        times += [slot.until_s for slot in self.of(State.BOOTING)]
        if not self.settled and self.backoff.until_s > now_s:
            times.append(self.backoff.until_s)
        return min(times)

    def _boot(self, number: int, now_s: float) -> None:
        # A dead one's first: clients that have connected to its socket wait there.
        for slot in sorted(self.of(State.EMPTY), key=lambda slot: (not slot.open, not slot.died))[:number]:
            slot.died = slot.told = False
            slot.until_s = now_s + self.boot_s
            slot.pid = self.acts.start(self, slot)
            slot.state, slot.generation = State.BOOTING, self.generation

    def _refuse(self) -> None:
        """No worker has served for the queue timeout: waiting and new requests are answered now."""
        for slot in self.slots:
            if slot.open:
                self._shut(slot)
                self.acts.refuse(slot)

    def _retire(self, slot: Slot, now_s: float) -> None:
        slot.state, slot.until_s = State.LEAVING, now_s + self.stop_s
        self._shut(slot)

    def _shut(self, slot: Slot) -> None:
        slot.open = False
        self.acts.shut(self, slot)


def ending(code: int) -> str:
    """How a process ended, in words."""
    return f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
