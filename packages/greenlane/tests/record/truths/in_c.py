"""Troubles of native code: it waits for a thread of its own, or calls libc through a table of its own, as SQLite does.

Each knows from its own clock when what it waited for happened; until it runs again is either I/O or want of a core.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

from greenlane._native import calls_rescan
from greenlane.record.jobs import job

AWAY_NS = 3_000_000
_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int (*opens)(const char *, int, ...);
/* An address that the linker puts into data. */
opens table[] = {open};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int answered, kind;
static long away_ns, answered_ns;
static const char *path;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *answers(void *unused) {
    struct timespec t = {0, away_ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0);
    answered_ns = now();
    if (kind == 2) {
        close(open(path, O_WRONLY));
        return 0;
    }
    pthread_mutex_lock(&mutex);
    answered = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    if (kind == 1)
        syscall(SYS_futex, &answered, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    return 0;
}

/* How long until it was answered, and until it ran again. */
void waits(int how, const char *where, long ns, long *until, long *again) {
    pthread_t thread;
    kind = how, path = where, away_ns = ns, answered = 0;
    pthread_create(&thread, 0, answers, 0);
    long from = now();
    if (kind == 0) {
        pthread_mutex_lock(&mutex);
        while (!answered)
            pthread_cond_wait(&condition, &mutex);
        pthread_mutex_unlock(&mutex);
    } else if (kind == 1) {
        while (!*(volatile int *)&answered)
            syscall(SYS_futex, &answered, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    } else {
        close(table[0](path, O_RDONLY));
    }
    *again = now() - from;
    *until = answered_ns - from;
    pthread_join(thread, 0);
}
"""


def _waits(count: int, how: int) -> dict[str, float | tuple[float, float]]:
    until_ns = again_ns = 0
    with tempfile.TemporaryDirectory(prefix="gltruth-") as folder:
        source, built, pipe = (str(Path(folder, name)) for name in ("waits.c", "waits.so", "pipe"))
        Path(source).write_text(_SOURCE, encoding="utf-8")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-pthread", "-o", built, source], check=True)
        os.mkfifo(pipe)
        library = ctypes.CDLL(built)
        calls_rescan()  # The writer does so five times a second.
        until, again = ctypes.c_long(), ctypes.c_long()
        for _ in range(count):
            with job("victim"):
                library.waits(how, pipe.encode(), ctypes.c_long(AWAY_NS), ctypes.byref(until), ctypes.byref(again))
            until_ns, again_ns = until_ns + until.value, again_ns + again.value
    return {"io driver": (until_ns, again_ns), "wait unseen": 0}


def condition(count: int) -> dict[str, float | tuple[float, float]]:
    """Waits at a condition variable for a thread that is not Python's, as librdkafka and gRPC do."""
    return _waits(count, 0)


def futex(count: int) -> dict[str, float | tuple[float, float]]:
    """The same by a futex, as Rust's and abseil's locks do."""
    return _waits(count, 1)


def table(count: int) -> dict[str, float | tuple[float, float]]:
    """Opens a file that is slow, by an address in a table."""
    return _waits(count, 2)
