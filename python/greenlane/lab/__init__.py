"""The lab: how a service behaves as its work and its concurrency grow, measured (`greenlane lab`).

processes     children on loopback: started, watched through /proc, ended
environment   the machine and the versions that a result belongs to
samples       requests of a run as columns; how they are kept (Parquet)
statistics    percentiles and intervals
queueing      what theory says of a closed loop on one CPU
part3         Lyft's benchmark of green threads by three clocks
"""
