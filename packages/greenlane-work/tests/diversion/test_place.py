"""Shares in a folder and in Redis: changed alone, seen by all, and what goes wrong with either."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from greenlane.errors import DiversionError, DiversionUnreadable, SettingsError
from greenlane_work.diversion import Share, Sighting, open_place
from greenlane_work.diversion.effect import set_share, wait_seen
from greenlane_work.diversion.watch import ShareWatch
from tests.servers import Redis


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def spoil(url: str, flow: str, text: str) -> None:
    """Write over a share, as somebody else's program would."""
    if url.startswith("file://"):
        (Path(url.removeprefix("file://")) / f"{flow}.json").write_text(text)
    else:
        with redis_py.Redis.from_url(url) as client:
            client.set(f"greenlane:diversion:{flow}", text)


def test_a_share_that_nobody_has_set_is_none(url: str, flow: str) -> None:
    assert open_place(url).read(flow) == Share(flow)


def test_what_one_sets_another_reads(url: str, flow: str) -> None:
    share = set_share(open_place(url), flow, 0.3, "new")
    assert open_place(url).read(flow) == share
    assert (share.to, share.share_frac) == ("new", 0.3)
    assert share.set_by.endswith(f"@{socket.gethostname()}")
    later = set_share(open_place(url), flow, 0)
    assert (later.to, later.share_frac) == ("new", 0)
    assert later.revision > share.revision


def test_changes_at_once_are_made_one_after_the_other(url: str, flow: str) -> None:
    def add(_: int) -> None:
        open_place(url).change(flow, lambda before: replace(before, revision=before.revision + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert open_place(url).read(flow).revision == 40


@pytest.mark.parametrize(
    ("share", "to", "says"),
    [
        (0.3, "", "to='', expected a queue that orders can go to\nhint: name the new worker's queue"),
        (0.3, "a b", "to='a b', expected 1 to 100 of the characters"),
    ],
)
def test_a_share_that_leads_nowhere_is_refused(url: str, flow: str, share: float, to: str, says: str) -> None:
    with pytest.raises(DiversionError, match=says):
        set_share(open_place(url), flow, share, to)
    with pytest.raises(DiversionError, match="expected another queue than the orders' own"):
        set_share(open_place(url), flow, share, flow)
    with pytest.raises(DiversionError, match=r"flow='\.\./x', expected 1 to 100"):
        set_share(open_place(url), "../x", share, "new")
    assert open_place(url).read(flow).revision == 0


def test_what_is_no_share_is_said_and_can_be_set_anew(url: str, flow: str) -> None:
    set_share(open_place(url), flow, 0.5, "new")
    spoil(url, flow, "30%")
    with pytest.raises(DiversionUnreadable, match=r"expected a share .*\nhint: set it again"):
        open_place(url).read(flow)
    assert set_share(open_place(url), flow, 0.2, "new").share_frac == 0.2
    assert open_place(url).read(flow).share_frac == 0.2


def test_a_producer_sees_each_change_and_says_so(url: str, flow: str) -> None:
    place, watch = open_place(url), ShareWatch(open_place(url), flow)
    assert watch.share.queue("any") == flow
    # Only who has said that it is there is waited for.
    until(lambda: bool(place.sightings(flow)))
    for share_frac in (1.0, 0.0, 1.0):
        share = set_share(place, flow, share_frac, "new")
        effect = wait_seen(place, share, 30)
        assert [seen.producer for seen in effect.seen] == [f"{socket.gethostname()}:{os.getpid()}"]
        assert not effect.unseen
        # What is published after that is on the new side of the change.
        assert watch.share == share
        assert watch.share.queue("any") == ("new" if share_frac else flow)
    watch.close()


def test_a_producer_that_has_not_seen_a_change_is_named_unless_it_is_gone(url: str, flow: str) -> None:
    place, now = open_place(url), time.time()
    place.say(flow, Sighting("elsewhere:7", 1, 0.0, now, now))
    place.say(flow, Sighting(f"{socket.gethostname()}:4194305", 1, 0.0, now, now))  # over the largest process id
    effect = wait_seen(place, set_share(place, flow, 0.1, "new"), 0.2)
    assert [each.producer for each in effect.unseen] == ["elsewhere:7"]
    assert effect.seconds >= 0.2


def test_a_share_that_becomes_unreadable_means_the_old_side_and_one_warning(
    url: str, flow: str, caplog: pytest.LogCaptureFixture
) -> None:
    place, watch = open_place(url), ShareWatch(open_place(url), flow)
    set_share(place, flow, 1.0, "new")
    assert watch.share.queue("any") == "new"
    spoil(url, flow, "nonsense")
    until(lambda: watch.share.queue("any") == flow)
    until(lambda: any("all orders go to the old side" in record.message for record in caplog.records))
    set_share(place, flow, 1.0, "new")
    until(lambda: watch.share.queue("any") == "new")
    until(lambda: "is seen again: 100 %" in caplog.text)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    watch.close()


@pytest.mark.system
@pytest.mark.slow
def test_a_redis_that_is_gone_leaves_the_last_share_in_force(flow: str, caplog: pytest.LogCaptureFixture) -> None:
    with Redis("--appendonly", "yes", "--appendfsync", "always") as server:
        place, watch = open_place(server.url), ShareWatch(open_place(server.url), flow)
        set_share(place, flow, 1.0, "new")
        assert watch.share.queue("any") == "new"
        server.stop()
        until(lambda: "the share seen last, 100%, stays in force" in caplog.text)
        assert watch.share.queue("any") == "new"
        with pytest.raises(DiversionError, match=r"set the diversion: diversion='redis://127\.0\.0\.1"):
            set_share(place, flow, 0.0)
        # Who starts now has seen nothing: the old side.
        fresh = ShareWatch(open_place(server.url), flow)
        assert fresh.share.queue("any") == flow
        server.start()
        until(lambda: fresh.share.queue("any") == "new")
        set_share(place, flow, 0.0)
        until(lambda: watch.share.queue("any") == flow)
        watch.close(), fresh.close()


GREEN = """
import sys
from gevent import monkey
monkey.patch_all()
import threading
import gevent
from greenlane_work import divert

publishing = [gevent.spawn(divert, "orders", str(number), at=sys.argv[1]) for number in range(50)]
gevent.joinall(publishing, timeout=20)
print([each.value for each in publishing].count("orders"), [each.name for each in threading.enumerate()][1:])
"""


@pytest.mark.system
@pytest.mark.slow
def test_greenlets_that_publish_at_once_share_one_look(redis_url: str, run_python: Callable[..., Any]) -> None:
    assert run_python(GREEN, redis_url).stdout == "50 ['greenlane-diversion']\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = open_place(f"file://{tmp_path}/file/shares")
    with pytest.raises(DiversionError, match=r"set the diversion: folder='.*/file/shares', expected a folder"):
        set_share(place, "orders", 0.1, "new")


@pytest.mark.parametrize(
    "url", ["", "shares", "file://host/shares", "file:shares", "http://host/", "file:///x?y=1", "redis://h:x/0"]
)
def test_a_url_of_no_place_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"diversion=.*, expected (file:///FOLDER|redis://)"):
        open_place(url)


def test_a_forked_producer_looks_for_itself(url: str, flow: str) -> None:
    place, watch = open_place(url), ShareWatch(open_place(url), flow)
    assert watch.share.revision == 0
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        said = b"nothing"
        try:
            assert watch.share.queue("any") == flow
            os.write(write, b"!")
            until(lambda: watch.share.queue("any") == "new")
            said = b"seen"
        finally:
            os.write(write, said)
            os._exit(0)
    assert os.read(read, 1) == b"!"
    set_share(place, flow, 1.0, "new")
    os.waitpid(pid, 0)
    assert os.read(read, 100) == b"seen"
    os.close(read), os.close(write)
    watch.close()
