"""What is made of workers' answers on their sockets."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

from pos.contenders import look, look_at_all, together


def key(name: str, parked: int, breaker: str = "closed") -> dict[str, object]:
    return {"key": name, "parked": parked, "running": 1, "limit": 20, "breaker": breaker}


def answering(path: Path, line: bytes) -> threading.Thread:
    """Answers one question with this line."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def answer() -> None:
        with server, server.accept()[0] as asked:
            assert json.loads(asked.recv(1_000)) == {"do": "show"}
            asked.sendall(line)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_a_worker_is_asked_and_what_is_no_answer_is_none(tmp_path: Path) -> None:
    assert look(tmp_path / "nobody.sock") is None
    tasks = {"slots": 200, "keys": [key("taco", 3)]}
    for number, line in enumerate((json.dumps({"ok": True, "tasks": tasks}).encode() + b"\n", b"{\n", b"")):
        thread = answering(tmp_path / f"{number}.sock", line)
        assert look(tmp_path / f"{number}.sock") == (None if number else tasks)
        thread.join()
    assert look_at_all(tmp_path) == []


def test_several_workers_are_added_up_and_an_open_breaker_is_not_hidden() -> None:
    workers = [{"keys": [key("taco", 3), key("bento", 1, "open")]}, {"keys": [key("taco", 4), key("bento", 0)]}]
    assert together(workers) == {
        "taco": {"parked": 7, "running": 2, "limit": 40, "breaker": "closed"},
        "bento": {"parked": 1, "running": 2, "limit": 40, "breaker": "open"},
    }
