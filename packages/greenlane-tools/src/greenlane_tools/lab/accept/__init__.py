"""Which worker accepts: servers of several versions, TCP and Unix sockets, with and without `--reuse-port`.

options        the command and its options
contenders     what is compared, in throw-away virtual environments, one a server's version
answering      the application that all serve; counts what a worker accepts at once
measuring      a contender serves; a dataclass a table: share of each worker, bursts, pinning, `--worker-connections`
acceptor       four processes that accept by one of the kernel's ways, without a server
kernel         who of them gets the next connection
runner         all of it in turn, and its tables
"""
