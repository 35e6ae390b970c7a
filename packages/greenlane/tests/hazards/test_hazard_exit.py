"""The process ends, or greenlane stops, while threads hold and wait."""

import pytest

PROLOGUE = """
        import atexit, os, sys, threading, time
        from tests.hazards.scenario import *
        running = start_script()
        ready, go_on = Flag(), []

        def hold():
            with job(running):
                ready.set()
                while not go_on:
                    pass

        def wait():
            with job(running):
                while not go_on:
                    time.sleep(0)
                    burn(5)  # no trifle: once known, those run free

        def begin(daemon):
            for function in (hold, wait, wait):
                threading.Thread(target=function, daemon=daemon).start()
            ready.wait(10)
            if running.mode() == "on":
                until(lambda: running.pressure()[1] or running.counters()["skipped_timeout"])
"""


def test_daemon_threads_that_hold_and_wait_do_not_delay_the_exit(script):
    script(PROLOGUE + "\n        begin(True)\n", within_s=20)


def test_sys_exit_while_daemon_threads_hold_and_wait(script):
    script(PROLOGUE + "\n        begin(True)\n        sys.exit(3)\n", exit_code=3, within_s=20)


def test_sys_exit_inside_a_job_of_the_main_thread(script):
    source = "\n        begin(True)\n        with job(running):\n            burn(1)\n            sys.exit(4)\n"
    script(PROLOGUE + source, exit_code=4, within_s=20)


def test_ordinary_threads_finish_before_the_exit(script):
    out = script(
        PROLOGUE
        + """
        begin(False)
        atexit.register(lambda: print("pressure", running.pressure(), flush=True))
        threading.Timer(0.05, go_on.append, (True,)).start()
    """
    )
    assert out == "pressure (0, 0)\n"


def test_jobs_in_an_exit_function(script):
    out = script(
        PROLOGUE
        + """
        @atexit.register
        def last():
            with job(running):
                time.sleep(0)
                burn(1)
            print("last job done", flush=True)
        begin(True)
    """,
        within_s=8,
    )
    assert out == "last job done\n"


def test_a_job_left_open_at_exit(script):
    script(
        PROLOGUE
        + """
        from greenlane import phase
        running.open(environ("/heavy/open"), time.monotonic_ns())
        phase.name(HEAVY)
        burn(1)
    """,
        within_s=5,
    )


def test_an_unhandled_error_while_threads_wait_exits_with_its_traceback(script):
    script(
        PROLOGUE + "\n        begin(True)\n        raise RuntimeError('the end')\n",
        exit_code=1,
        within_s=5,
        quiet=False,
    )


@pytest.mark.parametrize("times", [1, 3])
def test_stop_while_threads_hold_and_wait_frees_them_and_restores_what_was_patched(script, times):
    script(
        f"""
        import _thread, os, queue, select, socket, sys, threading, time
        originals = (time.sleep, socket.socket.recv, threading.Lock, queue.Queue.get, select.select)
        from tests.hazards.scenario import *
        for _ in range({times}):
            running = start_script()
            ready, go_on = Flag(), []

            def hold():
                with job(running):
                    ready.set()
                    spin_until(lambda: go_on)

            def wait():
                with job(running):
                    time.sleep(0)
                    burn(0.5)

            threads = Threads()
            threads.start(hold)
            ready.wait(10)
            for _ in range(3):
                threads.start(wait)
            if running.mode() == "on":
                # Or they were let in: where cores are short, who holds the permit may stand still.
                let_in = ("skipped_timeout", "lent_still", "lent_overrun")
                until(lambda: running.pressure()[1] or any(running.counters()[name] for name in let_in))
            running.stop()
            go_on.append(True)
            threads.join()
            settled(running)
            assert (time.sleep, socket.socket.recv, threading.Lock, queue.Queue.get, select.select) == originals
    """
    )
