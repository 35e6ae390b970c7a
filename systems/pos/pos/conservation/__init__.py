"""Conservation: orders go through a real broker to real workers, faults strike, and the books are balanced.

    python -m pos.conservation --orders 2000 --faults worker-kill,broker-kill --contenders gevent-200,greenlane

- `books`: the balance, pure: done, dead, waiting, lost, doubled, by what merchants and queues say
- `merchant`: merchants that write down every call and behave as they are told
- `orders`: the Celery application of every contender; `contenders`: how each is started, and again when it dies
- `publisher`: N orders at a bounded rate, each confirmed by the broker
- `brokers`, `servers`: what is struck: broker, stores and their disks
- `site`: all of it running; `faults`: what is done to it; `cell`: one contender under one fault
- `command`: the command line, the table, conservation.md
"""
