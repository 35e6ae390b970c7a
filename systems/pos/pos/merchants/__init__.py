"""Ten simulated merchants, each a process of its own that remembers every call.

- names: who there is
- law: how a merchant behaves, changed live
- desk: what a merchant remembers: calls and effects of each order
- conduct: one call, from its arrival to what is answered
- serve: the process: HTTP, and gRPC for one of them
"""
