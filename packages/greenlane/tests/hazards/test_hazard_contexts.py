"""What belongs to a thread or a context is never another job's."""

import contextvars
import decimal
import threading
import time

from tests.hazards.scenario import burn

user: contextvars.ContextVar[int] = contextvars.ContextVar("user")


def test_thread_locals_are_never_mixed(run_jobs):
    local = threading.local()

    def one(who: int):
        def run() -> list[int]:
            local.who = who
            seen = []
            for _ in range(5):
                burn(0.5)
                time.sleep(0)
                seen.append(local.who)
            return seen

        return run

    assert run_jobs([one(who) for who in range(8)]) == [[who] * 5 for who in range(8)]


def test_context_variables_are_never_mixed(run_jobs):
    def one(who: int):
        def run() -> list[int]:
            token = user.set(who)
            seen = []
            for _ in range(5):
                burn(0.5)
                time.sleep(0)
                seen.append(contextvars.copy_context().run(user.get))
            user.reset(token)
            assert user.get(-1) == -1
            return seen

        return run

    assert run_jobs([one(who) for who in range(8)]) == [[who] * 5 for who in range(8)]


def test_a_token_is_reset_in_the_context_that_made_it(run_jobs):
    """A probe that ran user code in a context of its own would make `reset` raise ValueError."""

    def one() -> bool:
        token = user.set(1)
        time.sleep(0)
        threading.Lock().acquire(timeout=1)
        user.reset(token)
        return True

    assert run_jobs([one] * 4) == [True] * 4


def test_decimal_contexts_keep_their_precision(run_jobs):
    def one(precision: int):
        def run() -> tuple[int, int]:
            with decimal.localcontext() as context:
                context.prec = precision
                burn(1)
                time.sleep(0.001)
                third = decimal.Decimal(1) / 3
                burn(1)
                return decimal.getcontext().prec, len(str(third)) - 2

        return run

    assert run_jobs([one(precision) for precision in range(5, 13)]) == [
        (precision, precision) for precision in range(5, 13)
    ]


def test_exception_context_belongs_to_its_own_job(run_jobs):
    def one(who: int):
        def run() -> tuple[int, int]:
            try:
                raise KeyError(who)
            except KeyError:
                burn(1)
                time.sleep(0)
                try:
                    raise ValueError(who)
                except ValueError as error:
                    return error.args[0], error.__context__.args[0]

        return run

    assert run_jobs([one(who) for who in range(6)]) == [(who, who) for who in range(6)]
