"""A tree of subprocesses as Airflow's: a scheduler starts an executor, it forks supervisors, they exec tasks."""

import json
import os
import signal
import subprocess
import sys
import time


def scheduler(depth):
    heartbeat, told = os.pipe()
    os.set_inheritable(told, True)
    executor = subprocess.Popen(
        [sys.executable, *FLAGS, __file__, "executor", str(told)], close_fds=True, pass_fds=(told,),
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    os.close(told)
    lines = executor.communicate(timeout=50)[0].splitlines()
    print("heartbeats", len(os.read(heartbeat, 100)))
    print("executor", executor.returncode, sorted(lines))


def executor(told):
    pids = []
    for number in range(3):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.write(told, b".")
            status = supervise(number)
            sys.stdout.flush()
            os._exit(status)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    print("supervisors", codes, flush=True)


def supervise(number):
    task = subprocess.Popen(
        [sys.executable, *FLAGS, __file__, "task", str(number)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if number == 2:  # zombies are killed
        assert task.stdout is not None and task.stdout.readline() == "running\n"
        task.send_signal(signal.SIGTERM)
    output, _ = task.communicate(timeout=40)
    print(json.dumps([number, task.returncode, output]), flush=True)
    return number + 10


def task(number):
    if number == 2:
        print("running", flush=True)
        time.sleep(40)
    if number == 1:
        raise RuntimeError("this task fails")
    print("task", number, "of session" if os.getsid(0) != os.getpid() else "alone")


FLAGS = [] if __debug__ else ["-OO"]

if __name__ == "__main__":
    kind = sys.argv[1]
    {"scheduler": scheduler, "executor": executor, "task": task}[kind](int(sys.argv[2]))
