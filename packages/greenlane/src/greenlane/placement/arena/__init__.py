"""Process workers over shared memory: `executor.ArenaExecutor`, `options.ArenaOptions`.

    executor          calls, queued and given to workers
    keeper, launch    a thread that starts workers, notices their ends and replaces them
    worker, child     a worker as its parent sees it; the worker itself
    protocol          what passes between the two
    parcel, answers   calls and results, packed
    names             functions cross by the name that imports them
    memory            memory files; arrays that all workers see
    homes             where answers ring

Nothing is imported here: a worker starts sooner when it imports its own half (`child`) alone.
"""
