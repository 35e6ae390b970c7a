"""Uses what the probes stand in: threads, locks, queues, sockets, children, files, signals, timers."""

import os
import pickle
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def main():
    given = queue.Queue()
    lock = threading.Lock()
    total = [0]

    def works():
        while (number := given.get()) is not None:
            time.sleep(0.001)
            with lock:
                total[0] += number

    threads = [threading.Thread(target=works) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(30):
        given.put(number)
    for _ in threads:
        given.put(None)
    for thread in threads:
        thread.join()
    print("sum", total[0])

    with ThreadPoolExecutor(2) as pool:
        print("squares", list(pool.map(lambda number: number * number, range(5))))

    ours, theirs = socket.socketpair()
    theirs.sendall(b"hello")
    print(select.select([ours], [], [], 1)[0] == [ours], ours.recv(100))
    ours.close()
    theirs.close()

    child = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    print("child", child.stdout.strip(), repr(child.stderr))
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    print("forked", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    with tempfile.TemporaryFile() as file:
        file.write(b"kept")
        file.seek(0)
        print(file.read())
    signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    print(pickle.loads(pickle.dumps(socket.AF_INET)), threading.active_count())
    print("ends", file=sys.stderr)


if __name__ == "__main__":
    main()
    sys.exit(3)
