"""One line-up after another: the decisions, without a process."""

from __future__ import annotations

from pathlib import Path

from tests.serve.test_group import Acts

from greenlane.settings import Lane
from greenlane_serve.group import Group, State
from greenlane_serve.lanes import layout_of
from greenlane_serve.places import Places
from greenlane_serve.settings import ServeSettings
from greenlane_serve.succession import Lineup, Succession


class Staged:
    """Line-ups with one group each, whose workers exist in a list."""

    def __init__(self) -> None:
        self.dismissed: list[Group] = []
        self.acts = Acts()
        self.succession = Succession(self.dismissed.append)

    def lineup(self, workers: int = 1, lanes: tuple[Lane, ...] = ()) -> Lineup:
        settings = ServeSettings(bind=(), workers=workers, lanes=lanes)
        layout = layout_of(settings)
        groups = {name: Group(name, number, Path("/run"), self.acts, 5.0) for name, number in layout.groups.items()}
        return Lineup(settings, layout, Places(settings, layout.groups, threads=False), {}, groups)

    def boot(self, now_s: float) -> None:
        self.succession.step(now_s, fronts_leave=False)
        for group in self.succession.groups():
            for slot in group.of(State.BOOTING):
                group.ready(slot.pid, now_s)


def test_the_next_one_is_ready_when_every_worker_serves() -> None:
    staged = Staged()
    staged.succession.begin(staged.lineup(2), 0.0)
    assert not staged.succession.ready
    staged.boot(1.0)
    assert staged.succession.ready
    assert staged.acts.pids == 2


def test_the_one_before_goes_on_until_its_front_has_left() -> None:
    staged = Staged()
    staged.succession.begin(staged.lineup(), 0.0)
    staged.boot(0.0)
    before, staged.succession.coming = staged.succession.coming, None
    assert before is not None
    (group,) = before.groups.values()
    staged.succession.leave(before, until_s=30.0)
    group.died(1, -9, 1.0)
    staged.succession.step(1.0, fronts_leave=True)
    assert group.of(State.BOOTING)  # requests are still sent to its socket
    group.ready(2, 2.0)
    staged.succession.step(3.0, fronts_leave=False)
    assert staged.acts.told == [(2, False)]
    group.died(2, 0, 4.0)
    staged.succession.step(4.0, fronts_leave=False)
    assert staged.dismissed == [group]
    assert list(staged.succession.groups()) == []


def test_the_one_before_ends_at_its_time_whatever_its_front_does() -> None:
    staged = Staged()
    staged.succession.begin(staged.lineup(), 0.0)
    staged.boot(0.0)
    before, staged.succession.coming = staged.succession.coming, None
    assert before is not None
    staged.succession.leave(before, until_s=30.0)
    assert staged.succession.first_until_s == 30.0
    staged.succession.step(29.0, fronts_leave=True)
    assert staged.acts.told == []
    staged.succession.step(30.0, fronts_leave=True)
    assert staged.acts.told == [(1, False)]
    staged.succession.step(36.0, fronts_leave=True)
    assert staged.acts.told == [(1, False), (1, True)]


def test_one_whose_workers_do_not_start_is_hopeless_and_can_be_given_up() -> None:
    staged = Staged()
    staged.succession.begin(staged.lineup(), 0.0)
    for number in range(3):
        now_s = 40.0 * number
        staged.succession.step(now_s, fronts_leave=False)
        assert staged.succession.coming is not None
        (group,) = staged.succession.coming.groups.values()
        assert not staged.succession.hopeless
        group.died(number + 1, 3, now_s)
    assert staged.succession.hopeless
    staged.succession.give_up(200.0)
    staged.succession.step(200.0, fronts_leave=False)
    assert staged.dismissed == [group]


def test_gates_of_the_line_up_before_stay_while_its_front_does() -> None:
    staged = Staged()
    lane = Lane("capped", match=("/c",), at_once=3)
    gated = staged.lineup(2, (lane,))
    assert gated.gates == ["gate-capped"]
    plain = staged.lineup(2)
    assert plain.site(Path("/run"), gates_before=gated.gates).gates_before == ["gate-capped"]
    assert gated.site(Path("/run"), gates_before=gated.gates).gates_before == []
