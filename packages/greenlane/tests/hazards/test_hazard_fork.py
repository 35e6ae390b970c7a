"""Fork: a child has none of its parent's threads, so none of their permits, waiters or locks."""

import pytest


def test_a_child_forked_in_a_job_exits_and_the_job_goes_on(script):
    script("""
        import os
        from tests.hazards.scenario import *
        running = start_script()

        def one():
            burn(1)
            child = os.fork()
            if not child:
                os._exit(7)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            burn(1)
            return code

        assert run_jobs(running, [one] * 4) == [7] * 4
        settled(running)
    """)


def test_a_child_serves_jobs_of_its_own_while_the_parents_threads_hold_and_wait(script):
    script("""
        import os, threading
        from tests.hazards.scenario import *
        running = start_script()
        ready, go_on = Flag(), []

        def hold():
            with job(running):
                ready.set()
                spin_until(lambda: go_on)

        def wait():
            with job(running):
                burn(1)

        threads = Threads()
        threads.start(hold)
        ready.wait(10)
        for _ in range(3):
            threads.start(wait)
        if running.mode() == "on":
            until(lambda: running.pressure()[1] == 3 or running.counters()["skipped_timeout"])
        child = os.fork()
        if not child:
            start_child()
            code = 1
            try:
                assert running.pressure() == (0, 0), running.pressure()
                assert run_jobs(running, [lambda: burn(1) or "served"] * 4) == ["served"] * 4
                assert running.pressure() == (0, 0), running.pressure()
                code = 0
            except BaseException as error:
                print("child:", repr(error), flush=True)
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        go_on.append(True)
        threads.join()
        settled(running)
        assert code == 0, code
    """)


def test_a_child_forked_in_a_job_goes_on_with_that_job(script):
    script("""
        import os, time
        from tests.hazards.scenario import *
        running = start_script()
        with job(running):
            burn(1)
            child = os.fork()
            if not child:
                start_child()
            burn(1)
            time.sleep(0)
            burn(1)
        run_jobs(running, [lambda: burn(1)] * 3)
        settled(running)
        if not child:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)


def test_forks_beside_busy_threads_never_inherit_a_taken_lock(script):
    script("""
        import os, threading, time
        from tests.hazards.scenario import *
        running = start_script()
        stop = []
        lock = threading.Lock()

        def churn():
            while not stop:
                with job(running):
                    burn(0.2)
                    time.sleep(0)
                    with lock:
                        burn(0.1)

        threads = Threads()
        for _ in range(4):
            threads.start(churn)
        for _ in range(25):
            with job(running):
                child = os.fork()
                if not child:
                    start_child()
                    with job(running):
                        time.sleep(0)
                        burn(0.2)
                    os._exit(0)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code == 0, code
        stop.append(True)
        threads.join()
        settled(running)
    """)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_of_multiprocessing_inside_a_job(script, method):
    script(f"""
        import multiprocessing
        from tests.hazards.scenario import *

        def work(box):
            burn(1)
            box.put(multiprocessing.current_process().name)

        def one():
            burn(1)
            box = context.SimpleQueue()
            process = context.Process(target=work, args=(box,))
            process.start()
            name = box.get()
            process.join(15)
            return process.exitcode, bool(name)

        if __name__ == "__main__":
            running = start_script()
            context = multiprocessing.get_context("{method}")
            assert run_jobs(running, [one] * 2) == [(0, True)] * 2
            settled(running)
    """)


def test_a_process_pool_inside_jobs(script):
    script("""
        import concurrent.futures, multiprocessing
        from tests.hazards.scenario import *

        def square(number):
            burn(1)
            return number * number

        if __name__ == "__main__":
            running = start_script()
            with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
                def one():
                    burn(1)
                    return list(pool.map(square, range(4)))
                assert run_jobs(running, [one] * 3) == [[0, 1, 4, 9]] * 3
            settled(running)
    """)


def test_subprocesses_inside_jobs(script):
    script("""
        import os, subprocess, sys
        from tests.hazards.scenario import *
        running = start_script()

        def one(number):
            def run():
                burn(1)
                out = subprocess.run(["/bin/echo", str(number)], capture_output=True, text=True, timeout=15).stdout
                with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
                    back = cat.communicate(b"x" * 100_000, timeout=15)[0]
                code = subprocess.call(["/bin/sh", "-c", "exit 3"])
                early = subprocess.run(["/bin/true"], preexec_fn=os.setsid).returncode
                return out.strip(), len(back), code, early, os.system("exit 2") >> 8, os.popen("echo p").read()
            return run

        expected = [(str(number), 100_000, 3, 0, 2, "p\\n") for number in range(4)]
        assert run_jobs(running, [one(number) for number in range(4)]) == expected
        settled(running)
    """)
