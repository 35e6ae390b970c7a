"""The lab: how a service behaves as its work and its concurrency grow, measured (`greenlane lab`).

processes     children on loopback: started, watched through /proc, ended; blocks of several
ending        how a demo or a measuring command ends; Ctrl-C and SIGTERM end it alike
arguments     what a demo is asked for: options as fields of a dataclass
demo          what demos share: start and end, JSON, row fields, tables and their cells
written       what a measuring command leaves in a folder
environment   the machine, its speed, and the versions that a result belongs to
samples       requests of a run as columns; how they are kept (Parquet)
statistics    percentiles and intervals; Student's t; a statistic of thousands of resamples at once
differences   one side against another: difference, ratio, how likely by chance
verdict       a claim against what was measured, with its interval over repetitions
relay         a TCP relay whose cable can be cut, slowed and watched
listeners     listening sockets as the kernel lists them
rabbitmq      what a RabbitMQ of one's own needs
experiment/   what measuring commands have in common: options, turns, samples, claims, tables, page
load/         open-loop load, timed from the scheduled send
scenario/     scenarios as files: what is served, what is asked of it, what goes wrong
run/          a scenario run: contenders interleaved, kept, judged (`greenlane lab run`)
pricing       the pricing scenario with options of its own (`greenlane demo pricing`)
compare/      results laid over each other: better, worse, or the same (`greenlane lab compare`)
accept/       which worker gets the connection
doctor/       settings of a server's command that do nothing or harm
part3/        Lyft's benchmark of green threads by three clocks
placement/    where a function runs best
"""
