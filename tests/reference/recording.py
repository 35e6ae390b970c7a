"""Accounting and blame of a recording, slow and obvious: the twin of `crates/recording-read/src/`.

Time is walked nanosecond by nanosecond. Events are the dicts that tests hand to `RecordingWriter`. What the twin leaves
out, and the tests that use it too: slices whose CPU was measured, turns that several shared, jobs that change units,
futures of threads and tasks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from greenlane.phase import Kind

Event = dict[str, int | str]

WAIT_KINDS = ("gil", "loop", "permit", "accept", "lock", "pool", "os", "stopped")
NOT_IO = {Kind.LOCK: "lock", Kind.QUEUE: "lock", Kind.FUTURE: "pool"}
GREEN = (1, 2)
HELD = 1

# Which state of several units counts for their job: the first. Uncertain I/O stands before certain I/O.
ORDER = ("cpu", "gil", "loop", "permit", "stopped", "accept", "os", "perhaps", "io", "pool", "lock")


@dataclass
class Account:
    cpu_ns: int = 0
    io_ns: Counter[str] = field(default_factory=Counter)
    wait_ns: Counter[str] = field(default_factory=Counter)
    residual_ns: int = 0
    uncertain_ns: int = 0
    #: (kind, culprit) to ns.
    blame: Counter[tuple[str, str]] = field(default_factory=Counter)


#: What a unit does in one nanosecond: (state of ORDER, kind of I/O).
State = tuple[str, str]


class Recording:
    """Units, jobs and what they do in each nanosecond."""

    def __init__(self, events: list[tuple[str, Event]]) -> None:
        self.events = events
        self.units = {event["unit"]: event for name, event in events if name == "unit"}
        self.opened = {event["job"]: event for name, event in events if name == "job_open"}
        self.closed = {event["job"]: event for name, event in events if name == "job_close"}
        self.routes = {event["job"]: str(event["route"]) for name, event in events if name == "job_name"}

    def accounts(self) -> dict[int, Account]:
        return {int(job): self._account(int(job)) for job in self.opened if job in self.closed}

    def _account(self, job: int) -> Account:
        opened, closed, account = self.opened[job], self.closed[job], Account()
        for now_ns in range(int(opened["arrival_ns"]), int(closed["at_ns"])):
            states = []
            if now_ns < opened["at_ns"]:
                green = self.units[opened["unit"]]["kind"] in GREEN
                spawned = green and opened["spawn_ns"] and now_ns >= opened["spawn_ns"]
                states.append((("loop" if spawned else "accept", ""), int(opened["unit"])))
            else:
                for unit in self.units:
                    found = self._state(int(unit), now_ns)
                    if found is not None and found[1] == job:
                        states.append((found[0], int(unit)))
            self._count(account, states, now_ns)
        return account

    def _count(self, account: Account, states: list[tuple[State, int]], now_ns: int) -> None:
        if not states:
            account.residual_ns += 1
            return
        # Of two in I/O the kind with the smaller number counts.
        (state, kind), unit = min(
            states, key=lambda one: (ORDER.index(one[0][0]), Kind[one[0][1].upper()] if one[0][1] else 0, one[1])
        )
        if state == "cpu":
            account.cpu_ns += 1
        elif state in ("io", "perhaps"):
            account.io_ns[kind] += 1
            account.uncertain_ns += state == "perhaps"
        else:
            account.wait_ns[state] += 1
            account.blame[state, self._culprit(state, unit, now_ns)] += 1

    def _state(self, unit: int, now_ns: int) -> tuple[State, int] | None:
        """What a unit does and for which job: the highest layer's event that began last."""
        best, found = None, None
        for number, (name, event) in enumerate(self.events):
            if event.get("unit") != unit or name not in ("slice", "block", "wait"):
                continue
            if not int(event["from_ns"]) <= now_ns < int(event["to_ns"]):
                continue
            key = (("slice", "block", "wait").index(name), self._begin(name, event, now_ns), number)
            if best is None or key > best:
                best, found = key, (self._of(name, event, now_ns), self._job(unit, name, event, now_ns))
        return found

    def _job(self, unit: int, name: str, event: Event, now_ns: int) -> int:
        """The event's job; but none yet if its unit opens that job while this part of the event lasts."""
        job = int(event["job"])
        opened = self.opened.get(job)
        if opened and opened["unit"] == unit and now_ns < int(opened["at_ns"]) < self._end(name, event, now_ns):
            return 0
        return job

    def _end(self, name: str, event: Event, now_ns: int) -> int:
        ends = [int(event["to_ns"])]
        if name == "block":
            ends += [int(event["known_ns"]), int(event["ready_ns"])]
        return min(end for end in ends if end > now_ns)

    def _begin(self, name: str, event: Event, now_ns: int) -> int:
        """When the part of the event began that `now_ns` lies in: a block has three."""
        begins = [int(event["from_ns"])]
        if name == "block":
            begins += [int(event["known_ns"]), int(event["ready_ns"])]
        return max(begin for begin in begins if begin <= now_ns)

    def _of(self, name: str, event: Event, now_ns: int) -> State:
        if name == "slice":
            return "cpu", ""
        if name == "wait":
            return WAIT_KINDS[int(event["kind"])], ""
        if now_ns >= int(event["ready_ns"]):
            green = self.units[event["unit"]]["kind"] in GREEN and not int(event["flags"]) & HELD
            return ("loop" if green else "os"), ""
        kind = Kind(int(event["kind"]))
        if kind in NOT_IO:
            return NOT_IO[kind], ""
        return ("perhaps" if now_ns >= int(event["known_ns"]) else "io"), kind.name.lower()

    def _culprit(self, kind: str, victim: int, now_ns: int) -> str:
        if kind == "os":
            return "os"
        thread = self.units[victim]["thread"]
        green = self.units[victim]["kind"] in GREEN
        if kind == "loop" or (kind == "accept" and green):
            return self._on_thread(int(thread), now_ns) or "unknown"
        if kind in ("gil", "permit", "stopped"):
            return self._with_gil(now_ns) or ("native" if kind == "gil" else "unknown")
        return "unknown"  # The tests have neither accept queues of threads nor pools.

    def _on_thread(self, thread: int, now_ns: int) -> str | None:
        if thread not in self._loops():
            return None
        for unit, row in self.units.items():
            if row["thread"] != thread:
                continue
            found = self._state(int(unit), now_ns)
            if found is None or not (self._in_slice(int(unit), now_ns) or self._holds(int(unit), now_ns)):
                continue
            (state, _), job = found
            if state == "gil":
                return self._with_gil(now_ns) or "native"
            if self._off_the_core(int(unit), now_ns):
                return "os"
            return self._name(int(unit), job)
        return None

    def _with_gil(self, now_ns: int) -> str | None:
        for unit in self.units:
            found = self._state(int(unit), now_ns)
            if found is not None and found[0][0] == "cpu":
                return self._name(int(unit), found[1])
        off = any(self._off_the_core(int(unit), now_ns) for unit in self.units)
        return "os" if off else None

    def _off_the_core(self, unit: int, now_ns: int) -> bool:
        found = self._state(unit, now_ns)
        return (
            found is not None and found[0][0] == "os" and self._in_slice(unit, now_ns) and not self._holds(unit, now_ns)
        )

    def _in_slice(self, unit: int, now_ns: int) -> bool:
        return any(
            name == "slice" and event["unit"] == unit and int(event["from_ns"]) <= now_ns < int(event["to_ns"])
            for name, event in self.events
        )

    def _holds(self, unit: int, now_ns: int) -> bool:
        """Whether the piece that counts now is of a block that holds its thread."""
        waits = any(
            name == "wait" and event["unit"] == unit and int(event["from_ns"]) <= now_ns < int(event["to_ns"])
            for name, event in self.events
        )
        blocks = [
            (self._begin(name, event, now_ns), number, event)
            for number, (name, event) in enumerate(self.events)
            if name == "block" and event["unit"] == unit and int(event["from_ns"]) <= now_ns < int(event["to_ns"])
        ]
        return not waits and bool(blocks) and bool(int(max(blocks, key=lambda one: one[:2])[2]["flags"]) & HELD)

    def _loops(self) -> set[int | str]:
        return {row["thread"] for row in self.units.values() if row["kind"] in GREEN}

    def _name(self, unit: int, job: int) -> str:
        if job:
            return self.routes.get(job, "(no route)")
        row = self.units[unit]
        kind = ("thread", "greenlet", "task", "loop")[int(row["kind"])]
        if kind == "loop" or (kind == "thread" and row["thread"] in self._loops()):
            return "loop"
        return f"{kind} {row['name']}"
