"""What a recording says: the analyses behind `greenlane report`, and its page, text, rows and exports.

    subject      the recording as it is looked at here, and a part of it
    percentiles  nearest ranks, and the jobs around one
    parts        what a latency consists of
    split        per route: mean and percentiles, and their parts
    tail         per route: what the slow ones exceed the middle by, by kind and culprit
    matrix       who made whom wait
    places       the line of code at which a culprit was
    clocks       upstream's clock beside the application's; arrival, spawn and handler
    fanout       branches that miss a job's deadline
    arrivals     how the load came: Little's law, open or closed
    balance      workers against each other; busy share and lag over time
    hog          one long burst or many short ones
    native       slices that the interpreter could not cut
    costs        where small costs hide
    findings     what else deserves a sentence: late replies, blocked loops, executors, overload
    scaling      signals for an autoscaler
    gain         what permits would change, estimated
    verdict      the one sentence; `words` has the names of culprits that are no routes
    story        one job's calls: the upstream's own clock, the wire's, the application's
    study        all of it together, computed once
    rows         as rows of `--json`
    text         for a terminal
    trace, folded   for other tools
    page, views/    as one HTML file

Everything but `page`, `views` and `text` is a pure function of rows.
"""
