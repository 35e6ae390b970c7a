"""What runs in a Celery worker: `greenlane celery APP`, or `celery -A APP worker -P custom`. An order's way through it.

1. `consumer`: our step in Celery's consumer; `receiving` and `redis_take` read messages from the broker.
2. `messages`: a message becomes an order.
3. `flow`: the order is parked, run, tried again or settled.
4. `parking`: orders wait in one queue for each upstream key until the key's limit and breaker let them start.
5. `runs`: an order runs in a thread (`threads`) or a greenlet (`green`), within its time limits.
6. `execution`: the store is asked before the call; `outcomes` reads exceptions; `retries` says when to try again.
7. `settlement`: the message is acknowledged; `queues` and `publisher` send copies back, or to the dead letters.

`pool` puts these together, `unsafe_settings` refuses what loses orders, `shutdown` ends the worker within its time.
"""
