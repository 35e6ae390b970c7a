"""`greenlane try`: a service under load, stock and with Greenlane, one after the other.

- `command` — its arguments, and what happens in which order
- `service` — gunicorn with the application, and what one request of it costs
- `strip` — riders who ask for the first route, and what they see
- `numbers` — what the load has met, as lines
"""
