"""Logging from many jobs: locks held across file I/O, rotation, and a queue drained by another thread."""

import logging
import logging.handlers
import queue
import threading

import pytest
from tests.hazards.scenario import burn, until

JOBS, RECORDS = 6, 20


@pytest.fixture
def logger():
    made = logging.getLogger(f"hazard-{threading.get_ident()}")
    made.setLevel(logging.INFO)
    made.propagate = False
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
        handler.close()


def talk(logger: logging.Logger, who: int):
    def run() -> None:
        for number in range(RECORDS):
            logger.info("job %d record %d", who, number)
            burn(0.2)

    return run


EXPECTED = sorted(f"job {who} record {number}" for who in range(JOBS) for number in range(RECORDS))


def test_a_rotating_file_loses_no_line(run_jobs, logger, tmp_path):
    file = tmp_path / "rotating.log"
    logger.addHandler(logging.handlers.RotatingFileHandler(file, maxBytes=300, backupCount=100))
    run_jobs([talk(logger, who) for who in range(JOBS)])
    lines = [line for part in tmp_path.iterdir() for line in part.read_text().splitlines()]
    assert sorted(lines) == EXPECTED
    assert len(list(tmp_path.iterdir())) > 5


@pytest.mark.parametrize("make", [lambda: queue.Queue(), lambda: queue.SimpleQueue(), lambda: queue.Queue(4)])
def test_a_queue_listener_gets_every_record(run_jobs, logger, make):
    class Line(logging.handlers.QueueHandler):
        def enqueue(self, record: logging.LogRecord) -> None:
            self.queue.put(record)  # waits when full

    seen: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    line = make()
    logger.addHandler(Line(line))
    listener = logging.handlers.QueueListener(line, Keep())
    listener.start()
    run_jobs([talk(logger, who) for who in range(JOBS)])
    until(lambda: len(seen) == len(EXPECTED))
    listener.stop()  # does not wait for room
    assert sorted(seen) == EXPECTED


def test_a_memory_handler_that_flushes_to_a_file(run_jobs, logger, tmp_path):
    target = logging.FileHandler(tmp_path / "memory.log")
    logger.addHandler(logging.handlers.MemoryHandler(7, target=target))
    run_jobs([talk(logger, who) for who in range(JOBS)])
    for handler in logger.handlers:
        handler.flush()
    target.close()
    assert sorted((tmp_path / "memory.log").read_text().splitlines()) == EXPECTED


def test_a_handler_made_before_patching_by_its_lock(run_jobs, logger):
    """A handler whose lock is the plain C RLock that logging had before anything was patched."""
    import _thread

    seen: list[str] = []

    class Keep(logging.Handler):
        def createLock(self) -> None:
            self.lock = _thread.RLock()

        def emit(self, record: logging.LogRecord) -> None:
            burn(0.05)
            seen.append(record.getMessage())

    logger.addHandler(Keep())
    run_jobs([talk(logger, who) for who in range(JOBS)])
    assert sorted(seen) == EXPECTED
