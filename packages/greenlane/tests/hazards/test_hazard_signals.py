"""Signals: their Python functions run in the main thread, also while that thread waits for a permit."""

PROLOGUE = """
        import os, signal, socket, threading, time
        from tests.hazards.scenario import *
        running = start_script()
        ready, go_on, handled = Flag(), [], []

        def hold():
            with job(running):
                ready.set()
                spin_until(lambda: go_on)

        threads = Threads()
        threads.start(hold)
        ready.wait(10)
"""


def test_a_signal_function_that_blocks_while_the_main_thread_waits(script):
    script(
        PROLOGUE
        + """
        lock = threading.Lock()

        def ring(number, frame):
            near, far = socket.socketpair()
            time.sleep(0.001)
            with lock:
                near.sendall(b"x")
                handled.append(far.recv(1))
            near.close()
            far.close()
            if len(handled) < 3:
                signal.setitimer(signal.ITIMER_REAL, 0.01)  # one at a time: it must not meet itself in its lock

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with job(running):
            spin_until(lambda: len(handled) >= 3)
            time.sleep(0)
        go_on.append(True)
        threads.join()
        settled(running)
        assert set(handled) == {b"x"}
    """
    )


def test_an_exception_of_a_signal_function_reaches_the_job_that_waits(script):
    """The time-out idiom: an alarm that raises. It must not be swallowed by the wait for the permit."""
    script(
        PROLOGUE
        + """
        class Alarm(Exception):
            pass

        def ring(number, frame):
            handled.append(True)
            raise Alarm

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        seen = None
        try:
            with job(running):
                end = time.monotonic() + 10
                while time.monotonic() < end:
                    time.sleep(0)
                    burn(0.1)
        except Alarm as raised:
            seen = raised
        go_on.append(True)
        threads.join()
        settled(running)
        assert handled == [True]
        assert isinstance(seen, Alarm)
        with job(running):
            burn(1)
        settled(running)
    """
    )


def test_keyboard_interrupt_ends_a_main_thread_that_waits(script):
    script(
        PROLOGUE
        + """
        interrupted = False
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            with job(running):
                end = time.monotonic() + 10
                while time.monotonic() < end:
                    time.sleep(0)
                    burn(0.1)
        except KeyboardInterrupt:
            interrupted = True
        go_on.append(True)
        threads.join()
        settled(running)
        assert interrupted
    """
    )


def test_a_storm_of_signals_beside_waiting_jobs(script):
    script(
        PROLOGUE
        + """
        signal.signal(signal.SIGALRM, lambda number, frame: handled.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        go_on.append(True)
        lock = threading.Lock()

        def one():
            for _ in range(5):
                burn(0.5)
                time.sleep(0.001)
                with lock:
                    burn(0.2)
            return "done"

        assert run_jobs(running, [one] * 6) == ["done"] * 6
        with job(running):
            one()
        signal.setitimer(signal.ITIMER_REAL, 0)
        threads.join()
        settled(running)
        assert handled
    """
    )


def test_a_blocking_call_interrupted_by_a_signal_is_resumed(script):
    """PEP 475 through the probes: no InterruptedError, no shortened sleep, no lost data."""
    script("""
        import signal, socket, threading, time
        from tests.hazards.scenario import *
        running = start_script()
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        near, far = socket.socketpair()
        sender = threading.Timer(0.05, near.sendall, (b"late",))
        with job(running):
            sender.start()
            signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
            began = time.monotonic()
            time.sleep(0.03)
            assert time.monotonic() - began >= 0.03
            assert far.recv(4) == b"late"
            assert threading.Event().wait(0.02) is False
            signal.setitimer(signal.ITIMER_REAL, 0)
        sender.join()
        near.close()
        far.close()
        settled(running)
    """)
