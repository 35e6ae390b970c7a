"""A daemon of python-daemon: it detaches, closes every descriptor, keeps a database, and ends by a signal."""

import os
import signal
import sqlite3
import sys
import time

import daemon
import daemon.pidfile


def main(folder):
    database = os.path.join(folder, "kept.sqlite")
    context = daemon.DaemonContext(
        working_directory=folder, umask=0o027, pidfile=daemon.pidfile.TimeoutPIDLockFile(os.path.join(folder, "pid")),
        signal_map={signal.SIGTERM: lambda *_: sys.exit(0)}, stderr=open(os.path.join(folder, "errors"), "w"),
    )  # fmt: skip
    with context, sqlite3.connect(database) as connection:
        connection.execute("create table seen (number integer)")
        for number in range(200):
            connection.execute("insert into seen values (?)", (number,))
            connection.commit()
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        with open(os.path.join(folder, "result"), "w") as file:
            file.write(f"{connection.execute('select sum(number) from seen').fetchone()} {os.getppid() != 0}\n")
        os.rename(os.path.join(folder, "result"), os.path.join(folder, "done"))
        time.sleep(30)


if __name__ == "__main__":
    main(sys.argv[1])
