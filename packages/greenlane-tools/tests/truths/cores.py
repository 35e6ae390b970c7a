"""Truths about the GIL, loops, quotas, the collector and native threads."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict, mmap_key
from tests.truths.truth import GTHREAD, PERMITS, UVICORN, Truth, edited, load, service


def _dead_workers(folder: Path) -> None:
    """Files of 800 workers that have ended, with 60 counters each."""
    (folder / "metrics").mkdir()
    for pid in range(800):
        values = MmapedDict(str(folder / "metrics" / f"counter_{pid}.db"))
        for number in range(60):
            key = mmap_key("requests", "requests_total", ["route"], [f"/{number}"], "Requests.")
            values.write_value(key, 7.0, 0.0)
        values.close()


_MERGED = {"PROMETHEUS_MULTIPROC_DIR": "metrics"}
_BLAS = {"OPENBLAS_NUM_THREADS": "16"}
_NATIVE = ("machine", "gil", "executor")
#: What cannot help against most of these.
_OFTEN = ("take_turns", "more_threads", "off_loop")
_ONE = {"OPENBLAS_NUM_THREADS": "1"}

_REGEX = service("c_regex", GTHREAD, load({"/check": 1}, {"/ping": 10}))
_JSON = service("c_json", GTHREAD, load({"/restore": 1}, {"/ping": 10}))
_METRICS = service(
    "gil_metrics", GTHREAD, load({}, {"/metrics": 2, "/item": 15}), env=_MERGED, redis=True, prepare=_dead_workers
)
_EXPORT = service("gil_export", GTHREAD, load({"/export": 3}, {"/offer": 8}), 10)
_DIFF = service("gil_diff", GTHREAD, load({"/diff": 3}, {"/page": 8}), redis=True)
_BOTO = service("loop_boto", UVICORN, load({"/photo": 2}, {"/ping": 10}), 250)
_AVATAR = service("loop_requests", (), load({"/avatar": 2}, {"/ping": 10}), 300)
_SUM = service("loop_psycopg", UVICORN, load({"/sum": 2}, {"/ping": 10}), postgres=True)
_TOTALS = service("loop_compute", UVICORN, load({"/totals": 2}, {"/ping": 10}))
_ROWS = service("loop_encode", UVICORN, load({"/rows": 2}, {"/ping": 10}))
_QUOTA = service("quota_threads", GTHREAD, load({}, {"/page": 20}), cores=0.3)
_QUOTA_LOOP = service("quota_loop", UVICORN, load({}, {"/search": 25}), cores=0.2)
_COLLECT = service("gc_collect", GTHREAD, load({"/import": 1}, {"/ping": 10}))
_GROWTH = service("gc_growth", GTHREAD, load({"/reload": 1}, {"/ping": 10}))
_RANK = service("blas_threads", GTHREAD, load({"/rank": 3}), env={"OPENBLAS_NUM_THREADS": "4"})
_SOLVE = service("blas_solve", GTHREAD, load({"/solve": 4}, {"/ping": 10}), env=_BLAS)

_COUNT = "'import json, sys; print(len(json.load(sys.stdin)))'"
_IN_A_PROCESS = (
    ("import json\n", "import json\nimport subprocess\nimport sys\n"),
    ("str(len(json.loads(backup)))",
     f"subprocess.run([sys.executable, '-c', {_COUNT}], input=backup.encode(), capture_output=True).stdout"),
)  # fmt: skip
_ENCODED = (
    ("import FastAPI\n", "import FastAPI, Response\n"),
    ("import BaseModel\n", "import BaseModel, TypeAdapter\n"),
    ('\n@app.get("/rows")', 'encoded = TypeAdapter(list[Row]).dump_json(rows)\n\n\n@app.get("/rows")'),
    (" -> list[Row]:", ":"),
    ("    return rows", "    return Response(encoded)"),
)

TRUTHS = {
    "c_regex": Truth(
        "One call of re keeps the GIL for a second.",
        _REGEX, ("GET /ping",), ("c_call",), ("own_process",), _OFTEN,
        holder="GET /check", change="a pattern that does not backtrack",
        changed=edited(_REGEX, ("(a+)+$", "a+$")),
    ),
    "c_json": Truth(
        "One call of json keeps the GIL for half a second.",
        _JSON, ("GET /ping",), ("c_call",), ("own_process",), _OFTEN,
        holder="GET /restore", change="in a process of its own",
        changed=edited(_JSON, *_IN_A_PROCESS),
    ),
    "gil_metrics": Truth(
        "/metrics merges hundreds of files in Python, and what it makes triggers the collector.",
        _METRICS, ("GET /item",), ("gil",), ("take_turns", "own_process"), ("more_threads", "off_loop", "freeze"),
        holder="GET /metrics", change="files of dead workers are removed",
        changed=service("gil_metrics", GTHREAD, _METRICS.load, env=_MERGED, redis=True,
                        prepare=lambda folder: (folder / "metrics").mkdir()),
    ),
    "gil_export": Truth(
        "/export writes indented JSON in Python; each of an offer's five calls waits for the GIL.",
        _EXPORT, ("GET /offer",), ("gil",), ("take_turns",), ("more_threads", "off_loop", "to_thread"),
        holder="GET /export", change="Greenlane's worker",
        changed=service("gil_export", PERMITS, _EXPORT.load, 10), most_frac=0.8,
    ),
    "gil_diff": Truth(
        "/diff compares in Python; each of a page's twenty calls waits for the GIL.",
        _DIFF, ("GET /page",), ("gil",), ("take_turns",), ("more_threads", "off_loop", "to_thread"),
        holder="GET /diff", change="Greenlane's worker",
        changed=service("gil_diff", PERMITS, _DIFF.load, redis=True), most_frac=0.8,
    ),
    "loop_boto": Truth(
        "boto3 blocks the loop for 250 ms.",
        _BOTO, ("GET /ping",), ("loop",), ("to_thread",), ("off_loop", "take_turns", "more_threads"),
        holder="GET /photo", change="await asyncio.to_thread(...)",
        changed=edited(_BOTO, ("import os\n", "import asyncio\nimport os\n"),
                       ("store.get_object(", "await asyncio.to_thread(store.get_object, ")),
    ),
    "loop_requests": Truth(
        "requests blocks the loop for 300 ms.",
        _AVATAR, ("GET /ping",), ("loop",), ("to_thread",), ("off_loop", "take_turns", "more_threads"),
        holder="GET /avatar", change="await asyncio.to_thread(...)",
        changed=edited(_AVATAR, ("import os\n", "import asyncio\nimport os\n"),
                       ("requests.get(", "(await asyncio.to_thread(requests.get, "), ("=20).text", "=20)).text")),
    ),
    "loop_psycopg": Truth(
        "psycopg blocks the loop for 250 ms.",
        _SUM, ("GET /ping",), ("loop",), ("to_thread",), ("off_loop", "take_turns", "more_threads"),
        holder="GET /sum", change="def instead of async def", changed=edited(_SUM, ("async def total", "def total")),
    ),
    "loop_compute": Truth(
        "A coroutine computes for 100 ms.",
        _TOTALS, ("GET /ping",), ("loop",), ("off_loop",), ("to_thread", "take_turns", "more_threads"),
        holder="GET /totals", change="await greenlane.run(totals)",
        changed=edited(_TOTALS, ("from fastapi", "import greenlane\nfrom fastapi"),
                       ("return totals()", "return await greenlane.run(totals)")),
    ),
    "loop_encode": Truth(
        "8,000 rows are checked and encoded on the loop after the endpoint's end.",
        _ROWS, ("GET /ping",), ("loop",), ("encode_off_loop",), ("take_turns", "more_threads"),
        holder="GET /rows", change="encoded once, as bytes",
        changed=edited(_ROWS, *_ENCODED),
    ),
    "quota_threads": Truth(
        "The container has 0.3 cores and is throttled.",
        _QUOTA, ("GET /page",), ("quota",), ("more_quota",), ("take_turns", "more_threads", "off_loop", "to_thread"),
        change="no quota", changed=service("quota_threads", GTHREAD, _QUOTA.load),
    ),
    "quota_loop": Truth(
        "The container has 0.2 cores and is throttled.",
        _QUOTA_LOOP, ("GET /search",), ("quota",), ("more_quota",), ("take_turns", "more_threads", "to_thread"),
        change="no quota", changed=service("quota_loop", UVICORN, _QUOTA_LOOP.load),
    ),
    "gc_collect": Truth(
        "/import calls gc.collect(), which looks at 1.5 million objects.",
        _COLLECT, ("GET /ping",), ("collector",), ("freeze",), _OFTEN,
        holder="GET /import", change="gc.freeze() after the start",
        changed=edited(_COLLECT, ("range(1_500_000)]\n", "range(1_500_000)]\ngc.freeze()\n")),
    ),
    "gc_growth": Truth(
        "/reload makes 800,000 objects, at which the collector looks again and again.",
        _GROWTH, ("GET /ping",), ("collector", "gil"), ("freeze", "take_turns"), ("more_threads", "off_loop"),
        holder="GET /reload|collector", change="the collector is off while it is made",
        changed=edited(_GROWTH, ("from flask", "import gc\n\nfrom flask"),
                       ("    cache[", "    gc.disable()\n    cache[")),
        most_frac=0.9,
    ),
    "blas_threads": Truth(
        "Each decomposition runs 4 threads of OpenBLAS on the cores of this machine.",
        _RANK, ("GET /rank",), _NATIVE, ("one_native_thread",), _OFTEN,
        "BLAS|blas", holder="GET /rank|BLAS|blas", change="OPENBLAS_NUM_THREADS=1",
        changed=service("blas_threads", GTHREAD, _RANK.load, env=_ONE),
    ),
    "blas_solve": Truth(
        "Each inverse runs 16 threads of OpenBLAS on the cores of this machine.",
        _SOLVE, ("GET /solve", "GET /ping"), _NATIVE, ("one_native_thread",), _OFTEN,
        "BLAS|blas", holder="GET /solve|BLAS|blas", change="OPENBLAS_NUM_THREADS=1",
        changed=service("blas_solve", GTHREAD, _SOLVE.load, env=_ONE),
    ),
}  # fmt: skip
