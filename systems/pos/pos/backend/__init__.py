"""The order backend: answers 202 when the broker has an order, and tells what has become of it.

- orders: what is known of each order, and of each merchant's flow
- publisher: orders to the broker, off the loop
- demand: orders that it makes up itself
- rollout: how many orders are diverted; watch: what Greenlane's workers tell of themselves
- application: the HTTP service
"""
