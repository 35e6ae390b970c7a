"""Truths about executors, threads of servers, locks, semaphores, and pools of processes."""

from __future__ import annotations

import os

from tests.truths.truth import GTHREAD, SYNC, UVICORN, Truth, beside, edited, load, service

_EXECUTOR = ("executor",)
_NEITHER = ("take_turns", "off_loop", "to_thread", "more_cores")
_WAITRESS = ("waitress", "--listen", "127.0.0.1:{port}", "--threads")
_FOUR = (*GTHREAD[:-1], "4")
#: What asyncio gives its default executor.
_DEFAULT = min(32, (os.cpu_count() or 1) + 4)

_RESOLVER = service("executor_resolver", (*UVICORN, "--loop", "asyncio"), load({"/archive": 9}, {"/quote": 12}), 20)
_OWN = (
    ("await asyncio.to_thread(read_folder)", "await asyncio.get_running_loop().run_in_executor(folders, read_folder)"),
    ("import httpx\n", "import httpx\nfrom concurrent.futures import ThreadPoolExecutor\n"),
    ("app = FastAPI()\n", "app = FastAPI()\nfolders = ThreadPoolExecutor(16)\n"),
)
_TRACK = service("executor_default", (), load({"/track": 20}), 300)
_LARGER = (
    ("run_in_executor(None", "run_in_executor(pool"),
    (
        "\n\ndef fetch",
        "\nfrom concurrent.futures import ThreadPoolExecutor\n\npool = ThreadPoolExecutor(24)\n\n\ndef fetch",
    ),
)
_REPORTS = service("limiter_reports", UVICORN, load({"/report": 46}, {"/ping": 12}), 800)
_PAGES = service("limiter_own", UVICORN, load({"/page": 10}), 250)
_PDF = service("executor_pdf", GTHREAD, load({"/invoice": 10}), 250)
_THUMBS = service("executor_thumbs", UVICORN, load({"/convert": 9}, {"/thumb": 10}), 400)
_SERVER = service("threads_server", _FOUR, load({"/slow": 7}, {"/ping": 10}), 500)
_SERVER_WAITRESS = service("threads_server", (*_WAITRESS, "4"), load({"/slow": 7}, {"/ping": 10}), 500)
_REFRESH = service("lock_refresh", GTHREAD, load({"/refresh": 2}, {"/price": 10}), 400)
_RENEW = service("lock_async", UVICORN, load({"/renew": 2}, {"/call": 10}), 400)
_BOOK = service("semaphore_threads", GTHREAD, load({"/book": 10}), 250)
_BOOK_ASYNC = service("semaphore_async", UVICORN, load({"/book": 15}), 250)
_UPLOADS = service("accept_uploads", SYNC, beside("/ping", 10, lambda clients: clients.upload("/upload", 1)))
_STREAMS = service("accept_streams", _FOUR, load({"/events": 6}, {"/ping": 8}))
_SILENT = service("plain", SYNC, beside("/ping", 10, lambda clients: clients.silent(1)))
_FORECAST = service("process_pool", UVICORN, load({"/forecast": 6}))
_APPLY = service("process_pool_apply", GTHREAD, load({"/long": 4}, {"/short": 8}))

TRUTHS = {
    "executor_resolver": Truth(
        "asyncio's default executor is full of read_folder; the client's resolver waits in it.",
        _RESOLVER, ("GET /quote", "GET /archive"), _EXECUTOR, ("own_executor",), (*_NEITHER, "upstream"),
        "default executor", _DEFAULT, "GET /archive|read_folder", change="an executor of its own",
        changed=edited(_RESOLVER, *_OWN),
    ),
    "executor_default": Truth(
        "asyncio's default executor is full of calls of an upstream of 300 ms.",
        _TRACK, ("GET /track",), _EXECUTOR, ("more_threads", "own_executor"), ("take_turns", "off_loop"),
        "default executor", _DEFAULT, "GET /track|fetch", change="ThreadPoolExecutor(24)",
        changed=edited(_TRACK, *_LARGER),
    ),
    "limiter_reports": Truth(
        "All 40 threads of def endpoints wait for the upstream of /report.",
        _REPORTS, ("GET /ping", "GET /report"), _EXECUTOR, ("more_threads", "own_executor"), _NEITHER,
        "anyio|Starlette|FastAPI|limiter", 40, "GET /report", change="total_tokens = 100",
        changed=edited(_REPORTS, ("total_tokens = 40", "total_tokens = 100")),
    ),
    "limiter_own": Truth(
        "The limiter of 2 is full of draw, which asks an upstream.",
        _PAGES, ("GET /page",), ("executor", "semaphore"), ("more_threads", "shorten_hold", "own_executor"),
        ("take_turns", "off_loop", "to_thread"), "imiter", 2, "GET /page|draw", change="CapacityLimiter(16)",
        changed=edited(_PAGES, ("CapacityLimiter(2)", "CapacityLimiter(16)")),
    ),
    "executor_pdf": Truth(
        "The executor pdf of 2 is full of render, which asks an upstream.",
        _PDF, ("GET /invoice",), _EXECUTOR, ("more_threads",), _NEITHER,
        "pdf", 2, "GET /invoice|render", change="ThreadPoolExecutor(16)",
        changed=edited(_PDF, ("ThreadPoolExecutor(2", "ThreadPoolExecutor(16")),
    ),
    "executor_thumbs": Truth(
        "The executor images of 3 is full of convert; thumbnails wait behind it.",
        _THUMBS, ("GET /thumb",), _EXECUTOR, ("own_executor", "more_threads"), _NEITHER,
        "images", 3, "GET /convert|convert", change="ThreadPoolExecutor(16)",
        changed=edited(_THUMBS, ("ThreadPoolExecutor(3", "ThreadPoolExecutor(16")),
    ),
    "threads_gthread": Truth(
        "All 4 threads of gunicorn wait for the upstream of /slow.",
        _SERVER, ("GET /ping",), ("executor", "accept"), ("more_threads",), _NEITHER,
        "gthread|gunicorn", 4, "GET /slow", change="--threads 16",
        changed=service("threads_server", GTHREAD, _SERVER.load, 500),
    ),
    "threads_waitress": Truth(
        "All 4 threads of waitress wait for the upstream of /slow.",
        _SERVER_WAITRESS, ("GET /ping",), ("executor", "accept"), ("more_threads",), _NEITHER,
        "waitress", 4, "GET /slow", change="--threads 16",
        changed=service("threads_server", (*_WAITRESS, "16"), _SERVER.load, 500),
    ),
    "lock_refresh": Truth(
        "A lock is held over an upstream call of 400 ms.",
        _REFRESH, ("GET /price",), ("lock",), ("shorten_hold",), (*_NEITHER, "more_threads"),
        "[Ll]ock", None, "GET /refresh", change="no lock over the call",
        changed=edited(_REFRESH, ("    with lock:  # here\n", "    if True:\n")),
    ),
    "lock_async": Truth(
        "An asyncio lock is held over an upstream call of 400 ms.",
        _RENEW, ("GET /call",), ("lock",), ("shorten_hold",), (*_NEITHER, "more_threads"),
        "[Ll]ock", None, "GET /renew", change="no lock over the call",
        changed=edited(_RENEW, ("    async with lock:  # here\n", "    if True:\n")),
    ),
    "semaphore_threads": Truth(
        "The semaphore of 2 is held over an upstream call of 250 ms.",
        _BOOK, ("GET /book",), ("semaphore",), ("shorten_hold",), (*_NEITHER, "more_threads"),
        "[Ss]emaphore", 2, "GET /book", change="Semaphore(16)",
        changed=edited(_BOOK, ("Semaphore(2)", "Semaphore(16)")),
    ),
    "semaphore_async": Truth(
        "The semaphore of 3 is held over an upstream call of 250 ms.",
        _BOOK_ASYNC, ("GET /book",), ("semaphore",), ("shorten_hold",), (*_NEITHER, "more_threads"),
        "[Ss]emaphore", 3, "GET /book", change="Semaphore(16)",
        changed=edited(_BOOK_ASYNC, ("Semaphore(3)", "Semaphore(16)")),
    ),
    "accept_uploads": Truth(
        "The only worker reads the body of a client that sends slowly.",
        _UPLOADS, ("GET /ping",), ("accept", "executor"), ("proxy_buffers", "more_threads"), (*_NEITHER, "upstream"),
        holder="POST /upload|client", change="threads (a proxy that buffers does the same)",
        changed=service("accept_uploads", GTHREAD, _UPLOADS.load),
    ),
    "accept_streams": Truth(
        "All 4 threads of gunicorn write streams of events.",
        _STREAMS, ("GET /ping",), ("executor", "accept"), ("more_threads", "proxy_buffers"), _NEITHER,
        "", None, "GET /events", change="--threads 16", changed=service("accept_streams", GTHREAD, _STREAMS.load),
    ),
    "accept_silent": Truth(
        "The only worker waits for the first byte of a silent connection.",
        _SILENT, ("GET /ping",), ("accept", "executor"), ("proxy_buffers", "more_threads"), (*_NEITHER, "upstream"),
        holder="connection|client", line=False, change="threads (a proxy that buffers does the same)",
        changed=service("plain", GTHREAD, _SILENT.load),
    ),
    "process_pool": Truth(
        "The pool of one process is full of forecasts.",
        _FORECAST, ("GET /forecast",), ("process_pool",), ("more_workers",), (*_NEITHER, "more_threads"),
        "(?i)process", 1, "GET /forecast|forecast", change="ProcessPoolExecutor(6)",
        changed=edited(_FORECAST, ("ProcessPoolExecutor(1)", "ProcessPoolExecutor(6)")),
    ),
    "process_pool_apply": Truth(
        "Both processes of multiprocessing's pool are busy with /long.",
        _APPLY, ("GET /short",), ("process_pool",), ("more_workers",), (*_NEITHER, "more_threads"),
        "[Pp]ool", 2, "GET /long", change="Pool(8)", changed=edited(_APPLY, (".Pool(2)", ".Pool(8)")),
    ),
}  # fmt: skip
