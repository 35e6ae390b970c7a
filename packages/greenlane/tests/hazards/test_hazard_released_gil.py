"""Phases that compute without the GIL, and calls that block in C where no probe looks: others go on."""

import ctypes
import fcntl
import hashlib
import os
import tempfile
import zlib

import numpy
import pytest
from tests.hazards.scenario import Flag, Threads, burn, job

BLOCK = bytes(range(256)) * 4096  # 1 MiB


def compress() -> int:
    return len(zlib.decompress(zlib.compress(BLOCK, 6)))


def digest() -> str:
    return hashlib.sha256(BLOCK * 4).hexdigest()


def multiply() -> float:
    ones = numpy.ones((300, 300))
    return float((ones @ ones).sum())


@pytest.mark.parametrize("work", [compress, digest, multiply])
def test_phases_that_release_the_gil_give_the_same_answers(run_jobs, work):
    expected = work()

    def one() -> list[object]:
        answers = []
        for _ in range(2):
            answers.append(work())
            burn(1)
        return answers

    assert run_jobs([one] * 6) == [[expected] * 2] * 6


def test_a_holder_blocked_in_a_pipe_read_gets_its_byte_from_a_waiter(running):
    """os.read, not a socket: no probe sees it; the holder's CPU clock stands still."""
    reader, writer = os.pipe()
    begun = Flag()

    def holder() -> bytes:
        with job(running):
            begun.set()
            burn(1)
            return os.read(reader, 1)

    def waiter() -> int:
        begun.wait(10)
        with job(running):
            burn(1)
            return os.write(writer, b"x")

    threads = Threads()
    threads.start(holder)
    threads.start(waiter)
    assert threads.join() == [b"x", 1]
    os.close(reader)
    os.close(writer)


def test_a_holder_blocked_in_a_file_lock_gets_it_from_a_waiter(running):
    with tempfile.NamedTemporaryFile() as file:
        has_lock, computes = Flag(), Flag()

        def first() -> str:
            with job(running), open(file.name) as mine:
                fcntl.flock(mine, fcntl.LOCK_EX)
                has_lock.set()
                computes.wait(10)
                burn(2)
                return "first"

        def second() -> str:
            has_lock.wait(10)
            with job(running), open(file.name) as mine:
                computes.set()
                burn(5)
                fcntl.flock(mine, fcntl.LOCK_EX)
                return "second"

        threads = Threads()
        threads.start(first)
        threads.start(second)
        assert threads.join() == ["first", "second"]


def test_a_holder_that_sleeps_in_c_keeps_nobody(running):
    libc = ctypes.CDLL(None)
    begun = Flag()
    done: list[str] = []

    def holder() -> None:
        with job(running):
            begun.set()
            while "waiter" not in done:
                libc.usleep(20_000)
            done.append("holder")

    def waiter() -> None:
        begun.wait(10)
        with job(running):
            burn(1)
            done.append("waiter")

    threads = Threads()
    threads.start(holder)
    threads.start(waiter)
    threads.join()
    assert done == ["waiter", "holder"]


def test_a_buffered_writer_whose_pipe_is_full_is_emptied_by_a_waiter(running):
    """The writer blocks in C with the buffer's C lock and the permit held; who must read waits for the permit."""
    reader, writer = os.pipe()
    begun = Flag()
    amount = 1 << 20

    def holder() -> int:
        with job(running), open(writer, "wb") as out:
            begun.set()
            return out.write(bytes(amount))

    def waiter() -> int:
        begun.wait(10)
        with job(running), open(reader, "rb") as source:
            seen = 0
            while block := source.read(65536):
                seen += len(block)
            return seen

    threads = Threads()
    threads.start(holder)
    threads.start(waiter)
    assert threads.join() == [amount, amount]
