"""Ten simulated merchants, each a process of its own that remembers every call.

- names: who there is
- conduct: how a merchant behaves, changed live; one call, from its arrival to its answer, and what is remembered of it
- serve: the process: HTTP, and gRPC for one of them
"""
