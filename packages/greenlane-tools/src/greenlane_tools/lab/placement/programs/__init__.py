"""What runs in processes of its own.

cell      one run on asyncio, uvloop or gevent: `python -m greenlane_tools.lab.placement.programs.cell JOB`
dirty     the same inside a gunicorn with dirty arbiters: its ASGI application, and its dirty application
job       the input of a run, and its result
beats     heartbeat and callers on a loop
hub       heartbeat and callers on gevent's hub
places    how each contender places a call from a loop
train     trains the model of the function `catboost`
"""
