"""The order backend: answers 202 when the broker has an order, and tells what has become of it.

- orders: what is known of each order, and of each merchant's flow
- publisher: orders to the broker, off the loop; orders that it makes up itself
- application: the HTTP service, its page, how many orders are diverted
"""
