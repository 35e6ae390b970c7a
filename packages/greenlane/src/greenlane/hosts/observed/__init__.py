"""Hosts that know nothing of Greenlane, observed: each request and task becomes a job of the recording.

- `program` — starts the recording, and places the observers of the hosts below, each when its host is imported
- `wsgi`, `asgi_app` — an application under observation

| host | a job is | arrival |
|---|---|---|
| gunicorn (sync, gthread, gevent) | a request | header, else the kernel's stamp of its bytes |
| werkzeug (`flask run`), wsgiref, `http.server` | a request | likewise |
| waitress, cheroot | a request | likewise |
| uvicorn, hypercorn (any ASGI application) | a request | header, else the kernel's stamp of its bytes |
| aiohttp's server | a request | likewise |
| Celery worker (prefork, gevent, threads) | a task | when it was published, or its ETA |

A program without a host has no jobs of its own: `greenlane.record.job` makes them.
"""

__all__ = ["OBSERVERS"]

#: Module of a host -> what observes it: loaded, and placed, when the program imports that host.
OBSERVERS = {
    "gunicorn.workers.base": "greenlane.hosts.observed.gunicorn:place",
    "http.server": "greenlane.hosts.observed.http_server:place",
    "wsgiref.simple_server": "greenlane.hosts.observed.wsgi_servers:place_wsgiref",
    "waitress.server": "greenlane.hosts.observed.wsgi_servers:place_waitress",
    "waitress.channel": "greenlane.hosts.observed.wsgi_servers:place_waitress_channel",
    "waitress.task": "greenlane.hosts.observed.wsgi_servers:place_waitress_task",
    "cheroot.wsgi": "greenlane.hosts.observed.wsgi_servers:place_cheroot",
    "celery.signals": "greenlane.hosts.observed.celery:place",
    "uvicorn.protocols.http.h11_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.protocols.http.httptools_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.protocols.http.zttp_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.protocols.http.zttp_h2_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.server": "greenlane.hosts.observed.asgi:place_uvicorn_end",
    "hypercorn.app_wrappers": "greenlane.hosts.observed.asgi:place_hypercorn",
    "quart.app": "greenlane.hosts.observed.asgi:place_quart",
    "aiohttp.web_protocol": "greenlane.hosts.observed.aiohttp:place",
}
