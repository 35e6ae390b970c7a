"""Hosts that know nothing of Greenlane, observed: each request and task becomes a job of the recording.

- `program` — starts the recording, and places the observers of the hosts below, each when its host is imported
- `wsgi`, `asgi_app` — an application under observation

| host | a job is | arrival |
|---|---|---|
| gunicorn (sync, gthread, gevent, asgi) | a request | header, else the kernel's stamp of its bytes |
| werkzeug (`flask run`), wsgiref, `http.server` | a request | likewise |
| waitress, cheroot, gevent.pywsgi | a request | likewise |
| uvicorn, hypercorn (ASGI, WSGI) | a request | header, else the kernel's stamp of its bytes |
| daphne, granian (ASGI, RSGI) | a request | likewise |
| granian (WSGI) | a request | header, else unknown ("handler"): it waits unseen for a thread |
| aiohttp's server, tornado | a request | header, else the kernel's stamp of its bytes |
| Celery worker (prefork, gevent, threads) | a task | when it was published, or its ETA |

A WebSocket is no job. A program without a host has no jobs of its own: `greenlane.record.job` makes them.
"""
