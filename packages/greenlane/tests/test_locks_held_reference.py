"""Locks whose holders are counted answer every call as others do, and count for the thread that holds them."""

import _thread
import contextlib
import gc
import queue
import select
import socket
import threading
import time

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.lanes.burners import permits

from greenlane import _native
from greenlane.probes import native
from tests.examples import examples

THREADS = 3
WHO = st.integers(0, THREADS - 1)


class Puppet:
    """A thread that does one call at a time and tells the result."""

    def __init__(self, *, job: bool) -> None:
        self._job = job
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        self._answers: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._obey, daemon=True)
        self._thread.start()

    def do(self, call, *arguments, **named):
        """('gave', value) or ('raised', type, text)."""
        self._calls.put((call, arguments, named))
        return self._answers.get(timeout=10)

    def end(self) -> None:
        self._calls.put(None)
        self._thread.join(10)

    def _obey(self) -> None:
        if self._job:
            jobs.open(time.monotonic_ns(), 0, None)
        while (told := self._calls.get()) is not None:
            call, arguments, named = told
            del told
            try:
                answer = ("gave", call(*arguments, **named))
            except Exception as error:
                answer = ("raised", type(error), str(error))
            del call, arguments, named
            self._answers.put(answer)
            del answer


jobs = permits()
# Only what a job holds is counted: the calls of the others go straight through.
puppets = [Puppet(job=True) for _ in range(THREADS)]
plain = [Puppet(job=False) for _ in range(THREADS)]


@pytest.fixture(autouse=True, scope="module")
def ended():
    """No thread of these is left to other tests."""
    yield
    for puppet in (*puppets, *plain):
        puppet.end()


@pytest.fixture(autouse=True)
def seen():
    """The calls of locks are seen."""
    native.install()
    yield
    native.uninstall()


ACQUIRES = st.sampled_from(
    [
        ((False,), {}),
        ((), {"blocking": False}),
        ((True, 0), {}),
        ((), {"timeout": 0}),
        ((), {"timeout": 0.002}),
        ((True, 0.002), {}),
        ((True,), {"timeout": 0.001}),
        # Wrong calls: the same error, and no change.
        ((False, 1), {}),
        ((), {"timeout": -2}),
        ((), {"timeout": 1e30}),
        ((), {"timeout": "soon"}),
        ((1, 2, 3), {}),
        ((), {"block": True}),
    ]
)


class Locks(RuleBasedStateMachine):
    """Drives a lock of threads with jobs, and one of threads without, side by side."""

    make: staticmethod

    def __init__(self) -> None:
        super().__init__()
        native.install()
        self.tracked = self.make()
        self.original = self.make()
        self.owner: int | None = None
        self.depth = 0
        self.before = [puppet.do(_native.locks_held)[1] for puppet in puppets]

    def both(self, who: int, method: str, *arguments, **named):
        ours = puppets[who].do(getattr(self.tracked, method), *arguments, **named)
        theirs = plain[who].do(getattr(self.original, method), *arguments, **named)
        assert ours[:2] == theirs[:2], (method, arguments, named, ours, theirs)
        return theirs

    @rule(who=WHO, call=ACQUIRES)
    def acquire(self, who, call):
        arguments, named = call
        if self.both(who, "acquire", *arguments, **named) == ("gave", True):
            self.owner = who
            self.depth += 1

    @precondition(lambda self: self.depth == 0)
    @rule(who=WHO)
    def enter(self, who):
        assert self.both(who, "__enter__") == ("gave", True)
        self.owner, self.depth = who, 1

    @rule(who=WHO, leaves_block=st.booleans())
    def release(self, who, leaves_block):
        ended = self.both(who, "__exit__", None, None, None) if leaves_block else self.both(who, "release")
        if ended[0] == "gave":
            self.depth -= 1
            self.owner = self.owner if self.depth else None

    @precondition(lambda self: hasattr(self.original, "locked"))
    @rule(who=WHO)
    def locked(self, who):
        self.both(who, "locked")

    @invariant()
    def each_thread_holds_what_it_took(self):
        held = [puppet.do(_native.locks_held)[1] for puppet in puppets]
        assert held == [before + (self.owner == who) for who, before in enumerate(self.before)]

    def teardown(self) -> None:
        # A lock that is dropped while it is held counts no longer.
        self.tracked = None
        gc.collect()
        assert [puppet.do(_native.locks_held)[1] for puppet in puppets] == self.before


class PlainLocks(Locks):
    make = staticmethod(_thread.allocate_lock)


class RecursiveLocks(Locks):
    make = staticmethod(_thread.RLock)

    @rule(who=WHO)
    def is_owned(self, who):
        self.both(who, "_is_owned")

    @precondition(lambda self: hasattr(self.original, "_recursion_count"))
    @rule(who=WHO)
    def recursion_count(self, who):
        self.both(who, "_recursion_count")

    @rule(who=WHO)
    def wait_as_a_condition_does(self, who):
        """Give all levels back, and take them again: `Condition.wait`, which asks `_is_owned` first."""
        if self.owner not in (None, who):
            return
        ours = puppets[who].do(self.tracked._release_save)
        theirs = plain[who].do(self.original._release_save)
        assert ours[0] == theirs[0]
        if ours[0] == "gave":
            assert puppets[who].do(_native.locks_held)[1] == self.before[who]
            assert ours[1][0] == theirs[1][0] == self.depth
            assert puppets[who].do(self.tracked._acquire_restore, ours[1]) == ("gave", None)
            assert plain[who].do(self.original._acquire_restore, theirs[1]) == ("gave", None)


TestPlainLocks = PlainLocks.TestCase
TestRecursiveLocks = RecursiveLocks.TestCase
TestPlainLocks.settings = TestRecursiveLocks.settings = examples(40, stateful_step_count=30)


each = pytest.mark.parametrize("make", [_thread.allocate_lock, _thread.RLock])


@pytest.fixture
def job():
    """This thread runs one."""
    jobs.open(time.monotonic_ns(), 0, None)
    yield
    jobs.close()


@each
def test_a_lock_reinitialized_after_fork_is_free_and_counts_for_nobody(make, job):
    before = _native.locks_held()
    lock = make()
    lock.acquire()
    assert _native.locks_held() == before + 1
    lock._at_fork_reinit()
    assert _native.locks_held() == before
    assert lock.acquire(blocking=False)
    lock.release()
    assert _native.locks_held() == before


@each
def test_an_error_inside_the_block_releases(make, job):
    lock = make()
    with contextlib.suppress(KeyError), lock:
        assert _native.locks_held() == 1
        raise KeyError
    assert _native.locks_held() == 0


@each
def test_a_lock_that_dies_held_counts_no_longer_and_its_memory_is_another_locks(make, job):
    for _ in range(100):
        assert make().acquire()
        assert _native.locks_held() == 0


@each
def test_a_condition_wakes_its_waiters_and_nothing_stays_held(make):
    condition = threading.Condition(make())
    items: list[int] = []
    seen: list[int] = []
    held: list[int] = []

    def take() -> None:
        jobs.open(time.monotonic_ns(), 0, None)
        with condition:
            assert condition.wait_for(lambda: items, timeout=10)
            seen.append(items.pop())
        held.append(_native.locks_held())
        jobs.close()

    threads = [threading.Thread(target=take, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(4):
        with condition:
            items.append(number)
            condition.notify()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == [0, 1, 2, 3]
    assert held == [0, 0, 0, 0]


def test_switching_a_thousand_times_under_load_loses_no_count_and_no_call():
    """Threads with jobs hammer locks, queues and sockets while the method tables lead to us and back."""
    stop = threading.Event()
    errors: list[BaseException] = []
    held: list[int] = []
    locks = [threading.Lock(), threading.RLock(), threading.Lock()]
    shared: queue.Queue[int] = queue.Queue(2)
    quick: queue.SimpleQueue[int] = queue.SimpleQueue()
    near, far = socket.socketpair()
    done = [0] * 6

    def work(number: int) -> None:
        try:
            jobs.open(time.monotonic_ns(), 0, None)
            while not stop.is_set():
                with locks[number % 3], locks[1], threading.Lock():
                    threading.Lock().acquire()
                with contextlib.suppress(queue.Full, queue.Empty):
                    shared.put(1, timeout=0.001) if number % 2 else shared.get(timeout=0.001)
                quick.put(number)
                quick.get()
                near.send(b"x") if number % 2 else select.select([far], [], [], 0.001)
                if not number:
                    far.recv(4096)
                done[number] += 1
            held.append(_native.locks_held())
        except BaseException as error:
            errors.append(error)
        finally:
            jobs.close()

    near.settimeout(1)
    far.settimeout(0.01)
    near.send(b"x")  # for the first thread, which may look before another one has a core
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(1_000):
        native.uninstall()
        native.install()
        time.sleep(0.0005)
    stop.set()
    for thread in threads:
        thread.join(20)
    errors = [error for error in errors if not isinstance(error, TimeoutError)]
    assert not errors and not any(thread.is_alive() for thread in threads)
    assert all(done)
    assert {*held} <= {0}
    near.close()
    far.close()
