"""The worker's main thread: accepts, reads heads, answers what needs no application, keeps deadlines, drains.

New and kept-alive connections wait here, never in a thread of the pool. A connection goes to the pool when the head of
a request is whole, and its thread parks it here again by itself: the main thread is not woken for that (an epoll set
may be changed from any thread; a descriptor reports once and is then silent until it is armed again).

The calls of each request (`recv`, `send`, `epoll_ctl`) cannot block and keep the GIL: see `_native.recv_now`.

Cost: a kept-alive request is one wake-up, one `recv` and one hand-over here, against gthread's select, unregister,
future, callback, pipe write, pipe read, register and two or more mode switches.

- `front` — the main thread: its turns, new connections, the drain
- `waiting` — where connections wait, and how one changes its owner
- `reading` — the main thread's own connections: heads in pieces, slow clients, those about to leave
- `passing` — a request whose head is whole: answered, refused, or given to the pool
- `overdue` — requests past their deadline; `gone` — clients that have left
- `served` — what the front needs of its worker
"""

from greenlane.hosts.gunicorn_front.front import Front
from greenlane.hosts.gunicorn_front.served import Served

__all__ = ["Front", "Served"]
