"""Tracked locks answer every call as the interpreter's own locks do, and count what each thread holds."""

import _thread
import contextlib
import gc
import queue
import threading

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenlane import _native
from tests.examples import examples

THREADS = 3
WHO = st.integers(0, THREADS - 1)


class Puppet:
    """A thread that does one call at a time and tells what came of it."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        self._answers: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self._obey, daemon=True).start()

    def do(self, call, *arguments, **named):
        """('gave', value) or ('raised', type, text)."""
        self._calls.put((call, arguments, named))
        return self._answers.get(timeout=10)

    def _obey(self) -> None:
        while True:
            call, arguments, named = self._calls.get()
            try:
                answer = ("gave", call(*arguments, **named))
            except Exception as error:
                answer = ("raised", type(error), str(error))
            del call, arguments, named
            self._answers.put(answer)
            del answer


puppets = [Puppet() for _ in range(THREADS)]

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
    """Drives a tracked lock and the original side by side."""

    tracked_type: type
    original_type: type

    def __init__(self) -> None:
        super().__init__()
        self.tracked = self.tracked_type()
        self.original = self.original_type()
        self.owner: int | None = None
        self.depth = 0
        self.before = [puppet.do(_native.locks_held)[1] for puppet in puppets]

    def both(self, who: int, method: str, *arguments, **named):
        ours = puppets[who].do(getattr(self.tracked, method), *arguments, **named)
        theirs = puppets[who].do(getattr(self.original, method), *arguments, **named)
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
    tracked_type = _native.Lock
    original_type = staticmethod(_thread.allocate_lock)


class RecursiveLocks(Locks):
    tracked_type = _native.RLock
    original_type = staticmethod(_thread.RLock)

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
        theirs = puppets[who].do(self.original._release_save)
        assert ours[0] == theirs[0]
        if ours[0] == "gave":
            assert puppets[who].do(_native.locks_held)[1] == self.before[who]
            assert ours[1][0] == theirs[1][0] == self.depth
            assert puppets[who].do(self.tracked._acquire_restore, ours[1]) == ("gave", None)
            assert puppets[who].do(self.original._acquire_restore, theirs[1]) == ("gave", None)


TestPlainLocks = PlainLocks.TestCase
TestRecursiveLocks = RecursiveLocks.TestCase
TestPlainLocks.settings = TestRecursiveLocks.settings = examples(40, stateful_step_count=30)


@pytest.mark.parametrize("make", [_native.Lock, _native.RLock])
def test_a_lock_reinitialized_after_fork_is_free_and_counts_for_nobody(make):
    before = _native.locks_held()
    lock = make()
    lock.acquire()
    assert _native.locks_held() == before + 1
    lock._at_fork_reinit()
    assert _native.locks_held() == before
    assert lock.acquire(blocking=False)
    lock.release()
    assert _native.locks_held() == before


@pytest.mark.parametrize("make", [_native.Lock, _native.RLock])
def test_an_error_inside_the_block_releases(make):
    lock = make()
    with contextlib.suppress(KeyError), lock:
        raise KeyError
    assert lock.acquire(blocking=False)
    lock.release()


@pytest.mark.parametrize("make", [_native.Lock, _native.RLock])
def test_a_condition_over_a_tracked_lock_wakes_its_waiters(make):
    condition = threading.Condition(make())
    items: list[int] = []
    seen: list[int] = []

    def take() -> None:
        with condition:
            assert condition.wait_for(lambda: items, timeout=10)
            seen.append(items.pop())

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
    assert _native.locks_held() == 0


def test_an_rlock_can_be_subclassed_with_arguments():
    class Named(_native.RLock):
        def __init__(self, name: str) -> None:
            self.name = name

    lock = Named("x")
    with lock, lock:
        assert lock.name == "x"
    assert not lock._is_owned()
