"""Frames between a service and its bridge."""

from __future__ import annotations

import os
import threading

import pytest

from greenlane.placement.cluster.wire import Frame, FrameKind, Wire, pair


@pytest.mark.parametrize("buffers", [[], [b""], [b"a", b"", b"bc"], [os.urandom(3_000_000)] * 2, [b"x"] * 1500])
def test_a_frame_arrives_as_it_was_sent_whatever_its_size(buffers: list[bytes]) -> None:
    ours, other = pair()
    theirs = Wire(other.detach())
    sent = Frame(FrameKind.CALL, 7, 1 << 60, -5, b"pickle", buffers)
    sending = threading.Thread(target=lambda: [ours.send(sent) for _ in range(2)])
    sending.start()
    for _ in range(2):
        got = theirs.receive()
        assert got is not None
        assert (got.kind, got.worker, got.call, got.number, bytes(got.text)) == (
            FrameKind.CALL,
            7,
            1 << 60,
            -5,
            b"pickle",
        )
        assert [bytes(buffer) for buffer in got.buffers] == buffers
        assert all(buffer.readonly for buffer in got.buffers)
    sending.join()
    ours.close()
    assert theirs.receive() is None
    theirs.close()


def test_an_end_in_the_middle_of_a_frame_is_an_end() -> None:
    ours, other = pair()
    theirs = Wire(other.detach())
    ours.send(Frame(FrameKind.RESULT, text=b"whole"))
    ours._socket.send(b"\x0a\x00\x00")
    ours.end()
    assert theirs.receive() is not None
    assert theirs.receive() is None
    for wire in (ours, theirs):
        wire.close()
        wire.end()


def test_nobody_at_the_other_end_is_an_error_for_who_sends() -> None:
    ours, other = pair()
    other.close()
    with pytest.raises(OSError):
        ours.send(Frame(FrameKind.BEGIN, text=b"x" * 1_000_000))
    ours.close()
