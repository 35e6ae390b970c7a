"""Which worker accepts: servers of several versions, TCP and Unix sockets, with and without `--reuse-port`.

options        the command and its options
environments   throw-away virtual environments, one a server's version
contenders     what is compared
answering      the application that all serve; counts what a worker accepts at once
serving        a contender that runs
measuring      a dataclass a table: share of each worker, bursts, pinning by keep-alive, `--worker-connections`
acceptor       four processes that accept by one of the kernel's ways, without a server
kernel         who of them gets the next connection
runner         all of it in turn
shown          tables, and the drawings of the page
"""
