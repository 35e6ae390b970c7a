"""What a recording says: the analyses behind `greenlane report`, and its page, text, rows and exports.

    subject      the recording as it is looked at here, and a part of it
    split        what a latency consists of; per route: mean and percentiles, and their parts
    tail         per route: what the slow ones exceed the middle by, by kind and culprit
    own          where jobs spent their own time: CPU by line, I/O, waiting
    culprits     who made whom wait, at which line of code, in which functions
    uncut        slices that the interpreter could not cut
    lines        the line of a holder
    clocks       upstream's clock beside the application's; arrival, spawn and handler; deadlines of branches
    workers      workers against each other; how the load came; signals for an autoscaler
    ending       what was running when a process ended
    overhead     what the recording itself cost
    turns        who took turns for permits: what each route paid and gained
    cores        a CPU quota, native threads of libraries
    waiting      what jobs waited for, by resource: who waited, who had it
    remedies     what helps against what
    verdict      the one sentence, its line, remedy and check
    notes        what else deserves a sentence: late replies, clocks that start late, uneven workers
    differences  two recordings beside each other
    story        one job's calls: the upstream's own clock, the wire's, the application's
    study        all of it together, computed once
    json_rows    as rows of `--json`
    text         for a terminal
    brief        on one screen
    page, views  as one HTML file
    trace, pprof  for other tools

Everything but `page`, `views` and `text` is a pure function of rows.
"""
