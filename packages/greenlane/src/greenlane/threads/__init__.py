"""Our own threads: made from the operating system's, also under gevent (`unpatched`), and unnoticed by forks.

Here too: which cores the threads of a worker use (`one_core`).
"""
