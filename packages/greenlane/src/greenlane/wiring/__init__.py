"""The only place that puts the parts together for one process: permits, recording, placement, what is shown of them.

- `process` — permits and their probes, for a host
- `recording` — the recorder and its probes, with or without permits
- `placed_calls` — `greenlane.run` and `@greenlane.placed`; `placement`, `executors` — what those run on
- `shown` — what the control socket shows of all of them

Nothing is loaded by this package itself: a process loads what its settings ask for.
"""
