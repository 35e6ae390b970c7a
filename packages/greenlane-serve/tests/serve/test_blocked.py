"""Workers whose loop is blocked get nothing new; there is always one that does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from tests.serve.test_group import Acts

from greenlane_serve.group import Group, Slot, State
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import SHARED
from greenlane_serve.staff import Blocked


class Front(Runtime):
    """Takes every command."""

    def __init__(self) -> None:
        super().__init__(Path("nobody"))
        self.commands: list[str] = []

    def ask(self, command: str) -> str:
        self.commands.append(command.removeprefix(f"set server {SHARED}/"))
        return ""


class Service:
    def __init__(self, folder: Path) -> None:
        group = Group(SHARED, 2, folder, Acts(), stop_s=1.0)
        for slot in group.slots[:2]:
            slot.state, slot.open, slot.pid, slot.since_s = State.SERVING, True, int(slot.name[1:]), 1.0
        self.groups = {SHARED: group}
        self.runtime = Front()
        self.front = SimpleNamespace(runtime=self.runtime)
        self.turned_s: dict[str, float] = {}

    def last_turn_s(self, slot: Slot) -> float:
        return self.turned_s[slot.name]

    def say(self, text: str) -> None:
        """Nobody listens."""


def test_one_that_turns_again_is_open_before_another_is_shut(tmp_path: Path) -> None:
    """A backend without a server refuses at once."""
    service, blocked = Service(tmp_path), Blocked()
    for now_s, turned_s in (
        (100.0, {"w1": 100.0, "w2": 100.0}),
        (100.25, {"w1": 99.0, "w2": 100.2}),
        (100.5, {"w1": 100.4, "w2": 99.9}),
        (100.75, {"w1": 100.0, "w2": 100.0}),  # both: both stay open
    ):
        service.turned_s = turned_s
        blocked.look(service, now_s)  # type: ignore[arg-type]  # it needs no more of it
    assert service.runtime.commands == ["w1 state maint", "w1 state ready", "w2 state maint", "w2 state ready"]
