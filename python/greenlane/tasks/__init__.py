"""Orders that wait for slow upstreams: what a worker knows of them, beside the calls themselves.

- `store` — which orders were called, and how that ended
"""
