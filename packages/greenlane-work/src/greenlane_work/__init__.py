"""Orders of a Celery worker: none lost, and none held up by somebody else's slow upstream."""
