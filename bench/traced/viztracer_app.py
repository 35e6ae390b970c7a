"""The pricing service with viztracer in the worker, by its API: a ring of its default size, written nowhere.

viztracer's command line traces the process that it starts, not the workers that gunicorn forks after its threads.
"""

from viztracer import VizTracer

tracer = VizTracer(verbose=0)
tracer.start()
