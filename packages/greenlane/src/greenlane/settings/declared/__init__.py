"""The declarations: each setting's default, unit, range, meaning, and reason for that default. One subject a file.

- `permits`, `learned`, `placement` — computing: who may, what was learned, where
- `deadlines`, `worker` — one process that serves
- `serve`, `clients` — the tree of `greenlane serve` and what its clients may do
- `tasks` — workers of orders
- `watching` — control and recording
- `patterns` — what texts may look like
"""
