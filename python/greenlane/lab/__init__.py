"""The lab: how a service behaves as its work and its concurrency grow, measured (`greenlane lab`).

processes     children on loopback: started, watched through /proc, ended
environment   the machine and the versions that a result belongs to
samples       requests of a run as columns; how they are kept (Parquet)
statistics    percentiles and intervals
listeners     listening sockets as the kernel lists them
accept/       which worker gets the connection
doctor/       settings of a server's command that do nothing or harm
"""
