"""Fixtures of the host tests."""

from __future__ import annotations

from tests.hosts.gunicorn_server import gunicorn, gunicorn_refused

__all__ = ["gunicorn", "gunicorn_refused"]
