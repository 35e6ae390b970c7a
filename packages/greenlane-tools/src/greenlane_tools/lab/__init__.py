"""The lab: how a service behaves as its work and its concurrency grow, measured (`greenlane lab`).

processes     children on loopback: started, watched through /proc, ended
block         something of several parts that runs while a with-block does
interruption  Ctrl-C and SIGTERM end a run alike
environment   the machine and the versions that a result belongs to
samples       requests of a run as columns; how they are kept (Parquet)
statistics    percentiles and intervals
listeners     listening sockets as the kernel lists them
rabbitmq      what a RabbitMQ of one's own needs
rotation      who goes first
written       what a measuring command leaves in a folder
accept/       which worker gets the connection
doctor/       settings of a server's command that do nothing or harm
resampling    a statistic of thousands of resamples at once
students_t    the t distribution, for few repetitions
verdict       a claim against what was measured
arguments     what a demo is asked for, in the house's form
differences   one side against another: difference, ratio, how likely by chance
load/         open-loop load, timed from the scheduled send
scenario/     scenarios as files: what is served, what is asked of it, what goes wrong
run/          a scenario run: contenders interleaved, kept, judged (`greenlane lab run`)
pricing       the pricing scenario with options of its own (`greenlane demo pricing`)
compare/      results laid over each other: better, worse, or the same (`greenlane lab compare`)
part3/        Lyft's benchmark of green threads by three clocks
"""
