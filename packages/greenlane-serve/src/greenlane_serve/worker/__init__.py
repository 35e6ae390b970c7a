"""What a worker process of `greenlane serve` runs.

application   the application by its name, and its kind
wsgi          greenlane.hosts.gunicorn.Worker on one socket, without an arbiter
asgi          uvicorn on one socket
__main__      the process: `python -m greenlane_serve.worker`
"""
