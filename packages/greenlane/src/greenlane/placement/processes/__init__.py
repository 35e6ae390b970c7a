"""Process workers: `executor.ProcessExecutor`.

    executor          calls, queued and given to workers
    worker            a worker as its parent sees it, kept by a thread: start, death, replacement
    child             the worker itself
    messages, memory  what passes between the two: pickles, and buffers in shared memory
    parcel, answers   calls and results, packed
    names             functions cross by the name that imports them

Nothing is imported here: a worker starts sooner when it imports its own half (`child`) alone.
"""
