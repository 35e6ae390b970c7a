"""pos: orders go from a backend over RabbitMQ and Celery workers to merchants. README.md is beside this package."""
