"""Services with one trouble each, as people are called for; they know nothing of Greenlane.

Work is counted in CPU time of the thread, so that a busy machine does not give a service less to do. Upstreams come by
the environment: `UPSTREAM`, or one `UPSTREAM_<NAME>` each.
"""
