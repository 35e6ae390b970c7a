"""A test suite of others, for pytest-xdist and coverage."""

import threading
import time

import pytest


@pytest.mark.parametrize("number", range(8))
def test_waits(number, tmp_path):
    done = threading.Event()
    threading.Thread(target=lambda: (time.sleep(0.001), done.set())).start()
    assert done.wait(5)
    (tmp_path / "file").write_text(str(number))


def test_fails():
    assert 1 == 2


def test_says(capsys):
    print("said")
    assert capsys.readouterr().out == "said\n"
