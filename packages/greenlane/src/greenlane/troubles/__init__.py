"""What keeps a process from serving, found from outside its requests by looks a few times a second.

- `trouble` — one finding, and since when it lasts
- `stacks` — where a thread stands, in words
- `loops` — a blocked event loop
- `thread_pools` — a pool whose threads are all busy while work waits, and what they do
- `connection_pools` — threads that wait for a connection of a pool, and who holds them
- `supervisors` — a process that serves nobody itself
- `shares` — time that garbage collection, a CPU quota, and calls that keep the GIL take
"""
