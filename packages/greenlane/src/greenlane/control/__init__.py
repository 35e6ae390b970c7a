"""A process's control socket: what `greenlane top` reads and `greenlane mode` switches, live.

`server` is loaded by a process that has a `control_dir`, `client` by commands, `protocol` by both.

`show` of a process that records has a field "record": {"on", "jobs", "failed_jobs", "in_progress", "oldest_s",
"lag_ms_p99", "by_lag", "busy_ms", "busy_frac", "file_mb", "folder", "lost", "failed", "error", "routes": [{"route",
"jobs", "failed", "mean_ms", "p50_ms", "p99_ms", "cpu_ms", "io_ms", "wait_ms", "by_latency"}]}; counts and sums since
the recording's start, `oldest_s`: age of the oldest job in progress. `by_lag` {i: count} has latenesses below 2**i us,
`by_latency` jobs of up to 2**(i/4) us. `record` with "end": the recording of this process is over for good.

`learned` has a row a (route, phase): {"route", "phase", "samples", "expected_ms", "weight", "pinned", "released_frac"};
a placed function is one with "placement" and "reason" besides.

`show` of `greenlane serve` itself has a field "serve": see `greenlane_serve.status`.

`show` of a process that works off orders has a field "tasks": {"mode", "slots", "running", "parked", "most_parked",
"abandoned", "totals": {name: count}, "keys": [{"key", "running", "parked", "oldest_s", "limit", "breaker", "usual_ms",
"failed_frac", "slow_frac", "started", "ok", "failed", "timed_out", "refused"}]}; `breaker` opens or closes the breaker
of one key by hand.

Each process with a `control_dir` listens on `<control_dir>/<pid>.sock`, mode 0600. A connection carries one
request and one answer, a line of JSON each:

    {"do": "show"}                                        -> {"ok": true, "pid", "mode", "counters", "learned": [...]}
    {"do": "mode", "mode": "off", "route": null or text}  -> {"ok": true, "pid", "mode"}
    {"do": "record", "on": true, "end": false}            -> {"ok": true, "pid", "mode", "record"}
    {"do": "attach", "record_folder", "control_dir", "record_max_mb", "record_stacks"} -> as `record`
    {"do": "detach", "record_folder": null or text}       -> {"ok": true, "pid", "mode"}
    {"do": "breaker", "key": text, "state": "open"}       -> {"ok": true, "pid", "mode"}
    anything else                                         -> {"ok": false, "error", "hint"}

One daemon thread serves one connection after the other, each bounded in size and time; idle, it costs nothing. Nothing
that a client does, and nothing that goes wrong in here, reaches the process that is served.

Why files and connections, not process ids, decide what is alive: containers that share a directory do not see each
other's processes. A socket is made under a private name, listens, and is renamed into place; so a socket in place that
refuses connections belongs to nobody and may be removed.

Why `_socket` and `greenlane.threads.unpatched`: sockets, polls and the thread are the operating system's, also in a
process whose modules gevent replaces, before or later. Green ones would answer only when the loop has time.
"""
