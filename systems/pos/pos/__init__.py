"""Orders on their way to merchants: a backend, RabbitMQ, workers, and ten merchants that behave as merchants do."""
