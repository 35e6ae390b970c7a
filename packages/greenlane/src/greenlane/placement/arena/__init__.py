"""Process workers over shared memory: `executor.ArenaExecutor`, `options.ArenaOptions`.

Nothing is imported here: a worker starts sooner when it imports its own half (`child`) alone.
"""
