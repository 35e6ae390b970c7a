"""Our own threads: made from the operating system's, also under gevent (`unpatched`), and unnoticed by forks."""
