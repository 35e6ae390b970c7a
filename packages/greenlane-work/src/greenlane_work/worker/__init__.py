"""What runs in a Celery worker: `greenlane celery APP`, or `celery -A APP worker -P custom`. An order's way through it.

    Received -> Parked -> Running -> Finished(outcome) -> Leaving -> Ended

1. `consumer`: our step in Celery's consumer; `receiving` and `redis_take` read messages from the broker.
2. `messages`: a message becomes an order; `memory` knows whether it was here before.
3. `flow`: whatever happens to the order is an event (`lifecycle`). `transitions` is the table: from state and event to
   the next state and its effects. `effects` is the one place that does them.
4. `parking`: orders wait in one queue for each upstream key until the key's limit and breaker let them start.
5. `runs`: an order runs in a thread (`threads`) or a greenlet (`green`), within its time limits.
6. `execution`: the store is asked before the call; `outcomes` reads exceptions, `verdicts` a whole run; `retries` says
   when to try again.
7. `queues` and `publisher` send copies back, or to the dead letters; `results` writes the ends of orders down.

`adapter` is where Celery's own bookkeeping is met. `pool` puts these together, `unsafe_settings` refuses what loses
orders, `intake` says how many are received, `shutdown` ends the worker within its time.
"""
