"""Ten simulated merchants, each a process of its own that remembers every call.

- names: who there is
- law: how a merchant behaves, changed live
- conduct: one call, from its arrival to what is answered, and what is remembered of it
- serve: the process: HTTP, and gRPC for one of them
"""
