"""The pricing service with yappi in the worker, by its API: CPU clock, contexts by thread or by greenlet."""

import sys

import yappi

yappi.set_clock_type("cpu")
if "gevent.monkey" in sys.modules:
    yappi.set_context_backend("greenlet")
yappi.start()
