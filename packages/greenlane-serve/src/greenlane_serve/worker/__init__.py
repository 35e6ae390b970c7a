"""What a worker process of `greenlane serve` runs.

application     the application by its name, and its kind
wsgi            greenlane.hosts.gunicorn.Worker on one socket, without an arbiter
asgi            uvicorn on one socket, and its protocol as it is used here
entry           what uvicorn calls for each request
bodies          bounds of a request's body
clocks          what requests cost; those that each have a thread (WSGI)
loop_clocks     those that share an event loop (ASGI)
ledger          what the parent is told
__main__        the process: `python -m greenlane_serve.worker`
"""
